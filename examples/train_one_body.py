"""Train SET on one body, go on where it stopped, and see how much better than chance it is.

python examples/train_one_body.py --minutes 10
sgrl view runs/one_body
"""

from __future__ import annotations

from pathlib import Path

import tyro

import sgrl
from sgrl.training.acting import RandomPolicy

BODY = "3d_hopper_3_shin"


def main(minutes: float = 10.0, episodes: int = 20, runs: Path = Path("runs")) -> None:
    """Train on one body and evaluate the policy.

    Args:
        minutes: How long to train.
        episodes: Episodes of each evaluation.
        runs: Folder that the run's own is made in.
    """
    settings = sgrl.TrainSettings(
        bodies=(BODY,), algorithm="ppo", minutes=minutes, name="one_body", runs=runs
    )
    run = sgrl.train(settings)

    policy = sgrl.load_policy(run)
    (learned,) = sgrl.evaluate(policy, BODY, episodes=episodes)
    (chance,) = sgrl.evaluate(RandomPolicy(), BODY, episodes=episodes)
    for who, result in [("learned", learned), ("random", chance)]:
        print(f"{who:8} mean return {result.mean('total_reward'):8,.0f}")
    print(f"watch it: sgrl view {run}; go on with it: sgrl train --resume {run} --minutes 10")


if __name__ == "__main__":
    tyro.cli(main)
