"""The policies that come with the package: small, symmetric, and as good as their cards say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import sgrl
from sgrl.envs.variant import MAX_EPISODE_STEPS
from sgrl.models.states import rollout_batch
from sgrl.morphology import get_body
from sgrl.symmetry import measure
from sgrl.training.evaluate import evaluate
from sgrl.training.published import mirror_difference
from sgrl.training.results import LASTING
from sgrl.training.run import SHIPPED

NAMES = sorted(folder.parent.name for folder in SHIPPED.glob("*/card.json"))
TEACHERS = Path(__file__).parents[2] / "teachers"
FOLDERS = sorted(file.parent for at in (SHIPPED, TEACHERS) for file in at.glob("*/card.json"))
"""Of the policies that ship and of those that the repository has to learn from."""
STEPS = 400
"""Of a short episode."""


def named(value: Path | str) -> str:
    return value.name if isinstance(value, Path) else value


def card_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return found


def bodies_that_last(card: dict[str, Any]) -> list[str]:
    """Full bodies, and those that were never trained on, on which it stays up by its card."""
    return [
        row["body"]
        for row in card["results"]
        if row["variant"] == "v1"
        and (row["body"].endswith("_full") or not row["seen"])
        # Cards of before 0.2 tell the mean length alone.
        and row.get("lasted", row["length"] / MAX_EPISODE_STEPS) >= LASTING
    ]


def test_they_are_small() -> None:
    assert "set-cheetah" in NAMES
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 25e6


@pytest.mark.parametrize("name", NAMES)
def test_a_few_episodes_bear_out_the_card(name: str) -> None:
    card = json.loads((SHIPPED / name / "card.json").read_text(encoding="utf-8"))
    best = max(
        (row for row in card["results"] if row["variant"] == "v1" and row["seen"]),
        key=lambda row: row["total_reward"],
    )
    (result,) = evaluate(sgrl.load_policy(name), best["body"], episodes=4, threads=1)
    assert result.mean("total_reward") > 0.5 * best["total_reward"]


@pytest.mark.parametrize("name", NAMES)
def test_training_has_kept_the_symmetry(name: str) -> None:
    policy = sgrl.load_policy(name)
    batch = rollout_batch(policy.bodies[:3], 4)
    assert measure(policy.to(torch.float64).actions, batch, group="O_g(3)").error < 1e-9
    assert measure(policy.to(torch.float64).actions, batch, group="tilt").error > 1e-2


@pytest.mark.parametrize(
    "folder", [folder for folder in FOLDERS if card_of(folder).get("mirror_errors")], ids=named
)
def test_mirror_images_are_known_as_the_card_says(folder: Path) -> None:
    errors = card_of(folder)["mirror_errors"]
    name = max(errors, key=lambda name: get_body(name).num_limbs)
    found = mirror_difference(sgrl.load_policy(folder), get_body(name))
    assert found == pytest.approx(errors[name], rel=0.2, abs=0.02)


WALKS = [(folder, body) for folder in FOLDERS for body in bodies_that_last(card_of(folder))]


def test_somebody_walks() -> None:
    assert {get_body(body).family for _, body in WALKS} >= {"cheetah", "humanoid", "walker"}


@pytest.mark.parametrize(("folder", "body"), WALKS, ids=named)
def test_it_still_walks(folder: Path, body: str) -> None:
    """Half as many episodes stay up as by its card, or more, and gain half as many metres a second
    or more."""
    card = card_of(folder)
    (row,) = (row for row in card["results"] if (row["body"], row["variant"]) == (body, "v1"))
    policy = sgrl.load_policy(folder)
    (result,) = evaluate(policy, body, episodes=4, threads=1, max_episode_steps=STEPS)
    assert result.lasted >= 0.5 * row.get("lasted", 0.8)
    assert result.mean("gained") >= 0.5 * row["speed"] * STEPS * get_body(body).dt
