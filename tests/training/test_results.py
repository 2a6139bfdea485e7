"""Statistics by hand, and what is written and shown of them."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.files import SafeFolder
from sgrl.training.references import reference_return
from sgrl.training.results import (
    BodyResult,
    Episode,
    find_weakness,
    format_table,
    read_summary,
    write_results,
)

from .untrained import HOPPER, WALKER


def result_of(*rewards: float, policy: str = "a", body: str = HOPPER) -> BodyResult:
    episodes = (
        Episode(i, reward, 10 * (i + 1), 0.5, i, 3.0, i == 0, False, 2.0 * i)
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
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    columns = {title: [row[i] for row in cells] for i, title in enumerate(titles)}
    assert columns["lasts"] == ["50%", "50%", "50%", "0%"]
    assert columns["gained (m)"] == ["1.00 ± 1.00", "1.00 ± 1.00", "1.00", "0.00"]
    assert columns["weak"] == ["falls", "falls", "2 of 2", "falls"]
    assert "targets" not in columns, "far ones are not reached"


def test_the_specialist_and_the_paper_stand_beside_the_return() -> None:
    full = "3d_hopper_5_full"
    specialist = reference_return("specialist", [full], "v1")
    assert specialist is not None
    lasting = [
        replace(episode, fell=False, total_reward=share * specialist)
        for share in (0.7, 0.79)
        for episode in result_of(1.0, 2.0).episodes
    ]
    behind = BodyResult("a", full, "v1", tuple(lasting))
    assert (behind.lasted, behind.weakness) == (1.0, "behind")
    near = BodyResult("a", full, "v2", tuple(lasting))
    header, _, *lines = format_table([behind, near], {full: (5.0, 1.0)}).splitlines()
    titles = [title.strip() for title in header.strip("|").split("|")]
    far = dict(zip(titles, (cell.strip() for cell in lines[0].strip("|").split("|")), strict=True))
    assert far["specialist"] == f"{specialist:,.1f}"
    assert (far["paper"], far["weak"]) == ("5.00 ± 1.00", "behind")
    assert lines[1].count("5.00 ± 1.00") == 0, "the paper tried far targets"


def test_weakness_is_falling_first() -> None:
    assert find_weakness(0.79, 100.0, 100.0) == "falls"
    assert find_weakness(0.8, 74.0, 100.0) == "behind"
    assert find_weakness(0.8, 75.0, 100.0) == ""
    assert find_weakness(1.0, 1.0, None) == ""


def test_a_summary_of_before_has_no_metres_gained(tmp_path: Path) -> None:
    write_results([result_of(1.0, 2.0)], tmp_path / "old")
    file = tmp_path / "old" / "summary.json"
    written = json.loads(file.read_text())
    for name in ("gained_mean", "gained_se"):
        del written["results"][0][name]
    file.write_text(json.dumps(written))
    assert read_summary(SafeFolder(tmp_path), "old/summary.json") == written
