"""Jobs as processes: failures stay alone, Ctrl-C loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.experiments.local import LocalRunner
from sgrl.experiments.runner import Job, make_job
from sgrl.training.run import Run
from tests.training.tiny import TINY, with_changes


class Heard:
    """What a runner reported."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, job: Job, event: str, reason: str) -> None:
        self.events.append((job.label, event, reason))


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = make_job(replace(TINY, init_from=tmp_path / "nothing"), "bad", tmp_path)
    good = make_job(replace(TINY, threads=0), "good", tmp_path)
    heard = Heard()
    outcomes = {one.job.label: one for one in LocalRunner(2).run([bad, good], heard)}
    assert outcomes["good"].status == "done"
    assert good.state().phase == "done"
    assert Run(good.folder).settings().threads == max(1, (os.cpu_count() or 1) // 2)
    assert outcomes["bad"].status == "failed"
    assert "there is no run" in outcomes["bad"].reason
    assert "there is no run" in bad.log.read_text()
    assert bad.state().phase == "missing"
    assert [event[:2] for event in heard.events[:2]] == [("bad", "started"), ("good", "started")]
    assert sorted(event[:2] for event in heard.events[2:]) == [("bad", "failed"), ("good", "done")]


def test_a_process_that_is_killed_is_a_failure_that_goes_on_later(tmp_path: Path) -> None:
    job = make_job(with_changes(TINY, steps=10**6, buffer_size=1000), "long", tmp_path)

    def kill(job: Job, event: str, reason: str) -> None:
        if event == "started":
            threading.Thread(target=_kill_when_it_trains, args=(job,), daemon=True).start()

    (outcome,) = LocalRunner(1).run([job], kill)
    assert (outcome.status, outcome.reason) == ("failed", "ended by SIGKILL")
    assert job.state().phase == "partial"


def _wait_for_checkpoint(job: Job) -> None:
    deadline = time.monotonic() + 120
    while not any((job.folder / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < deadline, job.log.read_text()
        time.sleep(0.01)


def _kill_when_it_trains(job: Job) -> None:
    _wait_for_checkpoint(job)
    (child,) = [one for one in multiprocessing.active_children() if one.name == job.name]
    child.kill()


def test_ctrl_c_saves_what_runs(tmp_path: Path) -> None:
    long = with_changes(TINY, steps=10**6, buffer_size=1000, checkpoint_every=200)
    job, waiting = (make_job(replace(long, seed=seed), "", tmp_path) for seed in (0, 1))

    def interrupt() -> None:
        _wait_for_checkpoint(job)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    heard = Heard()
    with pytest.raises(KeyboardInterrupt):
        LocalRunner(1).run([job, waiting], heard)
    assert [event for _, event, _ in heard.events] == ["started", "stopped"]
    assert "SIGTERM: saved at" in job.log.read_text()
    assert job.state().phase == "partial"
    assert waiting.state().phase == "missing"
    with Run(job.folder).locked():
        pass  # nobody trains any more


ORPHANAGE = """
import pickle, sys
from sgrl.experiments.local import LocalRunner

job = pickle.loads(bytes.fromhex(sys.argv[1]))
LocalRunner(1).run([job], lambda *heard: None)
"""


def test_trainings_whose_grid_is_killed_save_and_end(tmp_path: Path) -> None:
    job = make_job(with_changes(TINY, steps=10**6, buffer_size=1000), "orphan", tmp_path)
    grid = subprocess.Popen([sys.executable, "-c", ORPHANAGE, pickle.dumps(job).hex()])
    _wait_for_checkpoint(job)
    grid.kill()
    grid.wait()
    deadline = time.monotonic() + 120
    while "SIGTERM: saved at" not in job.log.read_text():
        assert time.monotonic() < deadline, job.log.read_text()
        time.sleep(0.05)
    assert job.state().phase == "partial"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_grid_that_was_started_deaf_still_stops(tmp_path: Path, number: signal.Signals) -> None:
    """As `nohup sgrl reproduce ... &` from a script, where Ctrl-C is ignored from the start."""
    job = make_job(with_changes(TINY, steps=10**6, buffer_size=1000), "deaf", tmp_path)
    deaf = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\n" + ORPHANAGE
    grid = subprocess.Popen(
        [sys.executable, "-c", deaf, pickle.dumps(job).hex()], stderr=subprocess.PIPE, text=True
    )
    _wait_for_checkpoint(job)
    grid.send_signal(number)
    _, errors = grid.communicate(timeout=120)
    assert grid.returncode != 0
    assert f"SignalInterrupt: {number.name}" in errors
    assert "SIGTERM: saved at" in job.log.read_text()
    with Run(job.folder).locked():
        pass  # nobody trains any more


def test_no_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        LocalRunner(0)
