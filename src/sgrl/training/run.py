"""The folder of a run: made whole, held by one process at a time, found again by its path.

runs/set-3d_hopper_5_full-seed1/
  settings.json      TrainSettings, resolved
  versions.json      of Python and the packages; command and commit of each process
  metrics.csv        a row every `log_every` steps
  tensorboard/       the same for TensorBoard
  checkpoints/       a folder for each of the last few, named by its steps
  replay/            transitions, as files that are only appended to
  log.txt            what was said, with the time
  lock               held by the process that trains
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgrl.models.plugins import TRUST
from sgrl.training.settings import TrainSettings, settings_from_json, settings_to_json

SHIPPED = Path(__file__).resolve().parents[1] / "policies"
"""Policies that come with the package, each a small run of its own (see `published`)."""
PATIENCE = 3.0
"""Seconds in which a process that was killed is expected to have let go of its run."""
RECORDED_PACKAGES = ("sgrl", "torch", "numpy", "mujoco", "gymnasium", "safetensors")


@dataclass(frozen=True)
class Run:
    """A run's folder and the names in it."""

    path: Path

    @property
    def settings_file(self) -> Path:
        return self.path / "settings.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def replay(self) -> Path:
        return self.path / "replay"

    def settings(self) -> TrainSettings:
        """What the run was told, resolved."""
        try:
            return settings_from_json(self.settings_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.settings_file}: {error}") from None

    def write_settings(self, settings: TrainSettings) -> None:
        """Record settings, in place of what was recorded."""
        draft = self.settings_file.with_suffix(".draft")
        draft.write_text(settings_to_json(settings), encoding="utf-8")
        os.replace(draft, self.settings_file)

    def identifier(self) -> str:
        """Its name and some random digits, so that no other run anywhere has the same."""
        return f"{self.path.name}-{self.versions()['id']}"

    def versions(self) -> dict[str, Any]:
        """Of Python and the packages, and the command and commit of each process."""
        text = (self.path / "versions.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def is_published(self) -> bool:
        """Whether it is a policy to act with, without what training needs."""
        return (self.path / "card.json").is_file()

    def note_process(self) -> None:
        """Record the command and commit of a process that goes on with this run."""
        versions = self.versions()
        versions["processes"] = [*versions["processes"], _process()]
        draft = self.path / "versions.draft"
        draft.write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, self.path / "versions.json")

    def log(self, message: str) -> None:
        """Append a line with the time to log.txt."""
        with open(self.path / "log.txt", "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run; ValueError if another process does.

        A dead process holds nothing, but it may take a moment to die.
        """
        import fcntl  # here, because reading a run must work where there are no such locks

        with open(self.path / "lock", "a", encoding="utf-8") as file:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        reason = f"another process is training in {self.path}"
                        raise ValueError(reason) from None
                    time.sleep(0.05)
            yield


def create_run(settings: TrainSettings) -> Run:
    """A new folder for resolved settings. Two runs never share one: the second is numbered.

    The folder appears with its settings in it, so that there is no moment at which a killed
    process leaves one that cannot be resumed.
    """
    assert settings.name is not None, "resolve the settings first"
    try:
        settings.runs.mkdir(parents=True, exist_ok=True)
        draft = Run(Path(tempfile.mkdtemp(prefix=f".{settings.name}.", dir=settings.runs)))
    except OSError as error:
        raise OSError(f"no run can be made in {settings.runs}: {error.strerror}") from None
    try:
        draft.path.chmod(0o755)
        draft.checkpoints.mkdir()
        (draft.path / "versions.json").write_text(json.dumps(_versions(), indent=2) + "\n")
        number, path = 1, settings.runs / settings.name
        while True:
            draft.write_settings(replace(settings, name=path.name))
            try:
                # Moving a folder onto one that has something in it fails, whoever made that.
                if not path.exists():
                    os.rename(draft.path, path)
                    return Run(path)
            except OSError:
                if not path.exists():
                    raise
            number += 1
            path = settings.runs / f"{settings.name}-{number}"
    except BaseException:
        shutil.rmtree(draft.path, ignore_errors=True)
        raise


def find_run(where: str | Path, runs: Path = Path("runs")) -> Run:
    """The run at a path, or of that name among `runs` or the policies that ship.

    FileNotFoundError if there is none.
    """
    for path in (Path(where), runs / where, SHIPPED / where):
        if (path / "settings.json").is_file():
            TRUST.distrust(run=path, runs=runs)
            return Run(path)
    if Path(where).is_dir():
        raise FileNotFoundError(f"{where} is not a run: it has no settings.json")
    beside = runs if Path(where).name == str(where) else Path(where).parent
    known = sorted(found.parent.name for found in beside.glob("*/settings.json"))
    if beside == runs:
        known += sorted(found.parent.name for found in SHIPPED.glob("*/settings.json"))
    hint = f"there are {', '.join(known)}" if known else f"there are no runs in {beside}"
    raise FileNotFoundError(f"there is no run {where}; {hint}")


def _process() -> dict[str, str | None]:
    """What made this process do what it does."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _commit(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S%z"),
    }


def _versions() -> dict[str, Any]:
    versions: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "id": secrets.token_hex(4),
        "processes": [_process()],
    }
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _commit() -> str | None:
    """The commit of the source tree that runs, `-dirty` if it was changed; None if installed."""
    folder = Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        tracked = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", "run.py"],
            capture_output=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # An installation inside somebody's repository is not that repository's commit.
    return done.stdout.strip() if tracked.returncode == 0 else None
