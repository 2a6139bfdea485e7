"""Every program in examples/ runs, made small."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sgrl
from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.training.settings import TrainSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL: dict[str, dict[str, Any]] = {
    "train_one_body": {"episodes": 1},
    "adapt_to_a_cut": {"episodes": 1},
    "own_method": {"episodes": 1},
    "unseen_body": {"episodes": 1},
    "stable_baselines": {"steps": 96, "learning_starts": 64, "out": Path("model.zip")},
}
SHOWN = {
    "train_one_body": "random ",
    "adapt_to_a_cut": "adapted ",
    "own_method": "transformer+hn",
    "unseen_body": "made_up ",
    "stable_baselines": "mean return",
}
"""What each prints, among other things."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train_briefly(train: Callable[[TrainSettings], Path], settings: TrainSettings) -> Path:
    """A training of the same kind that takes a second."""
    brief = {"minutes": None, "steps": 96, "envs_per_body": 2, "threads": 1, "eval_every": 0}
    config = PPOConfig(n_steps=8, n_epochs=1, batch_size=16)
    return train(replace(settings, **brief, log_every=48, checkpoint_every=96, config=config))


def test_all_are_run_here() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(SMALL) == set(SHOWN)


@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    short = functools.partial(sgrl.evaluate, max_episode_steps=10, threads=1)
    monkeypatch.setattr(sgrl, "evaluate", short, raising=False)
    monkeypatch.setattr(sgrl, "train", functools.partial(train_briefly, sgrl.train), raising=False)
    load(name).main(**SMALL[name])
    assert SHOWN[name] in capsys.readouterr().out
