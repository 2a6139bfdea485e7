"""Tallies and the file that rows go to."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from sgrl.algorithms.td3 import TD3
from sgrl.morphology import resolve_bodies
from sgrl.training.metrics import Board, Episodes, Losses, MetricsFile, Row, Stopwatch

BODIES = resolve_bodies(("3d_hopper_3_shin", "3d_hopper_5_full", "3d_walker_7_full"))


def episodes(envs_per_body: int = 2) -> Episodes:
    return Episodes(BODIES, np.repeat(np.arange(3), envs_per_body))


def test_an_episode_counts_when_it_ends() -> None:
    tally = episodes()
    nobody = np.zeros(6, bool)
    for _ in range(3):
        tally.step(np.arange(6.0), nobody)
    assert tally.count == 0
    assert tally.row()["return"] is None
    tally.step(np.arange(6.0), np.array([False, True, False, True, False, False]))
    row = tally.row()
    assert row["episodes"] == 2
    assert row["return/3d_hopper_3_shin"] == 4.0
    assert row["return/3d_hopper_5_full"] == 12.0
    assert row["return/3d_walker_7_full"] is None
    assert row["return"] == 8.0
    assert row["length"] == row["length/3d_hopper_5_full"] == 4.0
    assert tally.recent_by_family() == {"hopper": 8.0}
    tally.step(np.ones(6), np.array([False, True, False, False, False, False]))
    assert tally.row()["length/3d_hopper_3_shin"] == 2.5, "the next one starts from nothing"


def test_bodies_count_the_same_however_often_they_fall() -> None:
    tally = episodes(envs_per_body=1)
    for _ in range(50):
        tally.step(np.array([1.0, 0.0, 0.0]), np.array([True, False, False]))
    tally.step(np.array([1.0, 3.0, 0.0]), np.array([True, True, False]))
    assert tally.row()["return"] == 2.0


def test_only_recent_episodes_count() -> None:
    tally = episodes(envs_per_body=1)
    for value in range(25):
        tally.step(np.full(3, float(value)), np.ones(3, bool))
    assert tally.row()["return"] == np.mean(range(15, 25))
    assert tally.count == 75


def test_tallies_go_back_to_their_state() -> None:
    rng = np.random.default_rng(0)
    tally, losses = episodes(), Losses(TD3.metrics)
    for _ in range(30):
        tally.step(rng.normal(size=6), rng.random(6) < 0.2)
        losses.add({"critic_loss": rng.normal(), "q_mean": 0.1})
    other, other_losses = episodes(), Losses(TD3.metrics)
    other.load_state_dict(tally.state_dict())
    other_losses.load_state_dict(json.loads(json.dumps(losses.state_dict())))
    for _ in range(30):
        rewards, done = rng.normal(size=6), rng.random(6) < 0.2
        tally.step(rewards, done)
        other.step(rewards, done)
    assert tally.row() == other.row()
    assert losses.take_row() == other_losses.take_row()


def test_losses_are_means_since_the_last_row() -> None:
    losses = Losses(TD3.metrics)
    losses.add({"critic_loss": 1.0, "q_mean": 5.0})
    losses.add({"critic_loss": 3.0, "q_mean": 7.0, "actor_loss": -1.0})
    row = losses.take_row()
    assert (row["critic_loss"], row["q_mean"], row["actor_loss"]) == (2.0, 6.0, -1.0)
    assert row["actor_grad_norm"] is None
    assert set(losses.take_row().values()) == {None}
    with pytest.raises(KeyError):
        losses.add({"colour": 1.0})


def test_the_clock_books_all_time() -> None:
    clock = Stopwatch()
    clock.start(steps=100, seconds=50.0)
    clock.lap("sim")
    clock.lap("update")
    row = clock.take_row(steps=110)
    spent = [row[f"wall/{name}"] for name in ("sim", "act", "update", "other")]
    total = sum(value for value in spent if value is not None)
    assert row["wall/seconds"] == pytest.approx(50.0 + total)
    assert row["wall/steps_per_second"] == pytest.approx(10 / total)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_kept_to_the_bit_and_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    file = MetricsFile(path)
    file.append({"steps": 1, "return": math.pi / 3})
    size = file.size
    file.append({"steps": 2, "return": None})
    file.sync()
    file.close()
    assert [row["steps"] for row in read(path)] == ["1", "2"]
    assert float(read(path)[0]["return"]) == math.pi / 3
    assert read(path)[1]["return"] == ""
    path.write_bytes(path.read_bytes() + b"3,0.1")  # a row that a kill cut short
    again = MetricsFile(path, size)
    again.append({"steps": 2, "return": 0.5})
    again.close()
    assert [row["return"] for row in read(path)] == [repr(math.pi / 3), "0.5"]


@pytest.mark.parametrize("there", ["steps\n", "steps\n1", "", None])
def test_rows_that_are_missing(tmp_path: Path, there: str | None) -> None:
    """Whole ones stay, and others follow."""
    path = tmp_path / "metrics.csv"
    if there is not None:
        path.write_text(there)
    file = MetricsFile(path, 60)
    assert file.is_short
    file.append({"steps": 2})
    file.close()
    assert path.read_text() == "steps\n2\n"
    again = MetricsFile(path, 6)
    assert not again.is_short
    again.close()


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def write(start: int, rows: list[Row]) -> None:
        board = Board(tmp_path, start, wandb=False, name="x", settings={})
        for row in rows:
            board.append(row)
        board.close()

    write(
        0,
        [{"steps": 10, "q_mean": 1.0, "return": None}, {"steps": 20, "q_mean": 2.0, "return": 5.0}],
    )
    write(10, [{"steps": 20, "q_mean": 3.0, "return": 6.0}])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("q_mean")] == [
        (10, 1.0),
        (20, 3.0),
    ]
    assert [event.value for event in events.Scalars("return")] == [6.0]


class Service:
    """Stands in for Weights & Biases."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def init(self, **named: object) -> Service:
        self.told.append(named)
        return self

    def log(self, values: Row, step: int) -> None:
        self.told.append((step, values))

    def finish(self) -> None:
        self.told.append("finished")


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    monkeypatch.setitem(sys.modules, "wandb", service)  # type: ignore[arg-type]
    board = Board(tmp_path, 0, wandb=True, name="x", settings={"seed": 1})
    board.append({"steps": 10, "q_mean": 1.0, "return": None})
    board.close()
    opened, row, closed = service.told
    assert isinstance(opened, dict)
    assert opened["id"] == "x"
    assert opened["config"] == {"seed": 1}
    assert row == (10, {"q_mean": 1.0})
    assert closed == "finished"
