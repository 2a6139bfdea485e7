"""Who drives: policies of untrained runs, and chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sgrl import load_policy
from sgrl.envs.single import LocomotionEnv
from sgrl.morphology import TABLE, Morphology, get_body, get_collection
from sgrl.viewer.driver import PolicyDriver, RandomDriver, load_driver
from tests.training.untrained import HOPPER, WALKER, untrained_run

CUT = get_body("3d_cheetah_14_full").cut("upper_tail", "left_fshin")


@dataclass(eq=False)
class Seen:
    body: Morphology
    observation: NDArray[np.float32]


def seen(bodies: Sequence[Morphology]) -> list[Seen]:
    return [Seen(body, LocomotionEnv(body).reset(seed=seed)[0]) for seed, body in enumerate(bodies)]


MIX = (get_body("3d_walker_7_full"), get_body(HOPPER), get_body("3d_walker_7_full"), CUT)


@pytest.mark.parametrize("method", ["set", "swat+hn", "smp"])
def test_one_batch_acts_as_each_body_alone(tmp_path: Path, method: str) -> None:
    run, _ = untrained_run(tmp_path, method=method)
    policy = load_policy(run.path)
    robots = seen(MIX)
    actions = PolicyDriver(policy).act(robots)
    for robot, action in zip(robots, actions, strict=True):
        assert action.dtype == np.float32
        assert np.allclose(action, policy.act(robot.observation, robot.body), atol=1e-5)
    assert np.abs(actions[0] - actions[2]).max() > 1e-4, "other starts, other actions"


@pytest.mark.parametrize("method", ["set", "swat", "swat+hn"])
def test_attention_of_each_limb(tmp_path: Path, method: str) -> None:
    run, _ = untrained_run(tmp_path, method=method)
    driver = load_driver(run.path)
    assert driver.has_attention
    robots = seen(MIX)
    together = driver.attention(robots)
    for robot, weights in zip(robots, together, strict=True):
        assert weights.shape == (robot.body.num_limbs,)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1.0, abs=1e-5)
        assert np.allclose(weights, driver.attention([robot])[0], atol=1e-5)
    assert np.ptp(together[-1]) > 1e-4


def test_a_policy_of_sac_drives_and_shows_its_attention(tmp_path: Path) -> None:
    """Its actor is Gaussian; what drives is the mean."""
    run, _ = untrained_run(tmp_path, algorithm="sac")
    driver = load_driver(run.path)
    robots = seen(MIX)
    for robot, action in zip(robots, driver.act(robots), strict=True):
        expected = load_policy(run.path).act(robot.observation, robot.body)
        assert np.allclose(action, expected, atol=1e-5)
    assert driver.has_attention
    assert driver.attention(robots)[0].sum() == pytest.approx(1.0, abs=1e-5)


def test_attention_in_a_frame_is_that_of_what_the_network_sees(tmp_path: Path) -> None:
    """Turned about the vertical, a body in its heading's frame listens to the same limbs."""
    run, _ = untrained_run(tmp_path, method="swat+hn")
    driver = load_driver(run.path)
    env = LocomotionEnv("3d_walker_7_full")
    env.reset(seed=0, options={"yaw": 0.0})
    qpos = env.data.qpos.copy()
    turned = qpos.copy()
    turned[3:7] = (np.cos(np.pi / 4) * qpos[3:7]) + np.sin(np.pi / 4) * np.array(
        [-qpos[6], -qpos[5], qpos[4], qpos[3]]
    )
    turned[:2] = -qpos[1], qpos[0]
    first, _ = env.reset(options={"qpos": qpos, "target": (10.0, 0.0)})
    second, _ = env.reset(options={"qpos": turned, "target": (0.0, 10.0)})
    assert np.abs(first - second).max() > 0.1
    one, other = driver.attention([Seen(env.body, first), Seen(env.body, second)])
    assert np.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("method", ["smp", "monolithic"])
def test_methods_without_attention_say_so(tmp_path: Path, method: str) -> None:
    run, _ = untrained_run(tmp_path, method=method)
    driver = load_driver(run.path)
    assert not driver.has_attention
    with pytest.raises(ValueError, match="run has no attention"):
        driver.attention(seen([get_body(HOPPER)]))


def test_what_a_policy_can_drive(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    driver = load_driver(run.path)
    families = [body.family for body in driver.bodies().values()]
    assert list(dict.fromkeys(families)) == ["hopper", "walker", "humanoid", "cheetah"]
    assert families == sorted(families, key=list(dict.fromkeys(families)).index), "in groups"
    assert next(iter(driver.bodies())) == "3d_hopper_5_full", "the full body before others"
    assert sorted(driver.bodies()) == sorted(entry.name for entry in TABLE)
    driver.check([CUT])


def test_checkpoints_of_a_run_have_names_of_their_own(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, steps=(100, 200))
    names = [load_driver(f"{run.path}{which}").name for which in ("", "@100", "@200")]
    assert names == ["run", "run@100", "run@200"]
    assert load_driver(f"{run.path}@100").details == "set, 100 steps"


def test_what_to_open_with() -> None:
    driver = RandomDriver()
    assert [body.name for body in driver.best_bodies()] == ["3d_cheetah_14_full"]
    driver.trained_on = tuple(map(get_body, get_collection("3d_cwhh++").train))
    best = {"3d_cheetah_14_full", "3d_walker_7_full", "3d_humanoid_9_full", "3d_hopper_5_full"}
    assert {body.name for body in driver.best_bodies()} == best
    driver.trained_on = (get_body("3d_walker_5_foot"),)
    assert driver.best_bodies() == driver.trained_on


def test_a_monolithic_policy_says_which_body_it_can_drive(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, method="monolithic")
    driver = load_driver(run.path)
    assert driver.bodies() == {HOPPER: get_body(HOPPER)}
    driver.check([get_body(HOPPER)])
    with pytest.raises(ValueError, match=f"can't drive {WALKER}; it can drive {HOPPER}"):
        driver.check([get_body(WALKER)])


def test_a_policy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no run"):
        load_driver(tmp_path / "none")


def test_chance_holds_an_action_for_a_while() -> None:
    driver = RandomDriver()
    assert len(driver.bodies()) == 29
    walker, cheetah = seen([get_body("3d_walker_7_full"), get_body("3d_cheetah_14_full")])
    # 0.2 s are 25 steps of a walker and 5 of a cheetah, whoever acts beside it.
    walks = [driver.act([walker])[0] for _ in range(30)]
    both = [driver.act([cheetah, walker]) for _ in range(10)]
    assert all(np.array_equal(walks[0], action) for action in walks[:25])
    assert not np.array_equal(walks[24], walks[25])
    assert all(np.array_equal(walks[25], actions[1]) for actions in both)
    assert all(np.array_equal(both[0][0], actions[0]) for actions in both[:5])
    assert not np.array_equal(both[4][0], both[5][0])
    assert np.abs(walks).max() <= 1
    again = RandomDriver(seed=0).act([walker])[0]
    assert np.array_equal(again, walks[0])
