"""`make_env` gives a limited environment that answers for what is in it."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

import sgrl
from sgrl.envs import LocomotionEnv

NAME = "3d_hopper_5_full"


def test_what_a_user_would_call_is_there():
    env = sgrl.make_env(NAME, variant="v2")
    env.reset(seed=0)
    single = env.unwrapped
    assert isinstance(single, LocomotionEnv)
    assert env.body is single.body
    assert (env.model, env.data, env.task) == (single.model, single.data, single.task)
    assert env.dt == pytest.approx(0.008)
    env.set_target((3.0, 4.0))
    np.testing.assert_array_equal(env.target, (3.0, 4.0))
    assert {"set_target", "body", "target", "reset", "step"} <= set(dir(env))


def test_what_is_not_there_is_an_attribute_error():
    env = sgrl.make_env(NAME)
    with pytest.raises(AttributeError, match="wings"):
        _ = env.wings
    with pytest.raises(AttributeError, match="_locomotion"):
        _ = env._locomotion


def test_it_truncates_and_is_copied_like_any():
    env = sgrl.make_env(NAME, max_episode_steps=2)
    assert isinstance(env, gymnasium.wrappers.TimeLimit)
    env.reset(seed=0)
    env.step(np.zeros(12))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env):
        assert twin.step(np.zeros(12))[3]
        assert twin.body == sgrl.get_body(NAME)
