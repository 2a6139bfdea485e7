"""Stable-Baselines3 trains on our environments: one by one, and many through the adapter."""

import importlib.util
import json
import pickle
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import sgrl

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3 (pip install 'sgrl[sb3]')")

from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sgrl.envs.sb3 import SB3VecEnv

HOPPER = "3d_hopper_5_full"


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [(PPO, {"n_steps": 512}), (TD3, {"learning_starts": 300, "train_freq": 8})],
)
def test_stable_baselines3_trains(algorithm, settings):
    env = gymnasium.make(f"sgrl/{HOPPER}-v1")
    model = algorithm("MlpPolicy", env, seed=0, device="cpu", **settings)
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(1000)
    after = model.policy.state_dict()
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
    episodes = [episode["r"] for episode in model.ep_info_buffer]
    assert len(episodes) > 10
    assert np.isfinite(episodes).all()
    action, _ = model.predict(env.reset(seed=1)[0], deterministic=True)
    assert env.action_space.contains(action)
    assert sgrl.__version__


@pytest.mark.parametrize("limit", [7, 1000])
def test_the_adapter_is_stable_baselines3s_own_over_single_environments(limit):
    """Everything that it returns, through falls (limit 1000) and time-outs (7)."""
    settings = {"variant": "v2", "max_episode_steps": limit}
    ours = SB3VecEnv(sgrl.make_vec(HOPPER, 3, **settings))
    peer = DummyVecEnv([lambda: sgrl.make_env(HOPPER, **settings)] * 3)
    for env in (ours, peer):
        env.seed(5)
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    np.testing.assert_array_equal(ours.reset(), peer.reset())
    rng = np.random.default_rng(0)
    ends = {True: 0, False: 0}
    for _ in range(120):
        actions = rng.uniform(-1, 1, (3, 12)).astype(np.float32)
        mine, theirs = ours.step(actions), peer.step(actions)
        for a, b in zip(mine[:3], theirs[:3], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        for info, other in zip(mine[3], theirs[3], strict=True):
            assert info.keys() == other.keys()
            for key, value in other.items():
                np.testing.assert_array_equal(info[key], value, err_msg=key)
            if "terminal_observation" in info:
                ends[info["TimeLimit.truncated"]] += 1
        for info, other in zip(ours.reset_infos, peer.reset_infos, strict=True):
            assert info.keys() == other.keys()
            np.testing.assert_array_equal(info["target"], other["target"])
    assert ends[limit == 7] > 5


def test_a_fall_in_the_last_step_is_no_time_out():
    """What Stable-Baselines3 bootstraps from, or not."""
    counting = SB3VecEnv(sgrl.make_vec(HOPPER, 1))
    counting.seed(0)
    counting.reset()
    steps = 1
    while not counting.step(np.ones((1, 12)))[2][0]:
        steps += 1
    limited = SB3VecEnv(sgrl.make_vec(HOPPER, 1, max_episode_steps=steps))
    limited.seed(0)
    limited.reset()
    for _ in range(steps):
        _, _, done, infos = limited.step(np.ones((1, 12)))
    assert done[0]
    assert infos[0]["TimeLimit.truncated"] is False


def test_many_environments_train():
    env = VecMonitor(SB3VecEnv(sgrl.make_vec(HOPPER, 4)))
    model = SAC("MlpPolicy", env, seed=0, device="cpu", learning_starts=200, train_freq=8)
    model.learn(800)
    assert len(model.ep_info_buffer) > 3
    assert all(torch.isfinite(value).all() for value in model.policy.state_dict().values())


def test_the_benchmark_writes_a_curve(tmp_path):
    path = Path(__file__).parents[2] / "benchmarks" / "sb3_sac.py"
    spec = importlib.util.spec_from_file_location("sb3_sac", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    settings = {"body": HOPPER, "minutes": 0.01, "envs": 4, "seed": 0, "gradient_steps": 1}
    settings |= {"learning_starts": 8, "eval_every": 1.0, "eval_episodes": 2}
    first, last = benchmark.train(settings, tmp_path / "run")
    assert first["updates"] < last["updates"] <= last["steps"] / 4
    header, *rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert header == ",".join(benchmark.COLUMNS)
    assert [row.partition(",")[0] for row in rows] == ["4", str(last["steps"])]
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["digest"]


def test_options_start_environments_where_they_say():
    env = SB3VecEnv(sgrl.make_vec(HOPPER, 2))
    targets = [(3.0, 4.0), (5.0, -12.0)]
    env.set_options([{"target": target} for target in targets])
    env.reset()
    np.testing.assert_array_equal([info["target"] for info in env.reset_infos], targets)
    env.reset()
    assert min(info["distance"] for info in env.reset_infos) > 9_000
    env.set_options([{"yaw": 1.0}, {}])
    with pytest.raises(ValueError, match="same options"):
        env.reset()


def test_what_is_not_of_single_environments_says_so():
    env = SB3VecEnv(sgrl.make_vec(HOPPER, 2))
    assert env.get_attr("max_episode_steps") == [1000, 1000]
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False, False]
    with pytest.raises(NotImplementedError, match="attribute `vector`"):
        env.env_method("set_target", (1, 2))
    with pytest.raises(NotImplementedError, match="can't set task"):
        env.set_attr("task", None)


def test_it_is_pickled():
    env = SB3VecEnv(sgrl.make_vec(HOPPER, 2))
    env.reset()
    twin = pickle.loads(pickle.dumps(env))
    actions = np.full((2, 12), 0.3, np.float32)
    np.testing.assert_array_equal(env.step(actions)[0], twin.step(actions)[0])


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, "sgrl.envs.sb3")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sgrl\[sb3\]'"):
        importlib.import_module("sgrl.envs.sb3")
