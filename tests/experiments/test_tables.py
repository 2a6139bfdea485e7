"""Tables and figures from fabricated trials."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image

from sgrl.experiments.budgets import LAPTOP, SMOKE
from sgrl.experiments.catalogue import EXPERIMENTS
from sgrl.experiments.findings import scores, write_trials
from sgrl.experiments.reproduce import write_pages
from sgrl.experiments.tables import Table, compare, latex_page, make_table, markdown_page

from .fabricated import request, results

VALUES = {"set": 100.0, "swat": 50.0, "smp": 0.0}


def cells(name: str, budget: str = "smoke") -> list[dict[str, str]]:
    asked = request(name, {"smoke": SMOKE, "laptop": LAPTOP}[budget])
    table = make_table(results(asked, VALUES), asked)
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_all_its_files(name: str, tmp_path: Path) -> None:
    asked = request(name)
    found = results(asked, VALUES)
    written = [*write_trials(found.trials, tmp_path), *write_pages(found, asked, tmp_path)]
    names = {path.name for path in written}
    expected = {"episodes.csv", "table.md", "table.tex", "figure.png", "figure.svg"}
    if name in ("v2", "ablations"):
        expected |= {"series.csv"}
    if name in ("multi-task", "zero-shot"):
        expected |= {"profile.png", "profile.svg"}
    assert names == expected
    assert all(path.stat().st_size > 100 for path in written)
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width >= 700
    text = (tmp_path / "table.md").read_text()
    assert "Budget `smoke`, PPO" in text
    assert EXPERIMENTS[name].place in text
    with open(tmp_path / "episodes.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * len(found.trials)


def test_a_line_has_our_numbers_and_the_paper_s() -> None:
    (line,) = [
        row
        for row in cells("orientation", "laptop")
        if (row["method"], row["condition"]) == ("SWAT", "180°")
    ]
    # Seeds return 50 and 52, so the error of the mean is sqrt(2)/sqrt(2) = 1.
    assert line["return"] == "51.0 ± 1.0"
    assert line["IQM [95%]"] == "51.0 [50.0, 52.0]"
    assert (line["seeds"], line["steps"]) == ("2", "1,000")
    assert line["paper"] == "-5.6 ± 8.5"


def test_lines_of_each_experiment() -> None:
    counts = {name: len(cells(name)) for name in EXPERIMENTS}
    assert counts == {
        "single-task": 4,
        "multi-task": 3,
        "zero-shot": 2 * 3,
        "v2": 2 * 2,
        "orientation": 5 * 2,
        "bias": 2 * 3,
        "ablations": 6,
    }
    assert [row["paper"] for row in cells("zero-shot")][:3] == [
        "276.2 ± 17.4",
        "207.0 ± 52.7",
        "56.8 ± 15.1",
    ]
    assert {row["paper"] for row in cells("multi-task")} == {"-"}
    (before, *_) = cells("v2")
    assert before["condition"] == "trained on v1"
    assert (before["targets reached"], before["distance (m)"]) == ("2.0 ± 0.0", "5.0 ± 0.0")


def test_all_bodies_together() -> None:
    found = results(request("zero-shot"), VALUES | {"swat": 101.0})
    comparison = compare(found)
    # On either body: runs of SET 100, 102, of SWAT 101, 103, of SMP 0, 2.
    assert comparison.better == {"swat": 0.25, "smp": 1.0}
    assert comparison.scores["smp"][0].tolist() == [0.0, 0.0]
    assert comparison.scores["swat"][1].tolist() == [1.0, 1.0]
    assert "| SWAT   | " in markdown_page(found, request("zero-shot"))


def test_scores_are_seeds_by_bodies() -> None:
    found = results(request("multi-task"), VALUES)
    own = scores([trial for trial in found.trials if trial.method == "set"])
    assert own.shape == (2, 6)
    assert own[:, 0].tolist() == [100.0, 102.0]


def test_markdown_and_latex() -> None:
    table = Table(("method", "return"), (("SET\\g", "1.0 ± 0.5"), ("a_b", "90°")), 1)
    assert table.markdown().splitlines() == [
        "| method |    return |",
        "| ------ | --------: |",
        "| SET\\g  | 1.0 ± 0.5 |",
        "| a_b    |       90° |",
    ]
    text = table.latex("50% of it", "x")
    assert r"\textbackslash{}g & 1.0 $\pm$ 0.5 \\" in text
    assert r"a\_b & 90$^\circ$ \\" in text
    assert r"\caption{50\% of it}" in text
    assert r"\begin{tabular}{lr}" in text


def test_the_latex_page_states_the_budget() -> None:
    asked = request("bias")
    text = latex_page(results(asked, VALUES), asked)
    assert "Budget smoke, PPO" in text
    assert "°" not in text
