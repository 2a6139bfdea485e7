"""The jobs of a grid as tasks on a Ray cluster whose nodes share the folder of the runs.

A task that is lost with its process or its node is started again, wherever there is room, and
goes on from the job's last checkpoint.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from sgrl.cluster.connection import connected
from sgrl.experiments.runner import Job, JobResult, Report, output_to_log, run_job
from sgrl.plugins import TRUST
from sgrl.training.interrupt import InterruptedTrainingError
from sgrl.training.loop import TrainingFailedError
from sgrl.training.run import Run

RETRIES = 3
"""Times that a job is started again without having come further."""
LOOK_EVERY = 1.0
"""Seconds between looks at who has started."""
RELEASE_SECONDS = 120.0
"""How long a process that was stopped, or lost its node, may take to let go of its run."""


class RayRunner:
    """Runs each job as a task on the cluster at an address; see `Runner`.

    A job takes as many cores as its settings have threads, or one, and a GPU if its device is one.
    """

    def __init__(self, address: str) -> None:
        """ConnectionError, within seconds, if the cluster cannot be reached."""
        self.address = address
        self.processes = 1
        """Jobs that run at once, at most."""
        with self._connected() as ray:
            self.processes = max(1, int(ray.cluster_resources().get("CPU", 0)))

    def run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """See `Runner.run`."""
        with self._connected() as ray:
            grid = _Grid(ray, report)
            for job in jobs:
                grid.submit(_at_home_anywhere(job))
            try:
                while grid.running:
                    grid.look()
            except BaseException:
                grid.stop()
                raise
        own = {job.name: job for job in jobs}
        return [replace(outcome, job=own[outcome.job.name]) for outcome in grid.outcomes]

    def _connected(self) -> AbstractContextManager[Any]:
        return connected(self.address, cores=0, why="--cluster")


@dataclass
class _Attempt:
    """A task and what is known of it."""

    job: Job
    losses: int
    """Attempts before it that were lost and came no further."""
    steps: int
    """Of the job when it was submitted."""
    log_bytes: int
    started: bool = False


class _Grid:
    """The jobs that run, and what became of the others."""

    def __init__(self, ray: Any, report: Report) -> None:
        self.outcomes: list[JobResult] = []
        self.running: dict[Any, _Attempt] = {}
        """By the reference of the task."""
        self._ray, self._report = ray, report

    def submit(self, job: Job, losses: int = 0) -> None:
        """Hand a job to Ray, which starts it when there is room."""
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with open(job.log, "a", encoding="utf-8") as log:
            attempt = _Attempt(job, losses, job.state().steps, log.tell())
        task = self._ray.remote(_work).options(
            num_cpus=job.settings.threads,
            num_gpus=int(job.settings.device.startswith("cuda")),
            max_retries=0,  # `look` retries: it knows who has come further
            scheduling_strategy="SPREAD",
            name=job.name,
        )
        self.running[task.remote(job, TRUST.modules())] = attempt

    def look(self) -> None:
        """Wait a little, and see who has started and who has ended."""
        ended, _ = self._ray.wait(
            list(self.running), num_returns=len(self.running), timeout=LOOK_EVERY
        )
        for attempt in self.running.values():
            if not attempt.started and attempt.job.log.stat().st_size > attempt.log_bytes:
                attempt.started = True
                self._report(attempt.job, "started", "")
        for task in ended:
            self._conclude(task, self.running.pop(task))

    def _conclude(self, task: Any, attempt: _Attempt) -> None:
        job, errors = attempt.job, self._ray.exceptions
        lost = ""
        try:
            outcome: JobResult = self._ray.get(task)
            if outcome.status == "stopped":  # nobody here asked it to
                lost = "its node went down"
        except errors.RayTaskError as error:
            outcome = JobResult(job, "failed", str(error).strip().splitlines()[-1])
        except errors.RayError as error:
            lost = type(error).__name__
        if lost:
            state = job.state()
            losses = attempt.losses + 1 if state.steps == attempt.steps else 1
            if state.phase == "done":
                outcome = JobResult(job, "done")
            elif losses <= RETRIES:
                with open(job.log, "a", encoding="utf-8") as log:
                    log.write(f"lost ({lost}); to be started again\n")
                self.submit(job, losses)
                return
            else:
                reason = f"lost {losses} times without coming further: {lost}"
                outcome = JobResult(job, "failed", reason)
        self.outcomes.append(outcome)
        self._report(job, outcome.status, outcome.reason)

    def stop(self) -> None:
        """Ask all to stop, and wait until they have saved what they have."""
        for task in self.running:
            self._ray.cancel(task)
        for task, attempt in self.running.items():
            self._ray.wait([task], timeout=RELEASE_SECONDS)
            _wait_until_free(attempt.job)
            self._report(attempt.job, "stopped", "")


def _at_home_anywhere(job: Job) -> Job:
    """With whole paths, and a number of threads."""
    settings, start = job.settings, job.settings.init_from
    return replace(
        job,
        settings=replace(
            settings,
            runs=settings.runs.resolve(),
            init_from=None if start is None else start.resolve(),
            threads=settings.threads or 1,
        ),
    )


def _work(job: Job, trust: Sequence[str]) -> JobResult:
    """What a task does, on some node; it may import what the one that submitted it may."""
    TRUST.add(trust)
    if not job.log.exists():
        where = f"{platform.node()} does not see {job.settings.runs}"
        return JobResult(job, "failed", f"{where}: the nodes of a cluster must share that folder")
    with output_to_log(job):
        print(f"on {platform.node()}, process {os.getpid()}", flush=True)
        _wait_until_free(job)
        try:
            run_job(job)
            state = job.state()
        except InterruptedTrainingError as stop:
            print(stop)
            return JobResult(job, "stopped")
        except (TrainingFailedError, ValueError, OSError) as error:
            print(f"sgrl: {error}", file=sys.stderr)
            return JobResult(job, "failed", str(error))
        except Exception as error:
            traceback.print_exc()
            return JobResult(job, "failed", repr(error))
    if state.phase != "done":
        return JobResult(job, "failed", f"ended at {state.steps:,} steps, before it was done")
    return JobResult(job, "done")


def _wait_until_free(job: Job) -> None:
    """Until no process holds the run; not for ever."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while job.folder.exists() and time.monotonic() < deadline:
        try:
            with Run(job.folder).locked():
                return
        except ValueError:
            time.sleep(0.2)
