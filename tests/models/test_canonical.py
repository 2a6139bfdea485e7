"""Frames: the heading is the torso's own, and what is seen in a frame does not turn."""

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from torch import nn

from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.canonical import Canonicalized, canonicalize, heading, with_heading_bias
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import body_names, get_body
from sgrl.morphology.body import Morphology
from sgrl.morphology.parts import unit
from sgrl.symmetry import assert_equivariant, measure, rotation, transform

BODIES = [get_body(name) for name in body_names()]
HUMANOID = get_body("3d_humanoid_9_full")


class Everything(nn.Module):
    """Shows all that a wrapped network gets to see."""

    def forward(self, batch: LimbBatch, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (batch.vectors, batch.scalars, batch.gravity, batch.target, *rest)


def compare_with_mujoco(body: Morphology, steps: int) -> float:
    """Largest error of the heading (all three coordinates) along a random episode."""
    env = LocomotionEnv(body)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    worst = 0.0
    for _ in range(steps):
        obs, _, terminated, _, _ = env.step(rng.uniform(-1, 1, body.action_dim))
        seen = heading(LimbBatch.from_flat(torch.from_numpy(obs)[None], body))[0].numpy()
        true = env.data.xmat[1].reshape(3, 3)[:, 0]
        worst = max(worst, float(np.abs(seen - true).max()))
        if terminated:
            env.reset()
    return worst


@pytest.mark.parametrize("name", body_names())
def test_heading_is_the_torsos_x_axis(name: str) -> None:
    # Observations are float32, and that is all that is lost.
    assert compare_with_mujoco(get_body(name), 25) < 1e-6


def test_heading_is_exact_for_slanted_hinges_too() -> None:
    """A humanoid with nothing but its arms, whose hinges lie along none of the torso's axes."""
    arms = HUMANOID.cut("right_thigh", "left_thigh")
    env = LocomotionEnv(arms)
    rng = np.random.default_rng(1)
    for _ in range(20):
        quaternion = rng.standard_normal(4)
        qpos = np.concatenate([[0, 0, 2.0], quaternion, rng.uniform(-1.2, 1.2, env.model.nu)])
        obs, _ = env.reset(options={"qpos": qpos, "qvel": rng.standard_normal(env.model.nv)})
        seen = heading(LimbBatch.from_flat(torch.from_numpy(obs)[None], arms))[0].numpy()
        np.testing.assert_allclose(seen, env.data.xmat[1].reshape(3, 3)[:, 0], atol=2e-6)


def test_bodies_with_and_without_slanted_hinges_mix() -> None:
    arms = HUMANOID.cut("right_thigh", "left_thigh")
    mixed = rollout_batch([arms, HUMANOID], 2)
    together = heading(mixed)
    alone = torch.cat([heading(rollout_batch([body], 2)) for body in (arms,)])
    torch.testing.assert_close(together[:2], alone)
    torch.testing.assert_close(
        together.norm(dim=-1), torch.ones(4, dtype=torch.float64), atol=1e-6, rtol=0
    )


def test_a_body_whose_heading_can_not_be_seen_is_told_what_to_use() -> None:
    blind = get_body("3d_hopper_3_shin")
    thigh = blind.limbs[1]
    hinges = tuple(replace(hinge, axis=unit(0, 0, 1)) for hinge in thigh.hinges)
    blind = replace(blind, limbs=(blind.limbs[0], replace(thigh, hinges=hinges), blind.limbs[2]))
    with pytest.raises(ValueError, match=r"can't be seen; use the target frame \(\+tn\)"):
        heading(random_batch([blind]))


@pytest.mark.parametrize("frame", ["heading", "target"])
@pytest.mark.parametrize("real", [False, True], ids=["random", "rollout"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_seen_turns_with_nothing_but_knows_left_from_right(
    frame: str, real: bool, dtype: torch.dtype
) -> None:
    batch = (rollout_batch if real else random_batch)(BODIES, dtype=dtype)
    framed = Canonicalized(Everything(), frame)
    assert_equivariant(framed, batch, group="rotation")
    assert measure(framed, batch, group="reflection").error > 1e-2
    assert measure(framed, batch, group="tilt").error > 1e-2


def test_frames_put_their_direction_on_x_and_keep_the_rest() -> None:
    batch = rollout_batch(BODIES)
    facing = canonicalize(batch, "target")
    torch.testing.assert_close(facing.target, torch.tensor([[1.0, 0, 0]]).double().expand(29, 3))
    ahead = heading(canonicalize(batch, "heading"))
    assert (ahead[:, 0] > 0).all()
    torch.testing.assert_close(ahead[:, 1], torch.zeros(29).double(), atol=1e-12, rtol=0)
    assert facing.scalars is batch.scalars
    assert facing.gravity is batch.gravity
    torch.testing.assert_close(facing.vectors[..., 2], batch.vectors[..., 2])
    torch.testing.assert_close(facing.vectors.norm(dim=-1), batch.vectors.norm(dim=-1))


def test_bias_turns_the_notion_of_forward() -> None:
    batch = rollout_batch(BODIES[:3])
    biased = canonicalize(batch, "heading", bias=math.pi / 3)
    turned_back = transform(biased, rotation(math.pi / 3))
    torch.testing.assert_close(turned_back.vectors, canonicalize(batch, "heading").vectors)
    model = nn.Sequential(Canonicalized(Everything(), "heading"))
    other = with_heading_bias(model, math.pi / 3)
    torch.testing.assert_close(other(batch)[0], biased.vectors)
    torch.testing.assert_close(model(batch)[0], canonicalize(batch, "heading").vectors)
    assert_equivariant(Canonicalized(Everything(), bias=1.0), batch, group="rotation")
    with pytest.raises(ValueError, match="the target frame has none"):
        Canonicalized(Everything(), "target", bias=1.0)
    with pytest.raises(ValueError, match="only a model in the heading frame"):
        with_heading_bias(Canonicalized(Everything(), "target"), 1.0)
    with pytest.raises(ValueError, match="there are heading and target"):
        Canonicalized(Everything(), "camera")  # type: ignore[arg-type]


def test_what_follows_the_batch_is_passed_on() -> None:
    batch = random_batch(BODIES[:1])
    action = torch.zeros(batch.layout.num_limbs, 3)
    assert Canonicalized(Everything(), "target")(batch, action)[-1] is action


def test_upright_heading_is_finite() -> None:
    """A torso whose x axis points straight up has no heading; the frame stays the world's."""
    body = get_body("3d_hopper_3_shin")
    env = LocomotionEnv(body)
    upright = np.zeros(4)
    mujoco.mju_axisAngle2Quat(upright, np.array([0.0, 1.0, 0.0]), -math.pi / 2)
    qpos = np.concatenate([[0, 0, 2.0], upright, np.zeros(env.model.nu)])
    obs, _ = env.reset(options={"qpos": qpos, "qvel": np.zeros(env.model.nv)})
    batch = LimbBatch.from_flat(torch.from_numpy(obs)[None], body)
    assert torch.isfinite(canonicalize(batch, "heading").vectors).all()
