"""A name of one package is not used for something else in another."""

from __future__ import annotations

import ast

from tests.style.allowed import Counts, beyond, collect
from tests.style.source import FILES, NAMED, module_name, package, tree


def find() -> Counts:
    """The modules, and the public classes and functions, that more than one package has.

    A command and its file are named as they are called on the command line.
    """
    owners: dict[tuple[str, str], set[str]] = {}
    for file in FILES:
        owner = package(module_name(file))
        if owner == "cli":
            continue
        if file.stem not in ("__init__", "__main__"):
            owners.setdefault(("file", file.name), set()).add(owner)
        for node in tree(file).body:
            if isinstance(node, NAMED) and not node.name.startswith("_"):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                owners.setdefault((kind, node.name), set()).add(owner)
    shared = [(kind, name) for (kind, name), packages in owners.items() if len(packages) > 1]
    return collect(shared)


def test_no_name_means_two_things() -> None:
    assert not beyond("names")
