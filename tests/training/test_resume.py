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

import pytest

from sgrl.training.checkpoint import list_checkpoints
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, settings_to_json

from .tiny import TINY, assert_same_run, read_metrics

Make = Callable[..., TrainSettings]

SCRIPT = """
import sys
from pathlib import Path
from sgrl.training.command import train_command
from sgrl.training.settings import settings_from_json
train_command(settings_from_json(Path(sys.argv[1]).read_text()))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nothing interrupted."""
    settings = replace(TINY, steps=600, runs=tmp_path_factory.mktemp("runs"), name="whole")
    return train(settings)


def start(given: Path) -> subprocess.Popen[str]:
    """A process of its own that trains by a file of settings."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
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
def test_asked_to_stop(tiny: Make, whole: Path, tmp_path: Path, number: signal.Signals) -> None:
    settings = tiny(steps=600, name="stopped", checkpoint_every=10_000)
    given = tmp_path / "settings.json"
    given.write_text(settings_to_json(settings))
    run = settings.runs / "stopped"
    process = start(given)
    wait_for_news(process, run / "metrics.csv")
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number, error
    assert f"To go on: sgrl train --resume {run}" in out
    assert "To go on" in (run / "log.txt").read_text()
    assert len(list_checkpoints(run / "checkpoints")) == 1
    assert len(read_metrics(run)) < 600 // 40
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_checkpoints_leave_no_trace(tiny: Make, whole: Path) -> None:
    assert_same_run(train(tiny(steps=600, checkpoint_every=40, keep=1)), whole)


def test_more_steps(tiny: Make, whole: Path) -> None:
    short = train(tiny(buffer=1000, steps=300))
    train(TrainSettings(resume=short, steps=600))
    assert_same_run(short, whole)
    assert Run(short).settings().steps == 600


def test_before_the_first_checkpoint(
    tiny: Make, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies early starts again in its folder."""
    settings = tiny(steps=600, name="early")
    with monkeypatch.context() as patch:
        patch.setattr("sgrl.training.loop.Episodes.row", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings)
    early = settings.runs / "early"
    train(TrainSettings(resume=early))
    assert_same_run(early, whole)


def test_a_full_buffer(tiny: Make, tmp_path: Path) -> None:
    """The ring goes round several times after the checkpoint that a resume goes back to."""
    run = train(tiny(steps=600, buffer=60, keep=2))
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    # As if a kill had come long after the older checkpoint, and before the newest.
    shutil.rmtree(list_checkpoints(run / "checkpoints")[-1])
    train(TrainSettings(resume=run))
    assert_same_run(run, copy)
