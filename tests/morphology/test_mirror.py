"""Mirror images: of bodies, of what they observe and of how they move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sgrl
from sgrl.envs.observation import mirrored
from sgrl.envs.single import LocomotionEnv
from sgrl.morphology import FAMILIES, Morphology, body_names, get_body, mirror_of
from sgrl.morphology.mirror import other_side

MIRRORED_PAIRS = [
    ("3d_humanoid_7_right_leg", "3d_humanoid_7_left_leg"),
    ("3d_humanoid_8_left_knee", "3d_humanoid_8_right_knee"),
]


def with_equal_armatures(body: Morphology) -> Morphology:
    """Those of a published humanoid's sides differ, and so do its motions a little."""
    limbs = tuple(
        replace(limb, hinges=tuple(replace(hinge, armature=0.05) for hinge in limb.hinges))
        for limb in body.limbs
    )
    return replace(body, limbs=limbs)


@pytest.mark.parametrize("name", [family.body.name for family in FAMILIES.values()])
def test_a_body_with_two_equal_sides_is_its_own_image(name: str) -> None:
    body = get_body(name)
    assert mirror_of(body).body is body


@pytest.mark.parametrize(("name", "image"), MIRRORED_PAIRS)
def test_held_out_humanoids_are_images_of_trained_ones(name: str, image: str) -> None:
    found, expected = mirror_of(get_body(name)).body, get_body(image)
    assert found.limb_names == expected.limb_names
    assert found.parents == expected.parents
    for one, other in zip(found.limbs, expected.limbs, strict=True):
        assert one.pos == pytest.approx(other.pos)
        for hinge, like in zip(one.hinges, other.hinges, strict=True):
            assert hinge.axis == pytest.approx(like.axis)
            assert hinge.range_deg == pytest.approx(like.range_deg)
            assert hinge.gear == like.gear


@pytest.mark.parametrize("name", body_names())
def test_the_image_of_the_image_is_the_body(name: str) -> None:
    body = get_body(name)
    there = mirror_of(body)
    back = mirror_of(there.body)
    assert back.body == body
    actions = np.arange(body.action_dim, dtype=np.float32)
    np.testing.assert_array_equal(back.actions(there.actions(actions)), actions)


@pytest.mark.parametrize("name", body_names())
def test_the_image_moves_as_the_image_of_the_motion(name: str) -> None:
    """And observes the image of what is observed, and earns as much."""
    body = with_equal_armatures(get_body(name))
    mirror = mirror_of(body)
    one, other = LocomotionEnv(body), LocomotionEnv(mirror.body)
    seen, _ = one.reset(seed=4)
    qpos, qvel = mirror.state(one.data.qpos.copy(), one.data.qvel.copy())
    options = {"qpos": qpos, "qvel": qvel, "target": one.target * (1.0, -1.0)}
    image, _ = other.reset(options=options)
    np.testing.assert_allclose(mirrored(seen, mirror), image, atol=2e-5)
    rng = np.random.default_rng(5)
    for _ in range(8):
        actions = rng.uniform(-1.0, 1.0, body.action_dim).astype(np.float32)
        seen, reward, *_ = one.step(actions)
        image, earned, *_ = other.step(mirror.actions(actions))
        np.testing.assert_allclose(mirrored(seen, mirror), image, atol=1e-3)
        assert earned == pytest.approx(reward, abs=1e-3)


def test_sides_are_told_by_words() -> None:
    assert other_side("left_upper_arm") == "right_upper_arm"
    assert other_side("upper_tail") == "upper_tail"


def test_a_body_of_ones_own_has_an_image() -> None:
    limper = sgrl.get_body("3d_cheetah_14_full").cut("left_fthigh")
    image = mirror_of(limper).body
    assert image.limb_names == sgrl.get_body("3d_cheetah_14_full").cut("right_fthigh").limb_names


def test_a_lopsided_body_is_another_one_in_the_mirror_whatever_its_limbs_are_called() -> None:
    hopper = get_body("3d_hopper_5_full")
    torso, thigh, *rest = hopper.limbs
    lopsided = replace(hopper, limbs=(torso, replace(thigh, pos=(0.0, 0.05, -0.2)), *rest))
    image = mirror_of(lopsided).body
    assert image != lopsided
    assert image.limb("thigh").pos == (0.0, -0.05, -0.2)
