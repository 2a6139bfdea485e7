"""Trainings of about a minute that must learn: far above acting at random and above not acting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sgrl.algorithms.sac_config import SACConfig
from sgrl.morphology import Morphology
from sgrl.training.acting import Policy, RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.loop import train
from sgrl.training.policy import load_policy
from sgrl.training.settings import TrainSettings

BODY = "3d_hopper_5_full"


class Still:
    """Does nothing, and falls later than most who try."""

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        return np.zeros((len(obs), body.action_dim), np.float32)


def mean_return(policy: Policy) -> float:
    (result,) = evaluate(policy, BODY, episodes=50, threads=1)
    return result.mean("total_reward")


@pytest.mark.parametrize("method", ["set", "swat"])
def test_returns_rise(method: str, tmp_path: Path) -> None:
    settings = TrainSettings(
        bodies=(BODY,), method=method, algorithm="ppo", steps=120_000, threads=1, runs=tmp_path
    )
    trained = mean_return(load_policy(train(settings)))
    random, still = mean_return(RandomPolicy()), mean_return(Still())
    print(f"{method}: {trained:.0f}; at random {random:.0f}, still {still:.0f}")
    # Measured: SET 283, SWAT 213; at random 52, still 174.
    assert trained > 3.0 * random
    assert trained > still


def test_sac_returns_rise(tmp_path: Path) -> None:
    settings = TrainSettings(
        bodies=(BODY,),
        method="monolithic+tn",
        algorithm="sac",
        config=SACConfig(
            batch_size=64,
            critic_width=64,
            learning_rate=1e-3,
            learning_starts=1_000,
            utd_ratio=0.25,
            compile="no",
            products="float32",
        ),
        envs_per_body=8,
        steps=16_000,
        eval_every=0,
        threads=1,
        runs=tmp_path,
    )
    trained = mean_return(load_policy(train(settings)))
    random, still = mean_return(RandomPolicy()), mean_return(Still())
    print(f"SAC: {trained:.0f}; at random {random:.0f}, still {still:.0f}")
    # Measured: 257; at random 52, still 174.
    assert trained > 3.0 * random
    assert trained > still
