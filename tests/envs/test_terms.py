"""The tables of rewards and terminations: a term of one's own costs a function and a row."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import sgrl
from sgrl.envs import LocomotionEnv, RewardTerm, TerminationTerm, task_for, terms
from sgrl.morphology import get_body

WALKER, HOPPER = get_body("3d_walker_7_full"), get_body("3d_hopper_5_full")


def uprightness(state):
    """How far the torso's z axis points up."""
    return state.rotation[8]


def negative_height(state):
    return -state.position[2, :, 0]


UPRIGHT = RewardTerm("upright", uprightness, 0.5)
TASK = replace(task_for(WALKER), extra_rewards=(UPRIGHT,))


def test_a_reward_term_from_outside_is_a_function_and_a_row():
    plain, env = LocomotionEnv(WALKER), LocomotionEnv(WALKER, task=TASK)
    plain.reset(seed=0)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = rng.uniform(-1, 1, 18)
        expected, (_, reward, _, _, info) = plain.step(action)[1], env.step(action)
        assert info["reward_upright"] == 0.5 * env.data.xmat[1, 8] != 0
        assert reward == expected + info["reward_upright"]


def test_a_row_in_the_table_is_earned_by_all(monkeypatch):
    monkeypatch.setattr(terms, "REWARDS", (*terms.REWARDS, UPRIGHT))
    env = sgrl.make_vec([WALKER, HOPPER], 1)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step(np.zeros(env.action_space.shape))
    earned = [infos[f"reward_{row.name}"] for row in terms.REWARDS]
    assert (earned[-1] > 0.4).all()
    np.testing.assert_array_equal(sum(earned), rewards)


def test_a_term_is_earned_only_where_the_task_has_it(monkeypatch):
    def task_of(body, *_):
        return TASK if body is WALKER else task_for(body)

    monkeypatch.setattr("sgrl.envs.vector.fit_task", lambda body, *_: task_of(body))
    env = sgrl.make_vec([WALKER, HOPPER], 2)
    env.reset(seed=0)
    infos = env.step(np.zeros(env.action_space.shape))[4]
    assert (infos["reward_upright"][:2] > 0.4).all()
    np.testing.assert_array_equal(infos["reward_upright"][2:], 0)


def test_a_termination_from_outside():
    bound = TerminationTerm("high enough", negative_height, high=-100.0)
    task = replace(TASK, extra_terminations=(bound,))
    for env in (LocomotionEnv(WALKER, task=task), sgrl.make_vec(WALKER, 2, task=task)):
        env.reset(seed=0)
        assert np.all(env.step(np.zeros(env.action_space.shape))[2])


def test_an_environment_with_terms_of_its_own_can_be_pickled():
    env = sgrl.make_vec(WALKER, 2, task=TASK)
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    action = np.full((2, 18), 0.3)
    np.testing.assert_array_equal(env.step(action)[1], twin.step(action)[1])


def test_names_are_not_used_twice():
    for name in ("alive", "upright"):
        task = replace(TASK, extra_rewards=(UPRIGHT, replace(UPRIGHT, name=name)))
        with pytest.raises(ValueError, match=f"a term '{name}' already; give yours another name"):
            LocomotionEnv(WALKER, task=task)
    task = replace(TASK, extra_terminations=(TerminationTerm("roll", uprightness),))
    with pytest.raises(ValueError, match="a term 'roll' already"):
        LocomotionEnv(WALKER, task=task)


def test_a_name_means_one_function_in_a_mix(monkeypatch):
    tasks = {
        WALKER: TASK,
        HOPPER: replace(task_for(HOPPER), extra_rewards=(RewardTerm("upright", negative_height),)),
    }
    monkeypatch.setattr("sgrl.envs.vector.fit_task", lambda body, *_: tasks[body])
    with pytest.raises(ValueError, match="'upright' is another function for another body"):
        sgrl.make_vec([WALKER, HOPPER], 1)


def test_rows_that_end_nothing_are_left_out():
    rows = terms.termination_rows([task_for(HOPPER)], [1])
    assert [row.function for row in rows] == [
        terms.lowest_height,
        terms.cosine_of_tilt,
        terms.size,
    ]
