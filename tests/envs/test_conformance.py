"""What every one of the 58 environments must do."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker

from sgrl.envs import env_id
from sgrl.envs.observation import FEATURES
from sgrl.morphology import body_names, get_body

from . import reference

IDS = [env_id(name, variant) for variant in ("v1", "v2") for name in body_names()]
STEPS = 25


def name_of(id):
    return id.removeprefix("sgrl/")[:-3]


def actions_for(env, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, *env.action_space.shape)).astype(np.float32)


def rollout(env, seed, count=STEPS):
    """Everything that steps return, episodes following each other."""
    observation, _ = env.reset(seed=seed)
    trace = [observation]
    for action in actions_for(env, count, seed):
        observation, reward, terminated, truncated, _ = env.step(action)
        trace += [observation, reward, terminated, truncated]
        if terminated or truncated:
            trace.append(env.reset()[0])
    return trace


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(params=IDS)
def env(request):
    env = gymnasium.make(request.param)
    yield env
    env.close()


def test_all_58_are_registered():
    assert len(IDS) == 58
    assert set(IDS) == {id for id in gymnasium.registry if id.startswith("sgrl/")}


# Observations have no bounds, which the checkers point out; it is meant.
@pytest.mark.filterwarnings("ignore:.*Box observation space.*(minimum|maximum).*infinity")
@pytest.mark.filterwarnings("ignore:.*not all environments can be checked.*:UserWarning")
def test_gymnasiums_checker_passes(env):
    env_checker.check_env(env.unwrapped, skip_render_check=True)


def test_stable_baselines3_checker_passes(env):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(env, warn=True, skip_render_check=True)


def test_spaces_fit_the_body(env):
    body = env.unwrapped.body
    assert env.observation_space.shape == (body.num_limbs * FEATURES,)
    assert env.observation_space.dtype == np.float32
    assert env.action_space.shape == (body.action_dim,) == (3 * (body.num_limbs - 1),)
    assert env.unwrapped.model.nu == env.action_space.shape[0]


def test_equal_seeds_give_equal_trajectories_and_others_do_not(env):
    first, again, other = rollout(env, 5), rollout(env, 5), rollout(env, 6)
    assert_same(first, again)
    assert not np.array_equal(first[0], other[0])


def test_a_pickled_environment_goes_on_the_same(env):
    env.reset(seed=3)
    for action in actions_for(env, 5):
        env.step(action)
    twin = pickle.loads(pickle.dumps(env))
    for action in actions_for(env, 20, seed=1):
        mine, theirs = env.step(action), twin.step(action)
        assert_same(mine[:4], theirs[:4])
        if mine[2]:
            assert_same([env.reset()[0]], [twin.reset()[0]])


def test_observations_and_rewards_agree_with_an_independent_computation(env):
    single, name = env.unwrapped, name_of(env.spec.id)
    _, info = env.reset(seed=11)
    for action in 1.5 * actions_for(env, STEPS):
        before = single.data.qpos.copy(), single.data.qvel.copy()
        target = info["target"]
        observation, reward, terminated, _, info = env.step(action)
        after = single.data.qpos.copy(), single.data.qvel.copy()
        expected = reference.terms(name, before, after, action, target)
        for term, value in expected.items():
            assert info[term] == pytest.approx(value, abs=1e-6), term
        assert reward == pytest.approx(sum(expected.values()), abs=1e-6)
        assert terminated == (not reference.healthy(name, single.model, *after))
        np.testing.assert_allclose(
            observation,
            reference.observation(single.model, *after, info["target"]),
            rtol=1e-5,
            atol=2e-5,
        )
        assert info["speed_to_target"] == info["reward_progress"]
        assert info["distance"] == pytest.approx(np.hypot(*(info["target"] - after[0][:2])))
        if terminated:
            _, info = env.reset()


def constant_entries(body):
    """Places in the observation that may stay the same: what a body is, not what it does."""
    may = np.zeros((body.num_limbs, FEATURES), bool)
    may[:, 3:6] = True  # gravity
    may[:, 8] = True  # the target is on the ground
    may[:, 28:36] = True  # limits; scaled angles are set back below
    may[:, 36:40] = True  # type
    may[:, 27:36:3] = False
    may[0, 0:3] = True  # the torso is the origin
    may[0, 15:36] = True  # and has no hinges
    return may.ravel()


def test_no_observation_is_constant_that_should_move(env):
    trace = []
    env.reset(seed=0)
    for seed in range(6):
        trace.append(env.reset(seed=seed)[0])
        trace += [env.step(action)[0] for action in actions_for(env, 6, seed)]
    varies = np.ptp(np.array(trace), axis=0) > 1e-6
    body = get_body(name_of(env.spec.id))
    assert (varies | constant_entries(body)).all()


def test_starts_and_targets(env):
    variant, cheetah = env.spec.id[-2:], "cheetah" in env.spec.id
    noise = 0.1 if cheetah else 0.005
    yaws = []
    for seed in range(40):
        observation, info = env.reset(seed=seed)
        qpos = env.unwrapped.data.qpos
        assert np.isfinite(observation).all()
        assert np.linalg.norm(qpos[3:7]) == pytest.approx(1, abs=1e-12)
        assert np.abs(qpos[:2]).max() <= noise
        assert abs(qpos[2] - env.unwrapped.body.torso_height) <= noise
        assert np.abs(qpos[7:]).max() <= noise
        assert np.abs(env.unwrapped.data.qvel).max() <= (0.6 if cheetah else noise)
        yaws.append(reference.roll_pitch_yaw(qpos[3:7])[2])
        near, far = (9999, 10001) if variant == "v1" else (10, 20)
        assert near <= info["distance"] <= far
        assert info["targets_reached"] == 0
    # All the way round: no gap of a third of the circle among forty directions.
    gaps = np.diff(np.sort(yaws), append=np.min(yaws) + 2 * np.pi)
    assert gaps.max() < 2 * np.pi / 3


def test_a_time_out_is_not_an_end(env):
    limited = gymnasium.wrappers.TimeLimit(env.unwrapped, 3)
    limited.reset(seed=0)
    ends = [limited.step(np.zeros(env.action_space.shape, np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    assert env.spec.max_episode_steps == 1000


def test_a_deep_copy_is_independent(env):
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    action = actions_for(env, 1)[0]
    moved = twin.step(action)[0]
    assert_same([moved], [env.step(action)[0]])
    before = env.unwrapped.data.qpos.copy()
    twin.step(action)
    np.testing.assert_array_equal(before, env.unwrapped.data.qpos)
