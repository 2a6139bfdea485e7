"""A run that is stopped and resumed is, to the bit, one that was not; kills are in test_kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sgrl.algorithms.replay import Transitions
from sgrl.algorithms.td3 import TD3
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint
from sgrl.training.command import train_command
from sgrl.training.interrupt import InterruptedTrainingError
from sgrl.training.loop import Training, train
from sgrl.training.metrics import Episodes
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_to_json

from .tiny import EXTERNAL, TINY, TRUSTED, assert_same_run, read_metrics, with_changes

Make = Callable[..., TrainSettings]

SCRIPT = """
import sys
from pathlib import Path
from sgrl.training.command import train_command
from sgrl.training.settings_file import settings_from_json
train_command(settings_from_json(Path(sys.argv[1]).read_text()))
"""


@pytest.fixture(scope="module", params=[TINY, EXTERNAL], ids=["td3", "external"])
def base(request: pytest.FixtureRequest) -> TrainSettings:
    """Settings by one algorithm or another."""
    settings: TrainSettings = request.param
    return settings


@pytest.fixture(scope="module")
def whole(base: TrainSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nothing interrupted."""
    settings = replace(base, steps=600, runs=tmp_path_factory.mktemp("runs"), name="whole")
    return train(settings, trust=TRUSTED)


@pytest.fixture
def like(base: TrainSettings, tmp_path: Path) -> Make:
    """Settings of a training by the same algorithm in a temporary folder, with changes."""

    def make(**changes: Any) -> TrainSettings:
        return with_changes(base, **({"runs": tmp_path / "runs"} | changes))

    return make


