"""Train Stable-Baselines3's SAC on our environments, with an MLP that knows no limbs.

pip install 'sgrl[sb3]'
python examples/stable_baselines.py --steps 200000
"""

from __future__ import annotations

from pathlib import Path

import tyro
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import sgrl
from sgrl.envs.sb3 import SB3VecEnv

BODY = "3d_hopper_5_full"


def main(
    steps: int = 200_000, learning_starts: int = 10_000, out: Path = Path("runs/sb3.zip")
) -> None:
    """Train and save a model of Stable-Baselines3.

    Args:
        steps: Steps of all 32 environments together.
        learning_starts: Steps with random actions first.
        out: File that the model is saved in.
    """
    env = VecMonitor(SB3VecEnv(sgrl.make_vec(BODY, 32)))
    # Four updates after each step of 32 environments; more is slower and not much better.
    model = SAC(
        "MlpPolicy",
        env,
        learning_starts=learning_starts,
        gradient_steps=4,
        gamma=0.996,  # a horizon of two seconds at 125 steps a second
        device="cpu",
    )
    model.learn(steps)
    model.save(out)

    judge = VecMonitor(SB3VecEnv(sgrl.make_vec(BODY, 8)))
    mean, std = evaluate_policy(model, judge, n_eval_episodes=8)
    print(f"mean return {mean:,.0f} ± {std:.0f}, model in {out}")


if __name__ == "__main__":
    tyro.cli(main)
