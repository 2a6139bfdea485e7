"""Next-step autoreset: Gymnasium's own, to the bit, and what its vector wrappers want."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

import sgrl

HOPPER = "3d_hopper_5_full"


@pytest.mark.parametrize("limit", [5, 1000])
def test_it_agrees_with_gymnasiums_own_vector_environment(limit):
    settings = {"variant": "v2", "max_episode_steps": limit, "autoreset_mode": "NextStep"}
    ours = sgrl.make_vec(HOPPER, 3, **settings)
    peer = gymnasium.make_vec(
        f"sgrl/{HOPPER}-v2",
        num_envs=3,
        vectorization_mode="sync",
        max_episode_steps=limit,
        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
    )
    assert ours.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    np.testing.assert_array_equal(ours.reset(seed=4)[0], peer.reset(seed=4)[0])
    rng, ends, restored = np.random.default_rng(0), 0, None
    for step in range(160):
        action = rng.uniform(-1, 1, (3, 12)).astype(np.float32)
        mine, theirs = ours.step(action), peer.step(action)
        for a, b in zip(mine[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert "final_obs" not in mine[4]
        for key, value in theirs[4].items():
            if not key.startswith("_"):
                held = theirs[4][f"_{key}"]
                np.testing.assert_array_equal(mine[4][f"_{key}"], held, err_msg=key)
                np.testing.assert_array_equal(mine[4][key][held], value[held], err_msg=key)
        if restored is not None:
            np.testing.assert_array_equal(restored.step(action)[0], mine[0])
        # Between the end of an episode and the start of the next there is a state to save, too.
        done = mine[2] | mine[3]
        ends += done.sum()
        restored = pickle.loads(pickle.dumps(ours)) if done.any() and step < 150 else None
    assert ends > 5


def test_an_environment_that_waits_leaves_no_trace_in_its_stream():
    """A target under a fallen body is not reached by it, which would draw another."""
    env = sgrl.make_vec(HOPPER, 2, variant="v2", max_episode_steps=1, autoreset_mode="NextStep")
    env.reset(seed=0)
    zeros = np.zeros(env.action_space.shape)
    assert env.step(zeros)[3].all()
    env._stepper.locomotion.target[:] = 0.0
    _, rewards, terminated, truncated, infos = env.step(zeros)
    assert not rewards.any()
    assert not (terminated | truncated).any()
    assert (infos["targets_reached"] == 0).all()
    assert not infos["_reward_alive"].any()
    assert infos["_distance"].all()


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        wrappers.RecordEpisodeStatistics,
        lambda env: wrappers.ClipReward(wrappers.ClipAction(env), -1.0, 1.0),
    ],
)
def test_gymnasiums_vector_wrappers_take_it(wrap):
    env = wrap(sgrl.make_vec(HOPPER, 4, max_episode_steps=20, autoreset_mode="NextStep"))
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        observations, rewards, *_ = env.step(rng.uniform(-1, 1, (4, 12)).astype(np.float32))
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()


def test_gymnasium_makes_it_and_statistics_count_episodes():
    settings = {"max_episode_steps": 9, "autoreset_mode": "NextStep"}
    env = gymnasium.make_vec(f"sgrl/{HOPPER}-v1", num_envs=2, **settings)
    env = wrappers.RecordEpisodeStatistics(env)
    env.reset(seed=0)
    infos = [env.step(np.zeros((2, 12), np.float32))[4] for _ in range(20)]
    lengths = [length for info in infos if "episode" in info for length in info["episode"]["l"]]
    assert lengths == [9, 9, 9, 9]


def test_other_modes_are_refused():
    for mode in ("next", AutoresetMode.DISABLED):
        with pytest.raises(ValueError, match="autoreset_mode is one of SameStep, NextStep, not"):
            sgrl.make_vec(HOPPER, 1, autoreset_mode=mode)


def test_stable_baselines3_wants_the_other_mode():
    adapter = pytest.importorskip("sgrl.envs.sb3").SB3VecEnv
    with pytest.raises(ValueError, match="wants autoreset in the same step"):
        adapter(sgrl.make_vec(HOPPER, 1, autoreset_mode="NextStep"))
