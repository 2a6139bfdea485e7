"""Statistics by hand, and what is written and shown of them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from sgrl.training.results import BodyResult, Episode, format_table, write_results

from .untrained import HOPPER, WALKER


def result_of(*rewards: float, policy: str = "a", body: str = HOPPER) -> BodyResult:
    episodes = (
        Episode(i, reward, 10 * (i + 1), 0.5, i, 3.0, i == 0, False)
        for i, reward in enumerate(rewards)
    )
    return BodyResult(policy, body, "v1", tuple(episodes))


def test_statistics_by_hand() -> None:
    result = result_of(1.0, 2.0, 6.0)
    assert result.mean("total_reward") == 3.0
    # Deviations -2, -1, 3: variance 14 / 2, and the root of 7 / 3.
    assert result.standard_error("total_reward") == pytest.approx(math.sqrt(7 / 3))
    assert result.mean("length") == 20
    assert result.standard_error("speed") == 0
    assert result.mean("fell") == pytest.approx(1 / 3)
    assert math.isnan(result_of(1.0).standard_error("total_reward"))


def test_results_are_written(tmp_path: Path) -> None:
    results = [result_of(1.0, 2.0, 6.0), result_of(0.1, policy="b", body=WALKER)]
    write_results(results, tmp_path / "new", about={"run": "x"})
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "episodes.csv",
        "summary.csv",
        "summary.json",
    ]
    with (tmp_path / "new" / "episodes.csv").open(newline="") as file:
        episodes = list(csv.DictReader(file))
    assert [float(row["total_reward"]) for row in episodes] == [1.0, 2.0, 6.0, 0.1]
    assert [row["policy"] for row in episodes] == ["a", "a", "a", "b"]
    with (tmp_path / "new" / "summary.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["body"], first["episodes"], first["total_reward_mean"]) == (HOPPER, "3", "3.0")
    assert second["total_reward_se"] == ""
    written = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert written["about"] == {"run": "x"}
    assert written["results"][0] == results[0].summary()
    assert written["results"][1]["total_reward_se"] is None


def test_the_table_says_mean_and_error() -> None:
    results = [
        result_of(1.0, 3.0),
        result_of(1000.0, 3000.0, body=WALKER),
        result_of(5.0, policy="b"),
    ]
    header, rule, *lines = format_table(results).splitlines()
    assert len({len(line) for line in (header, rule, *lines)}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[:5] for row in cells] == [
        ["a", HOPPER, "v1", "2", "2.00 ± 1.00"],
        ["a", WALKER, "v1", "2", "2,000.0 ± 1,000.0"],
        ["a", "mean of 2", "v1", "4", "1,001.0"],
        ["b", HOPPER, "v1", "1", "5.00"],
    ]
    assert [row[-1] for row in cells] == ["50%", "50%", "50%", "100%"]
