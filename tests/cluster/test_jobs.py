"""A grid on a cluster of two nodes, of which a process and a node are lost on the way."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgrl.cluster import jobs as ray_jobs
from sgrl.cluster.jobs import RayRunner
from sgrl.experiments.runner import Event, Job, make_job
from sgrl.training.loop import train
from sgrl.training.run import Run
from tests.training.tiny import assert_same_run

from .conftest import NODE
from .small import SMALL, wait_until


class Witness:
    """Hears of jobs."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}

    def __call__(self, job: Job, event: Event, reason: str) -> None:
        self.events.setdefault(job.label, []).append(event)


class Meanwhile:
    """A context with a thread in it, whose errors are errors of the test."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._error = work, None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def processes_of(job: Job) -> list[int]:
    """Of all attempts at a job, as its log tells."""
    text = job.log.read_text() if job.log.exists() else ""
    return [int(number) for number in re.findall(r"^on .*, process (\d+)$", text, re.MULTILINE)]


def freeze(job: Job) -> int:
    """Stop the clock of a job as soon as it has a checkpoint; gives its process."""
    wait_until(lambda: bool(job.folder.exists() and job.state().steps))
    assert job.state().phase == "partial", "it was too late"
    process = processes_of(job)[-1]
    os.kill(process, signal.SIGSTOP)
    return process


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_process_and_a_node_are_lost(cluster: Any, tmp_path: Path) -> None:
    settings = replace(SMALL, steps=72 * 20)
    done, one, other, again = (
        make_job(replace(settings, seed=seed), f"job {seed}", tmp_path) for seed in range(4)
    )
    broken = make_job(replace(settings, init_from=tmp_path / "nowhere"), "broken", tmp_path)
    train(done.settings)
    versions = (done.folder / "versions.json").read_text()
    (doomed,) = cluster.worker_nodes
    raylet = doomed.all_processes["raylet"][0].process.pid

    def disturb() -> None:
        frozen = [freeze(one), freeze(other)]
        frozen.sort(key=lambda process: parent_of(process) == raylet)
        assert [parent_of(process) == raylet for process in frozen] == [False, True]
        os.kill(frozen[0], signal.SIGKILL)
        cluster.remove_node(doomed, allow_graceful=False)
        os.kill(frozen[1], signal.SIGCONT)  # to see that it is alone in the world

    witness = Witness()
    try:
        with Meanwhile(disturb):
            outcomes = RayRunner(cluster.address).run([one, other, done, broken, again], witness)
    finally:
        cluster.add_node(**NODE)
    assert {outcome.job: outcome.status for outcome in outcomes} == {
        one: "done",
        other: "done",
        again: "done",
        done: "done",
        broken: "failed",
    }
    # Both that were lost went on from where they were, as if nothing had happened.
    for job in (one, other):
        assert len(processes_of(job)) == 2
        assert len(Run(job.folder).versions()["processes"]) == 2
        assert "lost (" in job.log.read_text()
    assert_same_run(other.folder, train(replace(other.settings, name="whole")))
    # What was done was not done again, and what failed stood in nobody's way.
    assert (done.folder / "versions.json").read_text() == versions
    assert witness.events["broken"][-1] == "failed"
    (failed,) = (outcome for outcome in outcomes if outcome.job == broken)
    assert "nowhere" in failed.reason
    assert "nowhere" in broken.log.read_text()


def test_a_grid_that_is_stopped_saves_what_it_has(cluster: Any, tmp_path: Path) -> None:
    endless = replace(SMALL, steps=10**9, checkpoint_every=10**8)
    running, second, waiting = (
        make_job(replace(endless, seed=seed), f"job {seed}", tmp_path) for seed in range(3)
    )
    witness = Witness()

    def stop() -> None:
        for job in (running, second):
            rows = job.folder / "metrics.csv"
            wait_until(lambda rows=rows: rows.exists() and rows.stat().st_size > 0)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), Meanwhile(stop):
        RayRunner(cluster.address).run([running, second, waiting], witness)
    for job in (running, second):
        assert job.state().steps > 0
        assert "SIGINT: saved at" in job.log.read_text()
        assert witness.events[job.label] == ["started", "stopped"]
    assert waiting.state().phase == "missing"


def test_a_job_that_is_lost_again_and_again(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(job: Job, trust: Sequence[str]) -> None:
        with open(job.log, "a") as log:
            log.write("on a node, process 1\n")
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ray_jobs, "_work", die)
    monkeypatch.setattr(ray_jobs, "RETRIES", 1)
    job = make_job(SMALL, "job", tmp_path)
    (outcome,) = RayRunner(cluster.address).run([job], Witness())
    assert outcome.status == "failed"
    assert "without coming further" in outcome.reason
    assert len(processes_of(job)) == 2


def test_a_node_that_does_not_see_the_folder(tmp_path: Path) -> None:
    job = make_job(SMALL, "job", tmp_path)
    outcome = ray_jobs._work(job, ())
    assert outcome.status == "failed"
    assert "must share that folder" in outcome.reason
    assert list(tmp_path.iterdir()) == []
