"""The policies that come with the package: small, symmetric, and as good as their cards say."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import sgrl
from sgrl.envs.observation import mirrored
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.states import rollout_batch
from sgrl.morphology import get_body, mirror_of
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
    assert measure(policy.to(torch.float64).actions, batch, group="O_g(3)").error < 1e-9
    assert measure(policy.to(torch.float64).actions, batch, group="tilt").error > 1e-2


def lopsidedness(name: str, of: str) -> float:
    """How far a policy in the mirror is from the image of what it does, over what it does."""
    policy, body = sgrl.load_policy(name), get_body(of)
    mirror = mirror_of(body)
    env = LocomotionVectorEnv((body,), 8, threads=1)
    seen, _ = env.reset(seed=3)
    lived = []
    for _ in range(40):
        lived.append(seen)
        seen = env.step(policy.act(seen, body))[0]
    env.close()
    rows = np.concatenate(lived)
    expected = mirror.actions(policy.act(rows, body))
    found = policy.act(mirrored(rows, mirror), mirror.body)
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))


@pytest.mark.parametrize("body", ["3d_humanoid_7_right_leg", "3d_humanoid_8_left_knee"])
def test_the_humanoids_that_learned_in_the_mirror_know_their_images(body: str) -> None:
    assert lopsidedness("set-humanoid", body) < 0.4
    assert lopsidedness("set-generalist", body) > 0.8


@pytest.mark.parametrize(
    ("body", "least"),
    [("3d_cheetah_11_leftbkneen_rightffoot", 700.0), ("3d_cheetah_12_tail_leftffoot", 800.0)],
)
def test_cheetahs_that_were_never_trained_on_run(body: str, least: float) -> None:
    """For 300 steps. One that was trained with places of the bodies' own falls after about 100."""
    policy = sgrl.load_policy("set-cheetah")
    assert body not in [known.name for known in policy.bodies]
    (result,) = evaluate(policy, body, episodes=12, threads=1, max_episode_steps=300)
    assert result.mean("total_reward") > least
    assert result.mean("length") > 150
