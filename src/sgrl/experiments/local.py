"""Jobs as processes on this machine, as many at once as it has cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from sgrl.cores import count_cores
from sgrl.experiments.runner import Job, JobResult, Report, output_to_log, run_job
from sgrl.plugins import TRUST
from sgrl.training.interrupt import InterruptedTrainingError, RaisedSignals
from sgrl.training.loop import TrainingFailedError

PRELOADED = ("sgrl.experiments.local", "torch.utils.tensorboard", "torch._dynamo")
"""Imported once, by the server that the processes are forked from: it takes seconds."""
STOPPED = 75
"""Exit code of a process that was asked to stop and has saved its training."""


class LocalRunner:
    """Runs each job in a process of its own, which has its share of the cores as threads, unless
    the job says how many."""

    def __init__(self, processes: int | None = None) -> None:
        """`processes` at once; by default one for each core."""
        self.cores = count_cores()
        if processes is not None and processes < 1:
            raise ValueError(f"processes must be 1 or more, not {processes}")
        self.processes = processes or self.cores

    def run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """See `Runner.run`."""
        with RaisedSignals():
            return self._run(jobs, report)

    def _run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        at_once = min(self.processes, max(1, len(jobs)))
        threads = max(1, self.cores // at_once)
        waiting, outcomes = deque(jobs), []
        running: dict[BaseProcess, Job] = {}
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    settings = replace(job.settings, threads=job.settings.threads or threads)
                    own = replace(job, settings=settings)
                    started = context.Process(
                        target=_work, args=(own, TRUST.modules()), name=job.name
                    )
                    started.start()
                    running[started] = job
                    report(job, "started", "")
                ended = wait([process.sentinel for process in running])
                for process in [one for one in running if one.sentinel in ended]:
                    outcome = _outcome(process, running.pop(process))
                    outcomes.append(outcome)
                    report(outcome.job, outcome.status, outcome.reason)
        except BaseException:
            # Once each: a second signal would end a training that is being saved.
            for process in running:
                process.terminate()
            for process, job in running.items():
                outcome = _outcome(process, job)
                report(job, outcome.status, outcome.reason)
            raise
        return outcomes


def _work(job: Job, trust: Sequence[str]) -> None:
    """What a process does, which may import what the one that started it may."""
    TRUST.add(trust)
    # Ctrl-C in the terminal is for the process that shows the grid; it asks this one to stop.
    os.setsid()
    # Which it must hear, whatever whoever started the grid ignores.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_stop_when_orphaned, daemon=True).start()
    with output_to_log(job):
        try:
            run_job(job)
        except InterruptedTrainingError as stop:
            print(stop)
            sys.exit(STOPPED)
        except (TrainingFailedError, ValueError, OSError) as error:
            print(f"sgrl: {error}", file=sys.stderr)
            sys.exit(1)
        except Exception:
            traceback.print_exc()
            sys.exit(1)


def _stop_when_orphaned() -> None:
    """Nobody would ever start the rest of the grid, nor stop this part of it."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process of its own"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _outcome(process: BaseProcess, job: Job) -> JobResult:
    """Of a process that has ended, or is about to."""
    process.join()
    code = process.exitcode
    if code == STOPPED or code == -signal.SIGTERM:
        return JobResult(job, "stopped")
    if code is not None and code < 0:
        return JobResult(job, "failed", f"ended by {signal.Signals(-code).name}")
    if code != 0:
        return JobResult(job, "failed", _last_line(job))
    state = job.state()
    if state.phase != "done":
        return JobResult(job, "failed", f"ended at {state.steps:,} steps, before it was done")
    return JobResult(job, "done")


def _last_line(job: Job) -> str:
    lines = job.log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")
