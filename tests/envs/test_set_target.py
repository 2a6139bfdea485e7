"""A target that is moved in the middle of an episode."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from sgrl.envs.observation import split
from sgrl.envs.single import LocomotionEnv

BODY = "3d_hopper_3_shin"


def test_it_is_observed_and_rewarded_from_then_on() -> None:
    env = LocomotionEnv(BODY)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.set_target((1.0, 2.0))
    before, _ = env.reset(seed=0, options={"target": (50.0, 0.0)})
    after = env.set_target((0.0, -30.0))
    assert np.array_equal(env.target, (0.0, -30.0))
    away = env.target - env.data.xpos[1, :2]
    distance = np.hypot(*away)
    named = split(after, env.body.num_limbs)
    assert np.allclose(named.target, [*away / distance, 0.0], atol=1e-6)
    assert np.array_equal(named.vectors, split(before, env.body.num_limbs).vectors)
    _, _, _, _, info = env.step(np.zeros(env.action_space.shape))
    moved = np.hypot(*(env.target - env.data.xpos[1, :2]))
    assert info["distance"] == pytest.approx(moved)
    assert info["reward_progress"] == pytest.approx((distance - moved) / env.dt, abs=1e-9)


def test_an_episode_with_the_target_from_the_start_is_the_same() -> None:
    given, moved = (LocomotionEnv(BODY) for _ in range(2))
    first, _ = given.reset(seed=3, options={"target": (4.0, 5.0)})
    moved.reset(seed=3)
    assert np.array_equal(first, moved.set_target([4.0, 5.0]))
    action = np.full(given.action_space.shape, 0.3)
    assert np.array_equal(given.step(action)[0], moved.step(action)[0])


@pytest.mark.parametrize(
    "target", [(1.0,), (1.0, 2.0, 0.0), (np.nan, 0.0), (np.inf, 0.0), (1e11, 0.0)]
)
def test_bad_targets_change_nothing(target: tuple[float, ...]) -> None:
    env = LocomotionEnv(BODY)
    env.reset(seed=0)
    before = env.target
    with pytest.raises(ValueError, match="a target is x and y"):
        env.set_target(target)
    with pytest.raises(ValueError, match="on this target"):
        env.set_target(env.data.xpos[1, :2])
    assert np.array_equal(env.target, before)
