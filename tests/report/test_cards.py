"""Policies that ship in a report, beside runs or alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgrl.report.cards import find_policies
from sgrl.report.evaluations import evaluations_table
from sgrl.report.groups import make_groups
from sgrl.report.page import write_report
from sgrl.report.runs import read_runs
from sgrl.training.references import reference_return
from sgrl.training.results import BodyResult, Episode, write_results
from tests.report.cells import rows_of
from tests.report.made import HOPPERS, made_run
from tests.report.test_page import data_of

FULL = "3d_hopper_5_full"


def evaluate(folder: Path, policy: str, total: float) -> None:
    episodes = (Episode(0, total, 10, 1.0, 0, 5.0, True, False),)
    write_results(
        [BodyResult(policy, FULL, "v1", episodes)], folder, about={"method": "set", "yaw": None}
    )


def test_runs_and_policies_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = made_run(tmp_path / "runs", {FULL: 1.0})
    evaluate(run.path / "evaluations" / "001", "set", 17.0)
    policies, rest = find_policies(["set-hopper", run.path, "set-hopper"])
    assert [policy.name for policy in policies] == ["set-hopper"]
    assert rest == [run.path]
    groups = make_groups(read_runs(rest))

    def rows() -> dict[tuple[str, str], dict[str, str]]:
        titles, *found = rows_of(evaluations_table(groups, policies) or "")
        lines = [dict(zip(titles, row, strict=True)) for row in found if row[0] == FULL]
        return {(line["method"], line["task"]): line for line in lines}

    found = rows()
    assert set(found) == {("set", "v1"), ("set-hopper", "v1"), ("set-hopper", "v2")}
    card = next(row for row in policies[0].card["results"] if row["body"] == FULL)
    shown = found["set-hopper", "v1"]
    assert shown["return"].split()[0].replace(",", "") == f"{card['total_reward']:.1f}"
    assert shown["episodes"] == str(policies[0].card["episodes"])
    assert shown["seen"] == "yes"
    random = reference_return("random", [FULL], "v1")
    specialist = reference_return("specialist", [FULL], "v1")
    assert random is not None
    assert specialist is not None
    for line in (shown, found["set", "v1"]):
        assert (line["random"], line["specialist"]) == (f"{random:,.1f}", f"{specialist:,.1f}")
    # What somebody evaluates later counts instead of the card's numbers.
    evaluate(Path("runs/set-hopper/evaluations/001"), "set", 5.0)
    assert rows()["set-hopper", "v1"]["return"].startswith("5.0")


def test_a_report_of_a_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`runs/*` also names the folder with evaluations of a policy that ships."""
    monkeypatch.chdir(tmp_path)
    run = made_run(tmp_path / "runs", {FULL: 1.0})
    evaluate(Path("runs/set-hopper/evaluations/001"), "set", 5.0)
    out = tmp_path / "report.html"
    assert write_report([run.path, "runs/set-hopper", "set-walker"], out) == 3
    assert "1 run and 2 policies" in out.read_text(encoding="utf-8")
    data = data_of(out)
    assert isinstance(data, dict)
    assert data["references"]["random"]["v1"][FULL] == reference_return("random", [FULL], "v1")
    assert data["groups"][0]["variant"] == run.settings().variant


def test_a_report_of_policies_alone(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert write_report(["set-hopper"], out) == 1
    page = out.read_text(encoding="utf-8")
    assert "1 policy ·" in page
    assert "Final returns" not in page
    assert "<h2>Evaluations</h2>" in page


def test_a_card_that_is_none_is_named(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0})
    (run.path / "card.json").write_text(json.dumps({"bodies": []}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"card\.json is not the card of a policy"):
        find_policies([run.path])


def test_references_of_several_bodies_are_their_mean() -> None:
    single = [reference_return("random", [body], "v1") for body in HOPPERS]
    assert None not in single
    assert reference_return("random", HOPPERS, "v1") == pytest.approx(sum(map(float, single)) / 2)  # type: ignore[arg-type]
    image = f"{HOPPERS[0]}_mirrored"
    assert reference_return("random", [image], "v1") == single[0], "as the body itself"
    assert reference_return("specialist", [FULL, "no such body"], "v1") is None
