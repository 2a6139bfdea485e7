"""A training that takes a second, and how two are compared."""

from __future__ import annotations

import csv
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from sgrl.algorithms.td3_config import TD3Config
from sgrl.models.set import SETConfig
from sgrl.training.checkpoint import WEIGHTS, list_checkpoints
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from tests.algorithms.external import REINFORCEConfig

TINY = TrainSettings(
    bodies=("3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"),
    steps=400,
    algorithm="td3",
    envs_per_body=2,
    threads=1,
    log_every=40,
    checkpoint_every=100,
    config=TD3Config(batch_size=8, learning_starts=100, utd_ratio=0.1),
    network=SETConfig(layers=1, embedding=8, hidden=8, matrix=6, matrix_hidden=8),
)

EXTERNAL = replace(
    TINY, algorithm="tests.algorithms.external:REINFORCE", config=REINFORCEConfig(std=0.2)
)
"""The same by an algorithm from outside the package, with a storage of its own."""
TRUSTED = ("tests.algorithms",)
"""Where that is."""


def with_changes(settings: TrainSettings, **changes: Any) -> TrainSettings:
    """Settings with others, among them those of the algorithm, by their names."""
    names = {field.name for field in fields(settings.config)}
    own = {name: changes.pop(name) for name in names & changes.keys()}
    config = replace(settings.config, **own)
    return replace(settings, **({"config": config} | changes))


def read_metrics(run: Path) -> list[dict[str, str]]:
    """Rows of metrics.csv without the columns that depend on the clock."""
    with open(Run(run).metrics_file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if not k.startswith("wall/")} for row in rows]


def read_final_weights(run: Path) -> dict[str, torch.Tensor]:
    """Weights of a run's newest checkpoint."""
    found: dict[str, torch.Tensor] = load_file(list_checkpoints(Run(run).checkpoints)[-1] / WEIGHTS)
    return found


def assert_same_run(one: Path, other: Path) -> None:
    """Equal metrics, but for the clock, and equal final weights, to the bit."""
    first, second = read_metrics(one), read_metrics(other)
    assert len(first) == len(second)
    for row, other_row in zip(first, second, strict=True):
        assert row == other_row
    assert_same_weights(one, other)


def assert_same_weights(one: Path, other: Path) -> None:
    """Of the newest checkpoints, to the bit."""
    weights, other_weights = read_final_weights(one), read_final_weights(other)
    assert weights.keys() == other_weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(tensor, other_weights[name]), name
