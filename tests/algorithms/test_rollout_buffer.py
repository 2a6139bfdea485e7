"""The storage of on-policy learners, and advantages against numbers worked out by hand."""

from dataclasses import replace

import numpy as np

from sgrl.algorithms.learner import Step
from sgrl.algorithms.rollout_buffer import RolloutBuffer, generalized_advantages


def test_advantages_by_hand():
    """Three steps: one environment goes on, one falls at the second step, one is cut off there.

    With gamma 0.5 and lambda 0.5, an error k steps ahead counts 0.25^k.
    """
    rewards = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    values = np.array([[4.0, 4.0, 4.0], [6.0, 6.0, 6.0], [8.0, 8.0, 8.0]])
    next_values = np.array([[6.0, 6.0, 6.0], [8.0, 99.0, 10.0], [2.0, 2.0, 2.0]])
    terminated = np.array([[False] * 3, [False, True, False], [False] * 3])
    done = terminated | np.array([[False] * 3, [False, False, True], [False] * 3])
    # Errors r + 0.5 v' - v. Goes on: 1 + 3 - 4 = 0, 2 + 4 - 6 = 0, 3 + 1 - 8 = -4.
    # Falls: 0, 2 - 6 = -4 (nothing follows), -4. Cut off: 0, 2 + 5 - 6 = 1, -4.
    expected = np.array([[-0.25, -1.0, 0.25], [-1.0, -4.0, 1.0], [-4.0, -4.0, -4.0]])
    found = generalized_advantages(
        rewards, values, next_values, terminated, done, np.full(3, 0.5), 0.5
    )
    assert np.allclose(found, expected)


def test_each_environment_has_its_discount():
    one = np.ones((2, 2))
    none = np.zeros((2, 2), bool)
    found = generalized_advantages(one, 0 * one, one, none, none, np.array([0.0, 0.5]), 1.0)
    assert np.allclose(found, [[1.0, 2.25], [1.0, 1.5]])


def test_keeps_the_last_observation_of_an_episode_that_was_cut_off():
    rollout = RolloutBuffer(steps=2, num_envs=3, width=1, action_dim=1)
    assert not rollout.full
    zeros = np.zeros((3, 1), np.float32)
    for t in range(2):
        following = np.full((3, 1), t + 1, np.float32)
        last = following.copy()
        last[1] = 50 + t
        last[2] = 70 + t
        step = Step(
            obs=np.full((3, 1), t, np.float32),
            actions=zeros,
            rewards=np.zeros(3),
            next_obs=following,
            final_obs=last,
            terminated=np.array([False, False, True]),
            done=np.array([False, t == 1, True]),
        )
        rollout.add(replace(step, extras={"means": zeros}))
    assert rollout.full
    found = rollout.final_observations()
    assert (found.steps.tolist(), found.envs.tolist()) == ([1], [1])
    assert found.obs.tolist() == [[51.0]]
    assert rollout.obs[..., 0].tolist() == [[0.0] * 3, [1.0] * 3, [2.0] * 3]
    rollout.clear()
    assert rollout.final_observations().steps.size == 0
