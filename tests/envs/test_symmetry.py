"""Physics has the symmetry that the methods rest on."""

import mujoco
import numpy as np
import pytest

from sgrl.envs import LocomotionEnv
from sgrl.envs.observation import split
from sgrl.morphology import body_names
from sgrl.symmetry import rotate_state, rotation

HORIZON = {"hopper": 25, "walker": 25, "humanoid": 25, "cheetah": 15}
"""Steps over which a turned trajectory is compared: contacts make rounding errors grow.
Feet touch the ground well within it."""
TOLERANCE = 1e-4
"""Largest difference of any number in the observation over the horizon."""


@pytest.mark.parametrize("name", body_names())
@pytest.mark.parametrize("angle", [np.pi / 2, np.pi, -2.1, 0.3])
def test_a_turned_start_gives_the_turned_trajectory(name, angle):
    env, twin = LocomotionEnv(name, variant="v2"), LocomotionEnv(name, variant="v2")
    limbs = env.body.num_limbs
    turn = rotation(angle)
    right_angle = np.isclose(angle % (np.pi / 2), 0)
    _, info = env.reset(seed=1)
    qpos, qvel = env.data.qpos.copy(), env.data.qvel.copy()
    target = info["target"]
    env.reset(seed=1, options={"qpos": qpos, "qvel": qvel, "target": target})
    new_qpos, new_qvel = rotate_state(qpos, qvel, angle)
    twin.reset(
        seed=2,
        options={"qpos": new_qpos, "qvel": new_qvel, "target": turn[:2, :2] @ target},
    )
    rng = np.random.default_rng(0)
    for _ in range(HORIZON[env.body.family]):
        action = rng.uniform(-1, 1, env.body.action_dim)
        plain, turned = env.step(action), twin.step(action)
        if not right_angle and ball_touches_floor(env):
            break
        here, there = split(plain[0], limbs), split(turned[0], limbs)
        for own, other in ((here.vectors, there.vectors), (here.target, there.target)):
            np.testing.assert_allclose(own @ turn.T, other, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(here.scalars, there.scalars, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(plain[1], turned[1], rtol=0, atol=10 * TOLERANCE)
        assert plain[2] == turned[2]
        if plain[2]:
            break


def ball_touches_floor(env):
    """Whether one of the humanoid's feet, which are balls, is on the ground.

    MuJoCo's friction pyramid has four sides. Where a capsule touches the floor they are aligned
    with the capsule and turn with it; where a ball does, with the axes of the world, so that
    a ball that slips is the same only under quarter turns.
    """
    ball = mujoco.mjtGeom.mjGEOM_SPHERE
    pairs = [contact.geom for contact in env.data.contact]
    return any(ball in env.model.geom_type[pair] for pair in pairs)


def test_a_tilt_is_no_symmetry():
    """Gravity has a direction: the same start lying on its side goes on otherwise."""
    env = LocomotionEnv("3d_humanoid_9_full")
    env.reset(seed=0)
    qpos = env.data.qpos.copy()
    qpos[2] = 5.0
    falls = []
    for quat in ((1, 0, 0, 0), (np.sqrt(0.5), np.sqrt(0.5), 0, 0)):
        qpos[3:7] = quat
        env.reset(options={"qpos": qpos})
        env.step(np.zeros(24))
        own = np.zeros(3)
        torso = env.data.xmat[1].reshape(3, 3)
        own[:] = torso.T @ env.data.qvel[:3]
        falls.append(own)
    assert np.abs(falls[0] - falls[1]).max() > 0.05
