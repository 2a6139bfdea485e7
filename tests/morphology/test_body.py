"""Bodies are values, and cutting them is a public operation with clear errors."""

import dataclasses

import mujoco
import numpy as np
import pytest

from sgrl.morphology import FAMILIES, Limb, Morphology, compile_model, get_body
from sgrl.morphology.parts import capsule

WALKER, HOPPER, CHEETAH = (FAMILIES[f].body for f in ("walker", "hopper", "cheetah"))


def test_bodies_are_immutable_values():
    assert get_body("3d_walker_5_foot") == WALKER.cut(
        "right_foot", "left_foot", name="3d_walker_5_foot"
    )
    assert len({get_body("3d_walker_7_full"), WALKER}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        WALKER.name = "other"


def test_cut_takes_what_hangs_on_a_limb():
    one_leg = WALKER.cut("left_thigh")
    assert one_leg.limb_names == ("torso", "right_thigh", "right_shin", "right_foot")
    assert one_leg.parents == (-1, 0, 1, 2)
    assert one_leg.name == "3d_walker_7_full-left_thigh"
    assert WALKER.num_limbs == 7


def test_a_body_that_the_paper_has_not_compiles():
    tripod = CHEETAH.cut("right_fthigh", "upper_tail", "left_bfoot", name="tripod")
    model = compile_model(tripod)
    assert model.nu == tripod.action_dim == 3 * 8
    full = compile_model(CHEETAH)
    for limb in tripod.limb_names:
        assert model.body(limb).mass == full.body(limb).mass


def test_cutting_in_steps_or_at_once_is_the_same():
    at_once = CHEETAH.cut("left_bshin", "right_ffoot", name="x")
    assert CHEETAH.cut("right_ffoot").cut("left_bshin", name="x") == at_once
    assert CHEETAH.cut("left_bfoot", "left_bshin", "right_ffoot", name="x") == at_once


@pytest.mark.parametrize("operation", ["cut", "splice"])
def test_the_torso_stays(operation):
    with pytest.raises(ValueError, match="torso can't be removed"):
        getattr(WALKER, operation)("torso")


@pytest.mark.parametrize("operation", ["cut", "splice"])
def test_a_limb_that_is_not_there(operation):
    with pytest.raises(ValueError, match=r"no limb 'left_feet'; did you mean left_foot"):
        getattr(WALKER, operation)("left_feet")
    with pytest.raises(ValueError, match="it has torso, thigh"):
        getattr(HOPPER, operation)("antenna")


def test_splice_closes_the_chain_and_lowers_the_torso():
    short = HOPPER.splice("lower_shin")
    assert short.limb_names == ("torso", "thigh", "shin", "foot")
    assert short.limb("foot").parent == "shin"
    assert short.torso_height == pytest.approx(HOPPER.torso_height - 0.5)
    # The sole is as high above the ground as it was.
    feet = []
    for body in (HOPPER, short):
        model = compile_model(body)
        feet.append(sum(model.body_pos[1:, 2]))
    assert feet[0] == pytest.approx(feet[1])


def test_limb_types_come_from_names():
    types = {limb.name: limb.type for limb in CHEETAH.limbs} | {
        limb.name: limb.type for limb in HOPPER.limbs
    }
    assert types["left_bthigh"] == "thigh"
    assert types["lower_shin"] == "shin"
    assert types["right_ffoot"] == "foot"
    assert types["torso"] == "torso"
    assert types["upper_tail"] is None


def test_left_is_the_mirror_image_of_right():
    """Equal angles of the two legs put their feet at mirror places."""
    import mujoco

    model = compile_model(WALKER)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for axis in "xyz":
        for limb in ("thigh", "shin", "foot"):
            angle = rng.uniform(-0.5, 0.5)
            for side in ("left", "right"):
                data.joint(f"{side}_{limb}_joint_{axis}").qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    mirrored = data.body("left_foot").xpos * [1, -1, 1]
    np.testing.assert_allclose(data.body("right_foot").xpos, mirrored, atol=1e-12)


@pytest.mark.parametrize(
    ("limbs", "message"),
    [
        ((), "first limb must be the torso"),
        ((dataclasses.replace(WALKER.limbs[1]),), "first limb must be the torso"),
        ((WALKER.limbs[0], WALKER.limbs[2]), "must follow its parent"),
        ((WALKER.limbs[0], WALKER.limbs[1], WALKER.limbs[1]), "same name"),
        ((WALKER.limbs[0], WALKER.limbs[0]), "only the torso may float"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(limbs, message):
    with pytest.raises(ValueError, match=message):
        Morphology("odd", "walker", limbs, WALKER.physics)


@pytest.mark.parametrize(
    ("count", "names", "message"),
    [
        (0, "xyz", "'xyz' call for 3 hinges, not 0"),
        (1, "xyz", "'xyz' call for 3 hinges, not 1; name those that are there"),
        (3, "xy", "'xy' call for 2 hinges, not 3"),
        (2, "zx", "letters of 'xyz' in this order, not 'zx'"),
        (2, "xx", "letters of 'xyz' in this order, not 'xx'"),
        (1, "w", "letters of 'xyz' in this order, not 'w'"),
    ],
)
def test_hinges_that_do_not_fit_their_names_are_refused(count, names, message):
    hinges = WALKER.limbs[1].hinges[:count]
    with pytest.raises(ValueError, match=f"arm: hinge_names.*{message}"):
        Limb("arm", "torso", (0, 0, 0), (), hinges, hinge_names=names)


def test_hinges_and_slots_of_a_full_body():
    assert WALKER.action_dim == 18
    assert WALKER.hinge_mask.sum(axis=1).tolist() == [0, 3, 3, 3, 3, 3, 3]
    limbs = WALKER.by_limb(np.arange(18.0))
    np.testing.assert_array_equal(limbs[0], 0)
    np.testing.assert_array_equal(limbs[1:], np.arange(18).reshape(6, 3))


@pytest.mark.parametrize("end", [(0.0, 0.0, 0.3), (0.0, 0.0, -0.3), (0.2, 0.1, 0.3)])
def test_a_capsule_may_point_anywhere(end):
    geom = capsule((0.0, 0.0, 0.0), end, 0.05)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.array(geom.quat))
    along = matrix.reshape(3, 3)[:, 2]
    np.testing.assert_allclose(np.abs(along @ end), np.linalg.norm(end), rtol=1e-9)


def test_a_body_is_shown_in_one_line():
    assert repr(get_body("3d_walker_7_full")) == "<Morphology 3d_walker_7_full: 7 limbs, 18 motors>"
