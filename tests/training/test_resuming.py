"""What a run goes on from: its own checkpoints, of its own form, and never over what is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sgrl.algorithms.optimizer import load_optimizer_state, make_optimizer, optimizer_state
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint, write_checkpoint
from sgrl.training.loop import train
from sgrl.training.resume import check_form
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from tests.training.test_failures import contents, fail
from tests.training.tiny import TINY, assert_same_run, with_changes

Make = Callable[..., TrainSettings]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(with_changes(TINY, runs=tmp_path_factory.mktemp("runs"), name="whole"))


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A finished run to damage."""
    return Path(shutil.copytree(whole, tmp_path / "damaged"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "its seed is 1, not 0"),
        ({"variant": "v2"}, "its variant is 'v2', not 'v1'"),
        ({"learning_rate": 1e-5}, "learning_rate is 1e-05, not"),
        ({"envs_per_body": 3}, "its envs_per_body is 3, not 2"),
    ],
)
def test_a_checkpoint_of_other_settings(
    run: Path, tiny: Make, change: dict[str, Any], words: str
) -> None:
    other = train(tiny(steps=100, utd_ratio=0.0, **change))
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    before = contents(run)
    message = fail(TrainSettings(resume=run))
    assert "the checkpoint is not of this run: its " in message
    assert words in message
    assert contents(run) == before


def alter(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the state of every checkpoint, with checksums that fit."""
    for folder in list_checkpoints(run / "checkpoints"):
        found = read_checkpoint(folder)
        assert found.state is not None
        change(found.state)
        write_checkpoint(run / "checkpoints", found.metadata["steps"], found.pack(), keep=9)


def set_at(state: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split("/")
    for part in above:
        state = state[int(part) if isinstance(state, list) else part]
    state[int(last) if isinstance(state, list) else last] = value


STRANGE: list[tuple[str, Any]] = [
    ("torch", torch.zeros(3, dtype=torch.uint8)),
    ("torch", 5),
    ("learner", [1, 2]),
    ("learner/critic_optimizer/moments/0/exp_avg", torch.zeros(1)),
    ("learner/critic_optimizer/moments/0", {}),
    ("learner/critic_optimizer/moments", [{}]),
    ("learner/critic_optimizer/learning_rate", "fast"),
    ("learner/target_actor", {}),
    ("learner/acting", {"bit_generator": "PCG64"}),
    ("learner/acting/state/state", "many"),
    ("learner/generator", torch.zeros(2, dtype=torch.uint8)),
    ("learner/replay/added", [10**30, 10**30]),
    ("learner/replay/added", "ab"),
    ("learner/updates", "5"),
    ("collector/bodies", np.array(["x"])),
    ("collector/distance", np.zeros((1, 1, 1))),
    ("collector/distance", None),
    ("collector", {}),
    ("episodes/recent", np.zeros(1)),
    ("losses", {"critic_loss": "x"}),
    ("metrics_bytes", -1),
    ("metrics_bytes", "none"),
]


@pytest.mark.parametrize(("path", "value"), STRANGE)
def test_a_state_that_somebody_made(run: Path, path: str, value: Any) -> None:
    alter(run, lambda state: set_at(state, path, value))
    before = contents(run)
    message = fail(TrainSettings(resume=run, steps=800))
    assert message.startswith(("sgrl: the checkpoint does not fit", "sgrl: the checkpoint is not"))
    assert contents(run) == before


def test_forms() -> None:
    state = {"a": [1, torch.zeros(2)], "b": "x", "c": np.zeros(3), "d": None, "e": [], "f": 1.5}
    check_form(state, state, "state")
    check_form(state | {"d": {"any": 1}, "e": [1, 2], "f": 2}, state, "state")
    others: list[dict[str, Any]] = [
        {"a": [1, torch.zeros(3)]},
        {"a": [1, torch.zeros(2, dtype=torch.float64)]},
        {"a": [True, torch.zeros(2)]},
        {"a": [1]},
        {"b": 3},
        {"c": np.zeros(3, np.float32)},
        {"c": torch.zeros(3)},
        {"f": "1.5"},
        {"more": 1},
    ]
    for change in others:
        with pytest.raises(ValueError, match="the checkpoint does not fit this run: state"):
            check_form(state | change, state, "state")


def test_moments_of_other_parameters() -> None:
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
    optimizer = make_optimizer(one, 1e-3)
    one(torch.ones(3)).sum().backward()
    optimizer.step()
    with pytest.raises(ValueError, match=r"exp_avg of an optimizer is \(2, 3\), not \(3, 2\)"):
        load_optimizer_state(make_optimizer(other, 1e-3), optimizer_state(optimizer))


def test_a_run_that_lost_its_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    before = contents(run)
    message = fail(TrainSettings(resume=run))
    assert f"{run} has trained for 400 steps and has no checkpoint to go on from" in message
    assert f"put {run / 'checkpoints'} back, or start a new run" in message
    assert contents(run) == before


def test_a_run_that_died_before_its_first_checkpoint(
    tiny: Make, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It starts again, and the rows it had are kept, and that is told."""
    settings = tiny(name="early")
    run = settings.runs / "early"
    with monkeypatch.context() as patch:
        patch.setattr("sgrl.training.loop.Training.checkpoint", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings)
    rows = (run / "metrics.csv").read_bytes()
    assert rows.count(b"\n") == 3
    train(TrainSettings(resume=run))
    assert "before its first checkpoint: starting again" in capsys.readouterr().out
    assert (run / "metrics.csv.old").read_bytes() == rows
    assert_same_run(run, whole)


def test_a_run_whose_time_is_over(tiny: Make) -> None:
    run = train(tiny(steps=10**7, minutes=0.01, buffer_size=1000))
    before = contents(run)
    message = fail(TrainSettings(resume=run))
    assert f"{run} has used its 0.01 minutes, at " in message
    assert f"to go on: sgrl train --resume {run} --minutes 1.01, the earlier ones" in message
    assert contents(run) == before


@pytest.mark.parametrize("left", [None, 0, 300])
def test_metrics_that_are_lost_stop_nothing(
    run: Path, whole: Path, left: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (whole / "metrics.csv").read_bytes()
    if left is None:
        (run / "metrics.csv").unlink()
    else:
        (run / "metrics.csv").write_bytes(rows[:left])
    (run / "versions.json").unlink()
    train(TrainSettings(resume=run, steps=480))
    assert f"rows of {run / 'metrics.csv'} are lost; the others are kept" in capsys.readouterr().out
    found = Run(run).metrics()
    assert [row["steps"] for row in found][-2:] == [440, 480]
    assert len(found) < 12


def test_nothing_is_said_of_metrics_that_are_there(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(TrainSettings(resume=run, steps=440))
    assert "lost" not in capsys.readouterr().out
