"""Tubes and balls against MuJoCo's own geometry."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sgrl.envs.single import LocomotionEnv
from sgrl.morphology import FAMILIES, compile_model
from sgrl.viewer.shapes import Shape, lowest_point


@pytest.mark.parametrize("family", FAMILIES)
def test_a_capsule_is_a_tube_with_a_ball_at_each_end(family: str) -> None:
    env = LocomotionEnv(FAMILIES[family].body)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        env.step(rng.uniform(-1, 1, env.action_space.shape))
    shape = Shape(env.model)
    centres, wxyz, balls = shape.poses(env.data)
    found = {
        (int(limb), *np.round(place, 6), round(float(radius), 6))
        for limb, place, radius in zip(shape.ball_limbs, balls, shape.ball_scales, strict=True)
    }
    expected = set()
    tubes = 0
    for geom in range(1, env.model.ngeom):
        limb, (radius, half, _) = int(env.model.geom_bodyid[geom]) - 1, env.model.geom_size[geom]
        axis = env.data.geom_xmat[geom].reshape(3, 3)[:, 2]
        if env.model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE:
            ends = [env.data.geom_xpos[geom] + sign * half * axis for sign in (1, -1)]
            turned = np.zeros(3)
            mujoco.mju_rotVecQuat(turned, np.array([0.0, 0.0, 1.0]), wxyz[tubes])
            assert np.abs(turned @ axis) == pytest.approx(1.0)
            assert np.allclose(centres[tubes], env.data.geom_xpos[geom])
            assert np.allclose(shape.tube_scales[tubes], (radius, radius, half))
            assert shape.tube_limbs[tubes] == limb
            tubes += 1
        else:
            ends = [env.data.geom_xpos[geom]]
        expected |= {(limb, *np.round(end, 6), round(float(radius), 6)) for end in ends}
    assert tubes == len(centres) > 0
    assert found == expected


def test_a_tube_that_points_straight_down() -> None:
    model = compile_model(FAMILIES["hopper"].body)
    data = mujoco.MjData(model)
    data.qpos[3:7] = (0.0, 1.0, 0.0, 0.0)
    mujoco.mj_kinematics(model, data)
    _, wxyz, _ = Shape(model).poses(data)
    assert np.allclose(np.linalg.norm(wxyz, axis=1), 1.0)


def test_the_lowest_point_touches_the_ground() -> None:
    """MuJoCo says so by a contact, which appears when the body is lowered any further."""
    body = FAMILIES["cheetah"].body
    model = compile_model(body)
    data = mujoco.MjData(model)
    data.qpos[2] = 3.0
    mujoco.mj_forward(model, data)
    height = lowest_point(model, data)
    for gap, touches in ((0.01, False), (-0.01, True)):
        data.qpos[2] = 3.0 - height + gap
        mujoco.mj_forward(model, data)
        nearest = min((contact.dist for contact in data.contact), default=1.0)
        assert (nearest < 0) == touches
