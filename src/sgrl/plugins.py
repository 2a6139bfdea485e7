"""Code from outside the package, `module:name`: imported only if the user named or trusted it.

A run's folder is data, and whoever wrote it may be a stranger. So what its files name is not
imported: a name stands for what is registered, or for something in a module that the user named
in this process, by an option such as `--method module:Class`, by `--trust module`, by
`trust=("module",)` from Python or in the environment variable SGRL_TRUST. Child processes and
workers are handed the modules that `TRUST` has. What lies in the folder of a run, or in a folder
of runs, is never imported, whoever asks for it.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Annotated

import tyro

VARIABLE = "SGRL_TRUST"
"""The environment variable: names of modules, with commas between them."""
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

TrustOption = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="MODULE",
        help="Module of your own, such as mine or package.module, that may be imported if a run "
        "names it: this runs its code.",
    ),
]
"""`--trust`, which every command has that reads runs."""


class Trust:
    """What may be imported in this process."""

    def __init__(self) -> None:
        self._modules: dict[str, None] = {}
        self._runs: dict[Path, None] = {}
        self._folders_of_runs: dict[Path, None] = {Path("runs"): None}

    def add(self, modules: Iterable[str]) -> None:
        """Let modules, and what is in those that are packages, be imported."""
        for module in modules:
            if not MODULE.fullmatch(module):
                raise ValueError(
                    f"--trust takes the name of a module, such as mine or package.module, not "
                    f"{module!r}"
                )
            self._modules[module] = None

    def add_named(self, names: Iterable[str]) -> None:
        """Let the modules be imported of those names that are `module:name`: the user gave them."""
        modules = (name.partition(":")[0] for name in names if ":" in name)
        self.add(module for module in modules if MODULE.fullmatch(module))

    def modules(self) -> tuple[str, ...]:
        """Those that were added, and those of the environment variable."""
        named = (name.strip() for name in os.environ.get(VARIABLE, "").split(","))
        return tuple(dict.fromkeys((*self._modules, *filter(None, named))))

    def covers(self, module: str) -> bool:
        """Whether a module, or a package that it is in, may be imported."""
        return any(f"{module}.".startswith(f"{one}.") for one in self.modules())

    def distrust(self, *, run: Path | None = None, runs: Path | None = None) -> None:
        """Let nothing be imported that lies in the folder of a run, or in a folder of runs."""
        if run is not None:
            self._runs[Path(os.path.abspath(run))] = None
        if runs is not None:
            self._folders_of_runs[Path(os.path.abspath(runs))] = None

    def refusing(self, place: Path) -> Path | None:
        """The folder because of which a file may not be imported."""
        # A folder that is worked in, and one beside a run that the Python path leads into, is one
        # of code, too.
        here, path = Path.cwd(), [Path(entry or ".") for entry in sys.path]
        beside = dict.fromkeys(run.parent for run in self._runs)
        folders = [
            *self._runs,
            *(one for one in self._folders_of_runs if not _lies_in(here, one)),
            *(one for one in beside if not any(_lies_in(entry, one) for entry in (here, *path))),
        ]
        return next((folder for folder in folders if _lies_in(place, folder)), None)


TRUST = Trust()
"""What this process trusts."""


def trust(*modules: str) -> None:
    """Let modules of yours be imported, in this process, where a run's settings name them.

    That runs their code. A package stands for all that is in it.
    """
    TRUST.add(modules)


def import_named(name: str, what: str) -> object:
    """What `module:name` stands for; ValueError, in a line, if it can't or must not be had.

    `what` is said of it: "method", "algorithm". The module is imported from the working folder
    too, as with `python -m`, and nothing is before it is known to be trusted and where it lies.
    """
    module_name, _, attribute = name.partition(":")
    if not MODULE.fullmatch(module_name) or not attribute.isidentifier():
        raise ValueError(
            f"the {what} {name!r} is not the name of anything: it would be module:name"
        )
    if not TRUST.covers(module_name):
        raise ValueError(
            f"the {what} {name} would import the module {module_name} and run its code, which you "
            f'did not ask for: to allow it, add --trust {module_name} (Python: trust=("'
            f'{module_name}",), environment: {VARIABLE}={module_name})'
        )
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    for place in _places(module_name):
        if folder := TRUST.refusing(place):
            raise ValueError(
                f"the {what} {name} would run {place}, which lies in {folder}: nothing in a folder "
                "of runs is imported; move the module elsewhere"
            )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise ValueError(
                f"the {what} {name} needs the module {missing}, which can't be found from {here}: "
                "go to the folder that it lies in, install it, or add its folder to PYTHONPATH"
            ) from None
        raise ValueError(f"the {what} {name} can't be imported: {in_a_line(error)}") from error
    if not hasattr(module, attribute):
        classes = [
            own
            for own, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module_name
        ]
        near = difflib.get_close_matches(attribute, classes, n=1, cutoff=0.3) or classes[-1:]
        hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
        raise ValueError(f"the module {module_name} has no {attribute!r}{hint}")
    found: object = getattr(module, attribute)
    return found


def in_a_line(error: Exception, file: str | None = None) -> str:
    """An error with where it came up: in a file, if one is given."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames[1:] if "importlib" not in frame.filename]
    if file is not None:
        own = [frame for frame in own if frame.filename == file]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}{place}"


def _places(module: str) -> Iterator[Path]:
    """The files and folders from which a module and the packages around it would be imported.

    Found as `import` finds them, but without running a package to find what is in it.
    """
    path: list[str] | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = _find(name, path)
        if spec is None:
            return  # `import` will say so
        path = list(spec.submodule_search_locations or [])
        yield from map(Path, path)
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin)


def _find(name: str, path: list[str] | None) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    specs = (finder.find_spec(name, path, None) for finder in sys.meta_path)
    try:
        return next((spec for spec in specs if spec is not None), None)
    except KeyError:
        # A folder without an __init__.py, in a package that is not imported yet.
        spec = ModuleSpec(name, None, is_package=True)
        folders = (Path(folder) / name.rpartition(".")[2] for folder in path or ())
        spec.submodule_search_locations = [str(one) for one in folders if one.is_dir()]
        return spec


def _lies_in(place: Path, folder: Path) -> bool:
    """Whether it does by its name or, links followed, in truth."""
    return any(
        Path(name(place)).is_relative_to(name(folder))
        for name in (os.path.abspath, os.path.realpath)
    )