def start(given: Path) -> subprocess.Popen[str]:
    """A process of its own that trains by a file of settings."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "SGRL_TRUST": ",".join(TRUSTED)},
        text=True,
    )


def wait_for_news(process: subprocess.Popen[str], file: Path) -> None:
    """Until a process changes a file, or ends."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and file.stat().st_mtime_ns > before and file.stat().st_size:
            return
        time.sleep(0.002)
    assert process.poll() is None, process.communicate()[1]
    pytest.fail("no news in a minute")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(like: Make, whole: Path, tmp_path: Path, number: signal.Signals) -> None:
    settings = like(steps=600, name="stopped", checkpoint_every=10_000)
    given = tmp_path / "settings.json"
    given.write_text(settings_to_json(settings))
    run = settings.runs / "stopped"
    process = start(given)
    wait_for_news(process, run / "metrics.csv")
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number, error
    assert error == f"{number.name}: the run will be saved; a second signal stops at once\n"
    assert f"To go on: sgrl train --resume {run}" in out
    assert "To go on" in (run / "log.txt").read_text()
    assert len(list_checkpoints(run / "checkpoints")) == 1
    assert len(read_metrics(run)) < 600 // 40
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_asked_to_stop_before_it_began(
    like: Make, whole: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = like(steps=600, name="early")
    run = settings.runs / "early"
    prepare = Training.prepare

    def interrupted(self: Training, say: Callable[[str], None]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        prepare(self, say)

    for given in (settings, TrainSettings(resume=run)):
        with monkeypatch.context() as patch:
            patch.setattr(Training, "prepare", interrupted)
            with pytest.raises(SystemExit) as stopped:
                train_command(given)
        assert stopped.value.code == 128 + signal.SIGTERM
        out, error = capfd.readouterr()
        assert error == "SIGTERM: the run will be saved; a second signal stops at once\n"
        assert f"SIGTERM: saved at 0 steps. To go on: sgrl train --resume {run}\n" in out
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_a_second_signal_stops_at_once(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def twice(self: Episodes) -> dict[str, float]:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one was not heard")

    monkeypatch.setattr(Episodes, "row", twice)
    with pytest.raises(SystemExit) as stopped:
        train_command(tiny())
    assert stopped.value.code == 128 + signal.SIGINT
    out, error = capfd.readouterr()
    assert error.count("\n") == 1
    assert out.endswith("stopped at once: what came after the last checkpoint is lost\n")


@pytest.mark.parametrize("batches", ["mixed", "in_turn"])
@pytest.mark.parametrize("at", [2, 7, 44])
def test_asked_to_stop_between_updates(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, batches: str, at: int
) -> None:
    """Of the 4 updates that a step earns, those not made yet come after a resume."""
    settings = tiny(steps=148, utd_ratio=1.0, log_every=4, checkpoint_every=8, batches=batches)
    whole = train(replace(settings, name="whole"))
    gradient_step = TD3.gradient_step

    def interrupted(self: TD3, batch: Transitions) -> dict[str, float]:
        report = gradient_step(self, batch)
        if self.updates == at:
            os.kill(os.getpid(), signal.SIGINT)
        return report

    with monkeypatch.context() as patch:
        patch.setattr(TD3, "gradient_step", interrupted)
        with pytest.raises(InterruptedTrainingError) as stop:
            train(replace(settings, name="stopped"))
    run = settings.runs / "stopped"
    newest = read_checkpoint(list_checkpoints(run / "checkpoints")[-1])
    assert newest.state["learner"]["updates"] == at
    assert newest.state["learner"]["due"] == -at % 4
    assert f"saved at {newest.metadata['steps']} steps" in str(stop.value)
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_asked_to_stop_in_the_last_updates(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made: a run that has all its steps is whole."""
    gradient_step = TD3.gradient_step

    def interrupted(self: TD3, batch: Transitions) -> dict[str, float]:
        if self.updates == 17:
            os.kill(os.getpid(), signal.SIGINT)
        return gradient_step(self, batch)

    monkeypatch.setattr(TD3, "gradient_step", interrupted)
    run = train(tiny(steps=120, utd_ratio=1.0))
    newest = read_checkpoint(list_checkpoints(run / "checkpoints")[-1])
    assert newest.state["learner"]["updates"] == 20


def test_with_two_threads(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few updates, but of a size at which PyTorch uses its threads too.
    settings = tiny(threads=2, envs_per_body=8, steps=200, utd_ratio=0.04, batch_size=1000)
    whole = train(replace(settings, name="whole"))
    gradient_step = TD3.gradient_step

    def mortal(self: TD3, batch: Transitions) -> dict[str, float]:
        if self.updates == 3:
            raise ZeroDivisionError
        return gradient_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TD3, "gradient_step", mortal)
        with pytest.raises(ZeroDivisionError):
            train(replace(settings, name="died"))
    assert torch.get_num_threads() == 2
    run = settings.runs / "died"
    assert list_checkpoints(run / "checkpoints")
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_checkpoints_leave_no_trace(like: Make, whole: Path) -> None:
    assert_same_run(train(like(steps=600, checkpoint_every=40, keep=1)), whole)


def test_more_steps(like: Make, whole: Path) -> None:
    room = {"buffer_size": 1000} if like().algorithm == "td3" else {}
    short = train(like(steps=300, **room))
    train(TrainSettings(resume=short, steps=600))
    assert_same_run(short, whole)
    assert Run(short).settings().steps == 600


def test_before_the_first_checkpoint(
    like: Make, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies early starts again in its folder."""
    settings = like(steps=600, name="early")
    with monkeypatch.context() as patch:
        patch.setattr("sgrl.training.loop.Episodes.row", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings)
    early = settings.runs / "early"
    train(TrainSettings(resume=early))
    assert_same_run(early, whole)


def test_a_full_buffer(tiny: Make, tmp_path: Path) -> None:
    """The ring goes round several times after the checkpoint that a resume goes back to."""
    run = train(tiny(steps=600, buffer_size=60, keep=2))
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    # As if a kill had come long after the older checkpoint, and before the newest.
    shutil.rmtree(list_checkpoints(run / "checkpoints")[-1])
    train(TrainSettings(resume=run))
    assert_same_run(run, copy)
