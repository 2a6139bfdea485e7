"""The numbers in the tables, worked out by hand, and what the tables say beside them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sgrl.report import run_tables
from sgrl.report.groups import Group, make_groups
from sgrl.report.runs import read_runs
from tests.report.cells import rows_of
from tests.report.made import HOPPERS, ROWS, WALKER, made_run


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Group]:
    """SET with final returns 1000, 2000, 3000 on the first hopper and twice that on the other;
    SWAT with one seed, on a walker too."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [made_run(folder, {HOPPERS[0]: 0.2 * n, HOPPERS[1]: 0.4 * n}, seed=n) for n in (1, 2, 3)]
    runs.append(made_run(folder, {HOPPERS[0]: 0.5, WALKER: 0.1}, method="swat", rows=ROWS // 2))
    return make_groups(read_runs([run.path for run in runs]))


def test_mean_and_standard_error() -> None:
    assert run_tables.mean_with_error([1.0, 2.0, 3.0, None]) == (
        2.0,
        pytest.approx(1 / math.sqrt(3)),
    )
    mean, error = run_tables.mean_with_error([5.0]) or (0.0, 0.0)
    assert mean == 5.0
    assert math.isnan(error)
    assert run_tables.mean_with_error([None]) is None


def test_the_summary(groups: list[Group]) -> None:
    titles, ours, theirs = rows_of(run_tables.summary_table(groups))
    assert titles == [
        "method",
        "trained on",
        "seeds",
        "return",
        "length",
        "steps",
        "steps/s",
        "time",
    ]
    # Means over both bodies 1500, 3000, 4500; their standard error 1500 / sqrt(3).
    assert ours[2:] == ["1, 2, 3", "3,000.0 ± 866.0", "500.0 ± 0.00", "5,000*", "50", "100 s"]
    assert theirs[2:] == ["0", "750.0", "250.0", "2,500*", "50", "50 s"]
    assert "not all of the steps" in run_tables.summary_table(groups)


def test_returns_by_body_and_family(groups: list[Group]) -> None:
    titles, *rows = rows_of(run_tables.returns_table(groups))
    assert titles == ["body", *(group.label for group in groups)]
    assert rows == [
        [HOPPERS[0], "2,000.0 ± 577.4", "1,250.0"],
        [HOPPERS[1], "4,000.0 ± 1,154.7", "-"],
        ["mean of 2 in hopper", "3,000.0 ± 866.0", "-"],
        [WALKER, "-", "250.0"],
    ]
    assert run_tables.returns_table(groups).count("<b>") == 4


def test_two_runs_of_one_seed_are_pointed_out(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, {HOPPERS[0]: 1.0}, seed=7).path for _ in range(2)]
    said = run_tables.summary_table(make_groups(read_runs(runs)))
    assert f"set on {HOPPERS[0]} has seed 7 more than once" in said
    assert "more than once" not in run_tables.summary_table(make_groups(read_runs(runs[:1])))


def test_settings_that_differ_or_none(groups: list[Group]) -> None:
    titles, *rows = rows_of(run_tables.settings_table(groups))
    assert titles[0] == "setting"
    assert ["method", "set", "swat"] in rows
    assert "same settings but for their seeds" in run_tables.settings_table(groups[:1])


def test_names_are_escaped(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0}, name="<img src=x>&")
    made = run_tables.runs_table(make_groups(read_runs([run.path])))
    assert "<img" not in made
    assert "&lt;img src=x&gt;&amp;" in made
