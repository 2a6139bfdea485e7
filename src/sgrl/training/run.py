"""The folder of a run: made whole, held by one process at a time, found again by its path.

runs/set-3d_hopper_5_full-seed1/
  settings.json      TrainSettings, resolved
  versions.json      of Python and the packages; command, commit and start of each process
  metrics.csv        a row every `log_every` steps
  tensorboard/       the same for TensorBoard
  checkpoints/       a folder for each of the last few, named by its steps
  replay/            transitions, as files that are only appended to
  sources/           policies of other runs that this one learns from
  log.txt            what was said, with the time
  lock               held by the process that trains

A run may come from anybody: `Run` is the one who reads these files, and what it refuses it refuses
in a line (`checkpoint` and `results` do so for theirs).
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgrl.files import SafeFolder, seal
from sgrl.plugins import TRUST
from sgrl.training.metrics import OLD_COLUMNS
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_from_json, settings_to_json

SHIPPED = Path(__file__).resolve().parents[1] / "policies"
"""Policies that come with the package, each a small run of its own (see `published`)."""
PATIENCE = 3.0
"""Seconds in which a process that was killed is expected to have let go of its run."""
MOST_BYTES = {
    "settings.json": 2**20,
    "versions.json": 2**24,
    "card.json": 2**24,
    "metrics.csv": 2**30,
}
"""More than this no such file has."""
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

    @property
    def sources(self) -> Path:
        return self.path / "sources"

    @property
    def files(self) -> SafeFolder:
        """Its files, none of which leads out of it."""
        return SafeFolder(self.path)

    def settings(self, name: str = "settings.json") -> TrainSettings:
        """What the run was told, resolved; ValueError if the file is not what was written.

        One that has no checksum, as before there was one, is believed.
        """
        try:
            data, values = self._read_json(name, MOST_BYTES["settings.json"])
            if "sha256" in values:
                if not isinstance(values["sha256"], dict) or data != seal(values, "settings.json"):
                    raise ValueError(
                        "it was altered after it was written; restore it, or remove its sha256 to "
                        "use it as it is"
                    )
                del values["sha256"]
            settings = settings_from_json(json.dumps(values))
            if settings.steps is None or settings.envs_per_body is None:
                raise ValueError("it does not say steps and envs_per_body")
            return settings
        except ValueError as error:
            raise ValueError(f"{self.path / name}: {error}") from None

    def write_settings(self, settings: TrainSettings) -> None:
        """Record settings, in place of what was recorded."""
        values = json.loads(settings_to_json(settings))
        self.files.write("settings.json", seal(values | {"sha256": {}}, "settings.json") + b"\n")

    def identifier(self) -> str:
        """Its name and some random digits, so that no other run anywhere has the same."""
        return f"{self.path.name}-{self.versions()['id']}"

    def versions(self) -> dict[str, Any]:
        """Versions of Python and the packages, and the command and commit of each process.

        What is lost is None, or an empty list: nothing that is trained stands on it.
        """
        found: dict[str, Any] = {}
        with suppress(FileNotFoundError, ValueError):
            _, found = self._read_json("versions.json")
        listed = found.get("processes", [found] if "command" in found else [])
        versions: dict[str, Any] = {
            name: _word(found.get(name)) for name in ("python", "platform", *RECORDED_PACKAGES)
        }
        versions["id"] = _word(found.get("id")) or "unknown"
        versions["processes"] = [
            {key: _word(one.get(key)) for key in ("command", "commit", "started")}
            | {key: _count(one.get(key)) for key in ("threads", "steps", "seconds")}
            for one in (listed if isinstance(listed, list) else [])
            if isinstance(one, dict)
        ]
        return versions

    def metrics(self) -> list[dict[str, float | None]]:
        """Rows of metrics.csv under the names of today; one that is being written at this moment is
        left out."""
        try:
            data = self.files.read("metrics.csv", MOST_BYTES["metrics.csv"])
        except FileNotFoundError:
            return []
        try:
            text = data.decode("utf-8")
            rows = [
                {OLD_COLUMNS.get(name, name): _finite(value) for name, value in row.items()}
                for row in csv.DictReader(io.StringIO(text, newline=""))
                if None not in row.values() and None not in row
            ]
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{self.metrics_file} is not a table of metrics: {error}") from None
        if any(row.get("steps") is None for row in rows):
            raise ValueError(f"{self.metrics_file} is not a table of metrics: a row has no steps")
        return rows

    def card(self) -> dict[str, Any]:
        """The card of a published policy."""
        return self._read_json("card.json")[1]

    def physics(self) -> dict[str, Any]:
        """The physics of its numbers: MuJoCo's version and, where it is known, the digest."""
        card = self.card() if self.is_published() else {}
        recorded = card.get("physics") or card.get("versions") or self.versions()
        found = recorded if isinstance(recorded, dict) else {}
        words = {key: _word(found.get(key)) for key in ("mujoco", "digest")}
        return {key: word for key, word in words.items() if word and word.isprintable()}

    def is_published(self) -> bool:
        """Whether it is a policy to act with, without what training needs."""
        return self.files.has_file("card.json")

    def note_process(self, threads: int, steps: int, seconds: float) -> None:
        """Record a process that goes on with this run, on so many threads, from there on."""
        versions = self.versions()
        versions["processes"] = [*versions["processes"], _process(threads, steps, seconds)]
        self._write_versions(versions)

    def _write_versions(self, versions: dict[str, Any]) -> None:
        self.files.write("versions.json", json.dumps(versions, indent=2).encode() + b"\n")

    def _read_json(self, name: str, most: int | None = None) -> tuple[bytes, dict[str, Any]]:
        """A file and the object in it."""
        data = self.files.read(name, most or MOST_BYTES[name]).rstrip(b"\n")
        try:
            values = json.loads(data)
        except RecursionError:
            raise ValueError(f"{name} is nested too deeply") from None
        if not isinstance(values, dict):
            raise ValueError(f"{name} holds no object")
        return data, values

    def log(self, message: str) -> None:
        """Append a line with the time to log.txt."""
        self.files.append("log.txt", f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run; ValueError if another process does.

        A dead process holds nothing, but it may take a moment to die.
        """
        import fcntl  # here, because reading a run must work where there are no such locks

        # Their files are opened by others, by their paths.
        for name in ("tensorboard", "replay"):
            self.files.check_plain(name)
        with open(self.files.open("lock", os.O_WRONLY | os.O_CREAT), "a") as file:
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


def create_run(settings: TrainSettings, fill: Callable[[Run], None] | None = None) -> Run:
    """A new folder for resolved settings. Two runs never share one: the second is numbered.

    The folder appears with its settings in it, and with what `fill` puts there, so that there is no
    moment at which a killed process leaves one that cannot be resumed.
    """
    assert settings.name is not None, "resolve the settings first"
    draft = Run(settings.runs / f".{settings.name}.{secrets.token_hex(8)}")
    try:
        settings.runs.mkdir(parents=True, exist_ok=True)
        draft.path.mkdir()  # readable for whom the umask lets read
    except OSError as error:
        raise OSError(f"no run can be made in {settings.runs}: {error.strerror}") from None
    try:
        draft.checkpoints.mkdir()
        draft._write_versions(_versions(settings.threads))
        if fill is not None:
            fill(draft)
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


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _finite(text: str) -> float | None:
    value = float(text) if text else math.nan
    return value if math.isfinite(value) else None


def _count(value: Any) -> float | None:
    """A number that is not negative; what older runs did not record is none."""
    return value if isinstance(value, int | float) and 0 <= value < math.inf else None


def _process(threads: int, steps: int, seconds: float) -> dict[str, str | float | None]:
    """What made this process do what it does, and where in the training it began."""
    program = Path(sys.argv[0]).name
    return {
        "command": shlex.join(["sgrl" if program == "__main__.py" else program, *sys.argv[1:]]),
        "commit": current_commit(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "threads": threads,
        "steps": steps,
        "seconds": seconds,
    }


def _versions(threads: int) -> dict[str, Any]:
    versions: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "id": secrets.token_hex(4),
        "processes": [_process(threads, 0, 0.0)],
    }
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def current_commit() -> str | None:
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
