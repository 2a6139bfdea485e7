"""The policies that come with the package: small, symmetric, and as good as their cards say."""

from __future__ import annotations

import json

import pytest

import sgrl
from sgrl.models.states import rollout_batch
from sgrl.symmetry import measure
from sgrl.training.evaluate import evaluate
from sgrl.training.run import SHIPPED

NAMES = sorted(folder.parent.name for folder in SHIPPED.glob("*/card.json"))


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
    assert measure(policy.as_function(), batch, group="O_g(3)").error < 1e-9
    assert measure(policy.as_function(), batch, group="tilt").error > 1e-2
