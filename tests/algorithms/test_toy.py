"""Toy problems that TD3 must solve in seconds."""

import numpy as np
import pytest
import torch

from sgrl.algorithms.replay import Replay
from sgrl.envs.observation import ANGLES, FEATURES, GRAVITY, GRAVITY_DIRECTION, HEIGHT, TARGET
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SETConfig
from sgrl.morphology import get_body

from .made import make_learner

BODY = get_body("3d_walker_2_right_leg_left_knee")
NETWORKS = {
    "set": SETConfig(layers=1, embedding=32, hidden=32, matrix_hidden=32),
    "monolithic": MonolithicConfig(hidden=(64, 64)),
}


def states(rng, count):
    """(count, limbs, 41): a body in random places, its angles in [-1, 1]."""
    found = np.zeros((count, BODY.num_limbs, FEATURES), np.float32)
    found[..., : ANGLES.start] = 0.1 * rng.standard_normal(found[..., : ANGLES.start].shape)
    found[..., GRAVITY], found[..., TARGET] = GRAVITY_DIRECTION, (1.0, 0.0, 0.0)
    # Hinge axes as the world's.
    found[..., 15:24] = np.eye(3).ravel()
    found[:, 1:, ANGLES] = rng.uniform(-1, 1, found[:, 1:, ANGLES].shape)
    return found


def learner(method, **settings):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    defaults = {"learning_rate": 1e-3, "max_grad_norm": 10.0}
    return make_learner(
        "td3", (BODY,), method=method, network=NETWORKS[method], **defaults | settings
    )


def act(td3, observed):
    """(count, limbs, 41) to (count, motors), without noise."""
    count = len(observed)
    return td3.policy_actions(observed.reshape(count, -1), np.zeros(count, np.int64))


@pytest.mark.parametrize(
    ("method", "per_limb"), [("monolithic", False), ("set", False), ("set", True)]
)
def test_bandit(method, per_limb):
    """Episodes of one step: each hinge should act as the half of its angle."""
    td3, rng = learner(method, tau=0.05, per_limb=per_limb), np.random.default_rng(0)
    replay = Replay((BODY,), 10_000)

    def distance(observed, actions):
        wanted = 0.5 * observed[:, 1:, ANGLES].reshape(len(observed), -1)
        return ((actions - wanted) ** 2).mean(axis=-1)

    fresh = states(rng, 500)
    at_start = distance(fresh, act(td3, fresh)).mean()
    for _ in range(250):
        observed = states(rng, 10)
        actions = act(td3, observed)
        actions = np.clip(actions + rng.normal(0, 0.33, actions.shape), -1, 1)
        flat = observed.reshape(10, -1)
        replay.add(
            np.zeros(10, np.int64), flat, actions, -distance(observed, actions), flat, np.ones(10)
        )
        td3.gradient_step(replay.sample(64, rng))
    error = distance(fresh, act(td3, fresh)).mean()
    assert error < 0.02, (at_start, error)


def test_two_steps_need_the_bootstrap():
    """What is done first is paid for at the second step, and only there.

    The second state shows, as its angles, the first action, and gives minus its squared
    distance from 0.4, whatever is done then. The first step gives nothing.
    """
    td3, rng = learner("monolithic", gamma=0.9, tau=0.2), np.random.default_rng(0)
    replay = Replay((BODY,), 10_000)
    start = states(rng, 1).repeat(10, axis=0)
    rows, flat = np.zeros(10, np.int64), start.reshape(10, -1)
    for _ in range(800):
        action, later = rng.uniform(-1, 1, (2, 10, 3))
        following = start.copy()
        following[:, 1, ANGLES], following[..., HEIGHT] = action, 1.0
        reward = -((action - 0.4) ** 2).mean(axis=-1)
        following = following.reshape(10, -1)
        replay.add(rows, flat, action, np.zeros(10), following, np.zeros(10))
        replay.add(rows, following, later, reward, following, np.ones(10))
        td3.gradient_step(replay.sample(64, rng))
    assert np.abs(act(td3, start[:1]) - 0.4).mean() < 0.2
