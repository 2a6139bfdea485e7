"""A training that takes a second, and how two are compared."""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from safetensors.torch import load_file

from sgrl.algorithms.td3 import Td3Config
from sgrl.models.set import SetConfig
from sgrl.training.checkpoint import WEIGHTS, list_checkpoints
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

TINY = TrainSettings(
    bodies=("3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"),
    steps=400,
    copies=2,
    threads=1,
    warm_up=100,
    updates_per_step=0.1,
    log_every=40,
    checkpoint_every=100,
    td3=Td3Config(batch=8),
    network=SetConfig(layers=1, embedding=8, hidden=8, matrix=6, matrix_hidden=8),
)


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
