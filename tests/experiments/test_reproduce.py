"""A grid with a runner that trains nothing: what is run, what is said, what a failure stops."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from sgrl.experiments.grid_progress import GridProgress
from sgrl.experiments.reproduce import train_missing
from sgrl.experiments.runner import Job, JobResult, Report

from .fabricated import request


class Pretender:
    """Says that every job is done, but for those whose label begins with `fails`."""

    def __init__(self, fails: str) -> None:
        self._fails = fails
        self.groups: list[list[str]] = []

    def run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        self.groups.append([job.label for job in jobs])
        outcomes = []
        for job in jobs:
            bad = job.label.startswith(self._fails)
            outcomes.append(
                JobResult(job, "failed" if bad else "done", "[no] reason" if bad else "")
            )
            report(job, "started", "")
            report(job, outcomes[-1].status, outcomes[-1].reason)
        return outcomes


def test_a_failure_stops_only_what_starts_from_it(tmp_path: Path) -> None:
    jobs = request("v2", runs=tmp_path).jobs()  # SET and SWAT, two seeds, two stages
    runner, shown = Pretender("SET on 3d_walker++, seed 1"), io.StringIO()
    with pytest.raises(RuntimeError, match="2 of 8 trainings did not finish, SET on") as error:
        train_missing(jobs, runner, Console(file=shown, width=200))
    assert [len(group) for group in runner.groups] == [4, 3]
    assert "SET on 3d_walker++, seed 1, fine-tuned on v2" not in runner.groups[1]
    assert "[no] reason" in str(error.value)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "[0/8] SET on 3d_walker++, seed 0: started"
    assert "failed after 0 s: [no] reason (see" in lines[3]
    assert sum("what it starts from failed" in line for line in lines) == 1
    assert lines[-1].startswith("[8/8] ")


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    class Interrupted:
        def run(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
            raise KeyboardInterrupt

    shown = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        train_missing(request("bias", runs=tmp_path).jobs(), Interrupted(), Console(file=shown))
    assert "give the same command again" in shown.getvalue().replace("\n", " ")


def test_one_table_for_the_grid(tmp_path: Path) -> None:
    jobs = request("orientation", runs=tmp_path).jobs()
    progress = GridProgress(jobs, Console(file=io.StringIO()))
    progress.report(jobs[0], "started", "")
    progress.report(jobs[1], "failed", "[Errno 28] full")
    shown = io.StringIO()
    Console(file=shown, width=200).print(progress.table())
    lines = shown.getvalue().splitlines()
    assert lines[0].strip() == "0 of 4 done, 1 failed"
    states = [line.split("│")[2].strip() for line in lines if "seed" in line]
    assert states == ["failed", "running", "waiting", "waiting"]
    assert "[Errno 28] full" in shown.getvalue()
