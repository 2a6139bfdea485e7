"""Single environments that are stepped as one do what each would do alone."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from sgrl.envs.single import LocomotionEnv, StepTuple, step_together

HOPPER, WALKER = "3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"
NEAR = {"target": (1.001, 0.0), "yaw": 0.0}
"""Reached within a few steps, so that new targets are drawn."""


def made(*bodies: str) -> list[LocomotionEnv]:
    envs = [LocomotionEnv(body, variant="v2") for body in bodies]
    for seed, env in enumerate(envs):
        env.reset(seed=seed, options=NEAR)
    return envs


def drawn(envs: list[LocomotionEnv], rng: np.random.Generator) -> list[NDArray[np.float32]]:
    return [rng.uniform(-1.5, 1.5, env.body.action_dim).astype(np.float32) for env in envs]


def assert_same(one: StepTuple, other: StepTuple, compare: Any) -> None:
    for first, second in zip(one[:4], other[:4], strict=True):
        compare(first, second)
    assert one[4].keys() == other[4].keys()
    for key, value in one[4].items():
        compare(value, other[4][key])


@pytest.mark.parametrize("bodies", [(HOPPER,) * 3, (HOPPER, WALKER, HOPPER)])
def test_as_each_alone(bodies: tuple[str, ...]) -> None:
    alone, together = made(*bodies), made(*bodies)
    # Sums over motors may be rounded otherwise where there is padding.
    exact = len(set(bodies)) == 1
    compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    rng = np.random.default_rng(0)
    reached = 0
    with ThreadPoolExecutor(2) as threads:
        for count in range(40):
            actions = drawn(alone, rng)
            stepped = step_together(together, actions, threads.map if count % 2 else map)
            for env, twin, action, result in zip(alone, together, actions, stepped, strict=True):
                assert_same(env.step(action), result, compare)
                np.testing.assert_array_equal(env.data.qpos, twin.data.qpos)
                np.testing.assert_array_equal(env.target, twin.target)
                reached += result[4]["targets_reached"]
            if count in (10, 25):
                placed = {"qpos": alone[1].data.qpos, "qvel": alone[1].data.qvel}
                for place, options in enumerate((None, placed, NEAR)):
                    first, info = alone[place].reset(options=options)
                    again, same = together[place].reset(options=options)
                    np.testing.assert_array_equal(first, again)
                    np.testing.assert_array_equal(info["target"], same["target"])
    assert reached, "new targets are part of the test"


def test_in_other_company_alone_and_from_a_pickle() -> None:
    alone, together = made(HOPPER, WALKER, HOPPER), made(HOPPER, WALKER, HOPPER)
    rng = np.random.default_rng(1)
    for company in ([0, 1, 2], [2, 0], [1], [1, 2], [0, 1, 2], [0]):
        actions = drawn(alone, rng)
        chosen = [together[place] for place in company]
        stepped = step_together(chosen, [actions[place] for place in company])
        for place, result in zip(company, stepped, strict=True):
            expected = alone[place].step(actions[place])
            assert_same(expected, result, np.testing.assert_allclose)
        moved = alone[1].set_target((5.0, 6.0)), together[1].set_target((5.0, 6.0))
        np.testing.assert_array_equal(*moved)
        together[2] = pickle.loads(pickle.dumps(together[2]))
    for env, twin in zip(alone, together, strict=True):
        np.testing.assert_array_equal(env.data.qpos, twin.data.qpos)
        np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_what_can_not_be_stepped_stops_all() -> None:
    envs = made(HOPPER, HOPPER)
    fine = np.zeros(envs[0].body.action_dim, np.float32)
    before = [env.data.qpos.copy() for env in envs]
    for bad, message in (
        (fine[1:], "takes an action of shape"),
        (fine * np.nan, "environment 1 has"),
    ):
        with pytest.raises(ValueError, match=message):
            step_together(envs, [fine, bad])
    with pytest.raises(gymnasium.error.ResetNeeded):
        step_together([envs[0], LocomotionEnv(HOPPER)], [fine, fine])
    for env, qpos in zip(envs, before, strict=True):
        np.testing.assert_array_equal(env.data.qpos, qpos)
