"""What is read of runs, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sgrl.report.groups import make_groups
from sgrl.report.page import make_page
from sgrl.report.runs import read_runs, thin
from sgrl.training.results import BodyResult, Episode, write_results
from tests.report.made import HOPPERS, made_run
from tests.training.untrained import untrained_run


def test_a_run_is_read_once(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 0.5}, rows=3, name="a")
    (record,) = read_runs([run.path, run.path / ".." / "a"])
    assert record.columns["steps"] == [100.0, 200.0, 300.0]
    assert record.columns[f"return/{HOPPERS[0]}"] == [50.0, 100.0, 150.0]
    assert record.columns["approx_kl"] == [None, 0.01, 0.03]
    assert record.last["wall/seconds"] == 6.0
    assert not record.finished
    assert record.command


def test_long_curves_are_thinned_without_losing_their_ends() -> None:
    rows = [{"steps": float(i), "return": float(i), "loss": None} for i in range(1, 1001)]
    rows[500]["return"] = None
    columns = thin(rows, most=10)
    assert columns["steps"] == [100.0 * i for i in range(1, 11)]
    assert columns["return"][0] == pytest.approx(50.5)
    assert columns["return"][5] == pytest.approx(sum(range(502, 601)) / 99)
    assert columns["loss"] == [None] * 10
    assert thin(rows[:7], most=10)["return"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_a_row_that_is_being_written_and_numbers_that_are_none(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0}, rows=2)
    text = run.metrics_file.read_text(encoding="utf-8").replace("200.0", "nan")
    run.metrics_file.write_text(text + "300,3", encoding="utf-8")
    (record,) = read_runs([run.path])
    assert record.columns["steps"] == [100.0, 200.0]
    assert record.columns[f"return/{HOPPERS[0]}"] == [100.0, None]


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name the runs"):
        read_runs([])
    with pytest.raises(FileNotFoundError, match=r"there is no run .*nowhere"):
        read_runs([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty is not a run: it has no settings\.json"):
        read_runs([tmp_path / "empty"])
    made_run(tmp_path / "runs", {HOPPERS[0]: 1.0})
    with pytest.raises(ValueError, match=r"not a run but a folder of 1; name .*runs/\*"):
        read_runs([tmp_path / "runs"])


def test_what_lies_beside_runs_is_left_out(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0})
    made_run(tmp_path / "reproduce", {HOPPERS[0]: 1.0})
    (tmp_path / "logs").mkdir()
    young, _ = untrained_run(tmp_path / "young")
    why: list[str] = []
    (record,) = read_runs([*sorted(tmp_path.iterdir()), young.path], why.append)
    assert record.run.path == run.path
    reasons = ("logs is not a run", "reproduce is not a run but a folder of 1", "no row of metrics")
    assert all(any(reason in one for one in why) for reason in reasons)
    with pytest.raises(FileNotFoundError, match=r"there is no run .*nowhere"):
        read_runs([run.path, tmp_path / "nowhere"])


def test_runs_that_have_nothing_to_show(tmp_path: Path) -> None:
    young, _ = untrained_run(tmp_path)
    with pytest.raises(ValueError, match="has no row of metrics yet; there is one every 2,000"):
        read_runs([young.path])
    young.metrics_file.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="has no row of metrics yet"):
        read_runs([young.path])
    young.metrics_file.write_text("steps,return\n1,high\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"metrics.csv is not a table of metrics: .*'high'"):
        read_runs([young.path])


def test_what_links_lead_to_is_no_part_of_a_report(tmp_path: Path) -> None:
    run, home = made_run(tmp_path, {HOPPERS[0]: 1.0}), tmp_path / "home"
    home.mkdir()
    (home / "private.html").write_text("private")
    (run.path / "x.html").symlink_to(home / "private.html")
    (run.path / "linked").symlink_to(home)
    os.mkfifo(run.path / "pipe.html")
    (run.path / "mine.html").write_text("mine")
    (record,) = read_runs([run.path])
    assert record.replays() == ["mine.html"]
    text = make_page(make_groups([record]), "title", tmp_path)
    assert "private" not in text
    (run.path / "evaluations").symlink_to(home)
    with pytest.raises(ValueError, match="evaluations is a link"):
        record.evaluations()


@pytest.mark.parametrize(
    "change",
    [
        {"policy": 3},
        {"episodes": "5"},
        {"total_reward_mean": None},
        {"length_se": []},
        {"fell": {}},
    ],
)
def test_a_summary_of_wrong_types(tmp_path: Path, change: dict[str, object]) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0})
    folder = run.path / "evaluations" / "001"
    episode = Episode(0, 1.0, 10, 1.0, 0, 5.0, False, False)
    write_results([BodyResult("set", HOPPERS[0], "v1", (episode,))], folder, about={})
    (record,) = read_runs([run.path])
    (found,) = record.evaluations()
    text = json.dumps({"about": {}, "results": [found["results"][0] | change]})
    (folder / "summary.json").write_text(text)
    with pytest.raises(ValueError, match=r"summary\.json is not a summary of an evaluation: "):
        record.evaluations()
