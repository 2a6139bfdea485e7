"""A body whose limbs have fewer than three hinges: knees that only bend, a tail that is fixed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import sgrl
from sgrl.envs import LocomotionEnv
from sgrl.envs.observation import FEATURES, mirrored
from sgrl.morphology import compile_model, get_body, mirror_of

from . import reference


def with_hinges(body, name, **names):
    """A body whose limbs keep only the hinges that are named."""
    limbs = []
    for limb in body.limbs:
        kept = names.get(limb.name, "xyz")
        if limb.parent is not None:
            hinges = tuple(limb.hinges["xyz".index(axis)] for axis in kept)
            limb = replace(limb, hinges=hinges, hinge_names=kept)
        limbs.append(limb)
    return replace(body, name=name, limbs=tuple(limbs))


WALKER = with_hinges(
    get_body("3d_walker_7_full"),
    "3d_walker_7_full",
    left_shin="y",
    right_shin="y",
    left_foot="xz",
    right_foot="",
)
ACTIONS = 3 + 1 + 2 + 3 + 1 + 0


def test_hinges_come_from_the_body():
    assert WALKER.action_dim == WALKER.actuated.size == compile_model(WALKER).nu == ACTIONS
    assert WALKER.hinge_mask.sum() == ACTIONS
    env = sgrl.make_env(WALKER)
    assert env.action_space.shape == (ACTIONS,)
    assert env.observation_space.shape == (7 * FEATURES,)
    names = [env.unwrapped.model.actuator(i).name for i in range(ACTIONS)]
    shin = WALKER.limb_names.index("left_shin")
    (hinge,) = np.flatnonzero(WALKER.by_limb(np.arange(1, ACTIONS + 1))[shin])
    assert hinge == 1
    assert names[WALKER.by_limb(np.arange(ACTIONS))[shin, 1]] == "left_shin_joint_y"


def test_the_observation_agrees_with_an_independent_computation():
    env = LocomotionEnv(WALKER)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        observation, _, ended, _, info = env.step(rng.uniform(-1, 1, ACTIONS))
        expected = reference.observation(env.model, env.data.qpos, env.data.qvel, info["target"])
        np.testing.assert_allclose(observation, expected, rtol=1e-5, atol=2e-5)
        if ended:
            env.reset()


def test_in_a_mix_it_is_what_it_is_alone():
    full = "3d_walker_7_full"
    mix = sgrl.make_vec([WALKER, full], 2)
    alone = [LocomotionEnv(WALKER), LocomotionEnv(WALKER)]
    np.testing.assert_array_equal(mix.action_mask.sum(axis=1), [ACTIONS, ACTIONS, 18, 18])
    seen, _ = mix.reset(seed=5)
    for row, env in enumerate(alone):
        np.testing.assert_array_equal(seen[row], env.reset(seed=5 + row)[0])
    rng = np.random.default_rng(1)
    for _ in range(10):
        actions = [rng.uniform(-1, 1, (2, part.body.action_dim)) for part in mix.parts]
        joined = mix.join_actions(actions)
        seen, rewards, *_ = mix.step(joined)
        for row, env in enumerate(alone):
            observation, reward, *_ = env.step(joined[row, :ACTIONS])
            np.testing.assert_array_equal(seen[row], observation)
            assert rewards[row] == pytest.approx(reward, abs=1e-12)
    twin = pickle.loads(pickle.dumps(mix))
    np.testing.assert_array_equal(mix.step(joined)[0], twin.step(joined)[0])


def test_a_state_may_be_given():
    qpos = np.zeros(7 + ACTIONS)
    qpos[2], qpos[3] = 1.3, 1.0
    for env in (LocomotionEnv(WALKER), sgrl.make_vec(WALKER, 2)):
        env.reset(options={"qpos": qpos})
        with pytest.raises(ValueError, match=rf"shape \({7 + ACTIONS},\)"):
            env.reset(options={"qpos": np.zeros(25)})


def test_its_mirror_image_moves_as_the_image_of_its_motion():
    mirror = mirror_of(WALKER)
    assert mirror.body.limb("right_foot").hinge_names == "xz"
    assert mirror.body.limb("left_foot").hinge_names == ""
    assert mirror_of(mirror.body).body == WALKER
    env, image = LocomotionEnv(WALKER), LocomotionEnv(mirror.body)
    env.reset(seed=0, options={"target": (20.0, 3.0)})
    qpos, qvel = mirror.state(env.data.qpos, env.data.qvel)
    image.reset(options={"qpos": qpos, "qvel": qvel, "target": (20.0, -3.0)})
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.uniform(-1, 1, ACTIONS)
        observation, reward, *_ = env.step(action)
        expected, other, *_ = image.step(mirror.actions(action))
        np.testing.assert_allclose(mirrored(observation, mirror), expected, atol=1e-4)
        assert reward == pytest.approx(other, abs=1e-4)
