"""A training with PPO that takes a second or two, and patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from sgrl.algorithms.ppo_config import PPOConfig
from tests.training.tiny import TINY

SMALL = replace(
    TINY,
    algorithm="ppo",
    envs_per_body=3,
    steps=432,
    log_every=72,
    checkpoint_every=72,
    config=PPOConfig(n_steps=12, n_epochs=1, batch_size=36, compile="no"),
)
"""Six rollouts of 72 steps."""


def wait_until(true: Callable[[], bool], seconds: float = 240.0) -> None:
    """Until something is so, but not for ever."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)
