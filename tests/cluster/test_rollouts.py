"""Rollouts by workers: the same training, whoever makes the steps and whoever dies over it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sgrl.algorithms.learner import Step
from sgrl.cluster.rollouts import RayCollector, RolloutWorker
from sgrl.training import loop
from sgrl.training.collector import LocalCollector
from sgrl.training.learners import make_learner
from sgrl.training.loop import train
from sgrl.training.metrics import Stopwatch
from sgrl.training.settings import TrainSettings, resolve_settings
from sgrl.training.settings_file import settings_to_json
from tests.training.test_resume import SCRIPT
from tests.training.tiny import assert_same_run, read_metrics

from .small import SMALL, wait_until

ROLLOUT = SMALL.config.n_steps


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training without workers."""
    return train(replace(SMALL, runs=tmp_path_factory.mktemp("runs"), name="alone"))


def kill_at(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> list[int]:
    """Kill a worker in the middle of the rollouts that begin at these steps; gives those killed."""
    killed: list[int] = []
    save = loop.Training._save

    def save_and_kill(self: Any) -> None:
        save(self)
        if self.steps in steps:
            import ray

            # Stopped first, so that it dies while it is waited for.
            pid = ray.get(self.collector._workers[-1].process.remote())
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
            killed.append(pid)

    monkeypatch.setattr(loop.Training, "_save", save_and_kill)
    return killed


def test_one_worker_that_dies_changes_nothing(
    cluster: Any, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, and the run can be resumed."""
    killed = kill_at(monkeypatch, {144})
    settings = replace(SMALL, rollout_workers=1, cluster=cluster.address, runs=tmp_path)
    run = train(replace(settings, name="one", steps=288))
    assert len(killed) == 1
    assert (run / "log.txt").read_text().count("rollout worker 0 died; another") == 1
    train(TrainSettings(resume=run, steps=SMALL.steps, cluster=cluster.address))
    assert_same_run(run, alone)


def test_two_workers_learn_as_none_would(
    cluster: Any, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for rounding, which grows."""
    killed = kill_at(monkeypatch, {72})
    settings = replace(SMALL, rollout_workers=2, cluster=cluster.address, runs=tmp_path)
    rows, expected = read_metrics(train(settings)), read_metrics(alone)
    assert len(killed) == 1
    assert [row["steps"] for row in rows] == [row["steps"] for row in expected]
    for row, other in zip(rows[:3], expected[:3], strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            assert (value == "") == (other[name] == ""), name
            if value:
                assert float(value) == pytest.approx(float(other[name]), rel=0.01, abs=1e-3), name


def arrays_of(step: Step) -> dict[str, Any]:
    """All arrays of a step, by name."""
    values = {one.name: getattr(step, one.name) for one in fields(Step)}
    return values | dict(values.pop("extras"))


def test_two_workers_have_the_copies_of_one_environment(cluster: Any) -> None:
    """Who steps a copy changes what it does by rounding alone; and one can go back."""
    settings = resolve_settings(replace(SMALL, rollout_workers=2, cluster=cluster.address))
    local, clock = LocalCollector(settings), Stopwatch()
    torch.manual_seed(0)
    learner = make_learner(settings, local.layout, None)
    remote = RayCollector(settings, pytest.fail)
    for name in ("num_envs", "body_index", "limb_mask", "action_mask"):
        assert np.array_equal(getattr(remote.layout, name), getattr(local.layout, name))
    try:
        local.start(5)
        remote.start(5)
        pairs = [(local.step(learner, clock), remote.step(learner, clock)) for _ in range(ROLLOUT)]
        state = remote.state_dict()
        more = [remote.step(learner, clock) for _ in range(ROLLOUT)]
        remote.load_state_dict(state)
        again = [remote.step(learner, clock) for _ in range(ROLLOUT)]
    finally:
        remote.close()
    first, first_remote = pairs[0]
    assert np.array_equal(first.obs, first_remote.obs)
    for step, remote_step in pairs:
        values, remote_values = arrays_of(step), arrays_of(remote_step)
        assert values.keys() == remote_values.keys() >= {"obs", "means"}
        for name, expected in values.items():
            assert remote_values[name].dtype == expected.dtype
            assert np.allclose(remote_values[name], expected, atol=1e-4), name
    assert np.array_equal(pairs[1][1].obs, pairs[0][1].next_obs)
    for step, other in zip(more, again, strict=True):
        for name, value in arrays_of(step).items():
            assert np.array_equal(value, arrays_of(other)[name]), name


def test_on_this_machine_until_it_is_stopped(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal; the run is saved, and nothing goes on."""
    endless = replace(SMALL, rollout_workers=1, steps=10**9, runs=tmp_path, name="endless")
    given = tmp_path / "settings.json"
    given.write_text(settings_to_json(endless))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    rows = tmp_path / "endless" / "metrics.csv"
    try:
        wait_until(lambda: rows.exists() and rows.stat().st_size > 0)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 128 + signal.SIGINT, errors
    assert "SIGINT: saved at" in out
    assert "died" not in (tmp_path / "endless" / "log.txt").read_text()
    assert errors == "SIGINT: the run will be saved; a second signal stops at once\n"
    wait_until(lambda: not processes_in(process.pid))


def processes_in(session: int) -> list[str]:
    """Those of a session that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().rpartition(")")
            state, _, _, own, *_ = rest.split()
            if int(own) == session and state != "Z":
                found.append(name)
    return found


def test_workers_that_cannot_live(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Frail:
        def __init__(self, *_: Any) -> None:
            """Lives until it is asked for something."""

        def start(self, seeds: list[int]) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    class Stillborn(Frail):
        def __init__(self, *_: Any) -> None:
            raise ValueError("no such method here")

    settings = replace(SMALL, rollout_workers=1, cluster=cluster.address, runs=tmp_path)
    for kind, reason in ((Stillborn, "no such method here"), (Frail, "")):
        monkeypatch.setattr("sgrl.cluster.rollouts.RolloutWorker", kind)
        with pytest.raises(ConnectionError, match=f"worker 0 cannot be kept alive: .*{reason}"):
            train(settings)
    assert list(tmp_path.iterdir()) == []


def test_more_workers_than_cores(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"3 rollout workers need a core each, .* has 2"):
        train(replace(SMALL, rollout_workers=3, cluster=cluster.address, runs=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout_workers": -1}, "rollout_workers must lie between 0"),
        ({"rollout_workers": 4}, "4 rollout workers need as many environments of each body, not 3"),
        ({"cluster": "head:6379"}, "give rollout_workers, too"),
        ({"rollout_workers": 1, "algorithm": "td3", "config": None}, "nothing to do for td3"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_settings(replace(SMALL, **changes))


def test_a_resumed_run_keeps_its_workers(alone: Path) -> None:
    with pytest.raises(ValueError, match="rollout_workers is 0, not 2"):
        train(TrainSettings(resume=alone, rollout_workers=2))


def test_a_worker_is_a_function_of_what_it_is_given() -> None:
    """Asked twice, it makes the same rollout, to the bit, whatever it made between."""
    settings = resolve_settings(SMALL)
    worker = RolloutWorker(settings, np.arange(6), 6)
    torch.manual_seed(1)
    weights = make_learner(settings, worker.collector.layout, None).weights()
    standing = worker.start(range(6))
    steps, then = worker.collect(weights, standing)
    worker.collect(weights, then)
    again, then_again = worker.collect(weights, standing)
    for step, other in zip(steps, again, strict=True):
        for name, value in arrays_of(step).items():
            assert np.array_equal(value, arrays_of(other)[name]), name
    assert then.noise == then_again.noise
    for name, array in then.env.items():
        assert np.array_equal(array, then_again.env[name]), name
