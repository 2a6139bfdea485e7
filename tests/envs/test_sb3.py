"""A library that knows nothing of us trains on our environments unchanged."""

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO, TD3

import sgrl


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [(PPO, {"n_steps": 1024}), (TD3, {"learning_starts": 500, "train_freq": 8})],
)
def test_stable_baselines3_trains(algorithm, settings):
    env = gymnasium.make("sgrl/3d_hopper_5_full-v1")
    model = algorithm("MlpPolicy", env, seed=0, device="cpu", **settings)
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(3000)
    after = model.policy.state_dict()
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
    episodes = [episode["r"] for episode in model.ep_info_buffer]
    assert len(episodes) > 10
    assert np.isfinite(episodes).all()
    action, _ = model.predict(env.reset(seed=1)[0], deterministic=True)
    assert env.action_space.contains(action)
    assert sgrl.__version__
