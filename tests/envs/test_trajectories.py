"""Trajectories are what they were: a change of an environment bumps its version.

`python -m tests.envs.test_trajectories` writes the file anew.
"""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from sgrl.envs import LocomotionEnv
from sgrl.morphology import body_names

FILE = Path(__file__).parent / "trajectories.json"
TERMS = ("reward_alive", "reward_progress", "reward_forward", "reward_control")


def summary(name):
    """What 50 steps of a body gave, a few numbers."""
    env = LocomotionEnv(name, variant="v2")
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    numbers = dict.fromkeys(("observed", "reward", *TERMS, "terminated", "distance"), 0.0)
    for _ in range(50):
        action = rng.uniform(-1.1, 1.1, env.body.action_dim)
        observation, reward, terminated, _, info = env.step(action)
        numbers["observed"] += float(np.abs(observation, dtype=np.float64).sum())
        numbers["reward"] += reward
        numbers["terminated"] += terminated
        numbers["distance"] += float(info["distance"])
        for term in TERMS:
            numbers[term] += float(info[term])
        if terminated:
            env.reset()
    return numbers


@pytest.mark.parametrize("name", body_names())
def test_a_trajectory_is_what_it_was(name):
    recorded = json.loads(FILE.read_text())
    if recorded["mujoco"] != mujoco.__version__:
        pytest.skip(f"recorded with MuJoCo {recorded['mujoco']}")
    # Sine and cosine differ in their last bits from one processor to another.
    assert summary(name) == pytest.approx(recorded[name], rel=1e-6, abs=1e-8)


if __name__ == "__main__":
    rows = {"mujoco": mujoco.__version__} | {name: summary(name) for name in body_names()}
    FILE.write_text(json.dumps(rows, indent=1) + "\n")
