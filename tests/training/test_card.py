"""What is told of policies, from cards by hand: nothing is promised that a card does not have."""

from __future__ import annotations

from typing import Any

import pytest

from sgrl.morphology import get_body
from sgrl.training import card as cards
from sgrl.training.card import OVERVIEW, format_card, overview
from sgrl.training.references import reference_return
from sgrl.training.stages import commands_of, stages_of, uncommitted

FULL, CUT, HELD_OUT, OTHER = (
    "3d_walker_7_full",
    "3d_walker_5_foot",
    "3d_walker_6_right_foot",
    "3d_walker_3_left_knee_right_knee",
)


def row_of(body: str, variant: str, total: float, **more: Any) -> dict[str, Any]:
    row = {"body": body, "variant": variant, "seen": body in (FULL, CUT, f"{CUT}_mirrored")}
    numbers = {"total_reward": total, "length": 500.0, "speed": 1.0, "gained": 4.0, "targets": 0.5}
    errors = {f"{name}_se": 0.1 for name in numbers}
    return row | numbers | errors | {"lasted": 0.5} | more


def card_of(*rows: dict[str, Any]) -> dict[str, Any]:
    stage = {"name": "a", "commands": ["sgrl train"], "commits": ["abc", "abc-dirty"]}
    return {
        "name": "small",
        "method": "set",
        "preset": "many",
        "algorithm": "distil",
        "variant": "mixed",
        "bodies": [FULL, CUT],
        "known_by_mirror": [HELD_OUT],
        "seed": 0,
        "versions": {"python": "3", "torch": "2", "mujoco": "4"},
        "license": "MIT",
        "stages": [stage | {"steps": 100, "hours": 0.5, "core_hours": 1.0}],
        "steps": 100,
        "core_hours": 1.0,
        "episodes": 100,
        "results": list(rows),
        "mirror_errors": {FULL: 0.25},
        "facing": [],
    }


CARD = card_of(
    *(row_of(FULL, variant, 3000.0, lasted=0.9) for variant in ("v1", "v2")),
    *(row_of(CUT, variant, 1000.0, lasted=0.5, targets=0.1) for variant in ("v1", "v2")),
    *(row_of(HELD_OUT, variant, 500.0) for variant in ("v1", "v2")),
    *(row_of(OTHER, variant, 300.0) for variant in ("v1", "v2")),
    # Images count in no mean.
    *(row_of(f"{CUT}_mirrored", variant, 9e9, seen=True) for variant in ("v1", "v2")),
)


@pytest.fixture(autouse=True)
def specialists(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if those of the full body had 4,000 and of the cut one 2,000."""
    known = {FULL: 4000.0, CUT: 2000.0}
    monkeypatch.setattr(cards, "reference_return", lambda _, bodies, __: known.get(bodies[0]))


def test_the_table_says_what_the_card_does() -> None:
    (row,) = overview({"small": CARD})
    found = dict(zip(OVERVIEW, row, strict=True))
    assert found == {
        "policy": "small",
        "family": "walker",
        "stays up (s)": f"{500 * get_body(FULL).dt:.1f}/{1000 * get_body(FULL).dt:.0f}",
        "lasts": "70%",
        "lasts near": "70%",
        "bodies": "2",
        "that last": "1",
        "targets": "0.3",
        "return": "2,000",
        "of the best": "62%",
        "never seen": "300",
    }


def test_what_a_card_does_not_say_is_left_empty() -> None:
    rows = [dict(row) for row in CARD["results"] if row["body"] == CUT]
    for row in rows:
        for name in ("lasted", "gained", "gained_se"):
            del row[name]
    old = card_of(*rows)
    for name in ("stages", "known_by_mirror", "mirror_errors"):
        del old[name]
    old |= {"commands": ["sgrl train --seed 3"], "commits": [None], "hours": 0.5}
    (cells,) = overview({"small": old})
    found = dict(zip(OVERVIEW, cells, strict=True))
    assert [found[name] for name in ("lasts", "lasts near", "that last", "never seen")] == [""] * 4
    text = format_card(old)
    assert "nan" not in text
    assert "None" not in text
    assert "| small | 100 | 0.50 | 2 | 1.00 | not recorded |" in text
    assert "    sgrl train --seed 3\n" in text


def test_a_card_to_read() -> None:
    text = format_card(CARD)
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    cells = [cell.strip() for cell in lines[FULL].strip("|").split("|")]
    assert cells[1:4] == ["yes", "3,000.0 ± 0.10", "75%"]
    assert "25%" in cells, "the error against the mirror"
    assert cells[-1] == ""
    assert lines[CUT].rstrip("| ").endswith("falls")
    assert "| mirror image |" in lines[HELD_OUT]
    assert "| no |" in lines[OTHER]
    assert "| a | 100 | 0.50 | 2 | 1.00 | abc, abc with changes in no commit |" in text


def test_a_command_that_trained_several_runs_is_told_once() -> None:
    stages = [
        {"name": name, "commands": ["sgrl specialists 3d_walker++", *more]}
        for name, more in (("a", []), ("b", ["sgrl train --resume b"]))
    ]
    assert commands_of(stages) == ["sgrl specialists 3d_walker++", "sgrl train --resume b"]


def test_what_is_in_no_commit_is_named() -> None:
    assert uncommitted(stages_of(CARD)) == ["a"]
    clean = CARD["stages"][0] | {"commits": ["abc", None]}
    assert uncommitted([clean]) == []


def test_references_are_those_of_today() -> None:
    """A card has no copy of them, which would grow old."""
    assert reference_return("specialist", [FULL], "v1") is not None
    assert "specialist" not in {key for row in CARD["results"] for key in row}
