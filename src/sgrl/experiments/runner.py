"""A job: one training of a grid, in a folder that its settings name; and whoever runs jobs.

What is known of a job lies in its folder, nowhere else: a job that was finished is found
finished, whoever ran it, and one that was cut off goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from sgrl.training.checkpoint import CorruptCheckpointError, list_checkpoints, read_metadata
from sgrl.training.identity import identity_digest, identity_of
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, is_over, settled

Phase = Literal["missing", "partial", "done"]
Event = Literal["started", "done", "failed", "stopped"]


@dataclass(frozen=True)
class State:
    """How far a job is, as its folder tells."""

    phase: Phase
    steps: int = 0
    """At the newest checkpoint."""
    seconds: float = 0.0
    """Seconds of training until then."""


@dataclass(frozen=True)
class Job:
    """One training. It can be pickled, and run on any machine that sees its folder."""

    settings: TrainSettings
    """With `runs` and `name`, which make the folder."""
    label: str
    """To show."""

    @property
    def name(self) -> str:
        assert self.settings.name is not None, "make jobs with make_job"
        return self.settings.name

    @property
    def folder(self) -> Path:
        """The run's folder, whether it is there or not."""
        return self.settings.runs / self.name

    @property
    def log(self) -> Path:
        """What the job printed. Beside the run's folder, which appears whole or not at all."""
        return self.settings.runs / "logs" / f"{self.name}.txt"

    def state(self) -> State:
        """How far it is; ValueError if something else lies in its folder."""
        if not self.folder.exists():
            return State("missing")
        self._check_recorded()
        settings = Run(self.folder).settings()
        for folder in reversed(list_checkpoints(Run(self.folder).checkpoints)):
            try:
                metadata = read_metadata(folder)
            except CorruptCheckpointError:
                continue  # the training will say what is wrong with it
            steps, seconds = metadata["steps"], metadata["seconds"]
            over = is_over(settings, steps, seconds)
            return State("done" if over else "partial", steps, seconds)
        return State("partial")

    def _check_recorded(self) -> None:
        """ValueError if the folder holds a run of other settings."""
        run = Run(self.folder)
        if not run.settings_file.is_file():
            raise ValueError(f"{self.folder} is in the way: it is not a run; move it elsewhere")
        recorded, own = identity_of(run.settings()), identity_of(settled(self.settings))
        for name in sorted(own.keys() | recorded.keys()):
            if recorded.get(name) != own.get(name):
                raise ValueError(
                    f"{self.folder} was trained with other settings: {name} is "
                    f"{recorded.get(name)!r}, not {own.get(name)!r}; give another folder with "
                    "--runs, or move that one elsewhere"
                )


def make_job(settings: TrainSettings, label: str, runs: Path) -> Job:
    """A job in `runs`, in a folder whose name follows from the settings.

    Equal settings are one job, whichever experiments ask for it: its name holds a digest of what
    identifies it. A run of the same identity that was named by an earlier version is found, too.
    """
    identity = identity_of(settled(settings))
    bodies = "_".join(settings.bodies) if len(settings.bodies) < 3 else f"{len(settings.bodies)}"
    words = f"{settings.method}-{bodies}-{settings.algorithm}-{settings.variant}"
    readable = re.sub(r"[^\w.-]", lambda found: "p" if found[0] == "+" else "_", words)
    prefix = f"{readable}-seed{settings.seed}-"
    name = f"{prefix}{identity_digest(identity)}"
    if not (runs / name).exists():
        akin = (Run(path.parent) for path in runs.glob(f"{prefix}*/settings.json"))
        name = next((run.path.name for run in akin if _is_of(run, identity)), name)
    return Job(replace(settings, runs=runs, name=name), label)


def _is_of(run: Run, identity: dict[str, Any]) -> bool:
    try:
        return identity_of(run.settings()) == identity
    except (OSError, ValueError):
        return False  # of a version that is not understood here, or half gone


def run_job(job: Job) -> None:
    """Train, go on with what is there, or do nothing if it is done.

    What a finished job stored to learn from is dropped: in a grid it would fill the disk.
    """
    state = job.state()
    if state.phase == "missing":
        train(job.settings)
    elif state.phase == "partial":
        train(TrainSettings(resume=job.folder))
    replay = Run(job.folder).replay
    if job.state().phase == "done" and replay.is_dir() and not replay.is_symlink():
        shutil.rmtree(replay)


@dataclass(frozen=True)
class JobResult:
    """What became of a job."""

    job: Job
    status: Literal["done", "failed", "stopped"]
    """`stopped`: asked to stop, and saved."""
    reason: str = ""
    """Why it failed, in a line."""


Report = Callable[[Job, Event, str], None]
"""Hears of a job when it starts and when it ends, with the reason if it failed."""


class Runner(Protocol):
    """Runs jobs that do not depend on each other, somewhere."""

    def run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """Bring every job to its end, or say why not: one that fails does not stop the others.

        KeyboardInterrupt is raised after all jobs have saved what they have and ended.
        """
        ...


@contextmanager
def output_to_log(job: Job) -> Iterator[None]:
    """All that this process prints, also from libraries, goes to the end of the job's log."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    before = [os.dup(number) for number in (1, 2)]
    with open(job.log, "a", encoding="utf-8") as file:
        try:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in zip((1, 2), before, strict=True):
                os.dup2(old, number)
                os.close(old)
