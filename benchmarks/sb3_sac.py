"""Stable-Baselines3's SAC, unchanged, on our environments: a learning curve to hold ours against.

    python benchmarks/sb3_sac.py 3d_walker_7_full --minutes 45 --out runs/sb3-walker

One thread, its own defaults (MlpPolicy 256-256, batch 256, 3e-4, gamma 0.99, a gradient step after
each call of `step`) over `SB3VecEnv`. `--gradient-steps 4` makes one update for 8 steps of 32
environments, as ours does by default. The folder gets metrics.csv, a row for each evaluation, with
columns named as those of a run, and what it was made with as settings.json. An evaluation is
`sgrl eval`'s: episodes of the deterministic policy from the same starts; its time does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

import sgrl
from sgrl.envs.sb3 import SB3VecEnv
from sgrl.morphology import Morphology
from sgrl.morphology.digest import physics
from sgrl.training.acting import Policy
from sgrl.training.evaluate import evaluate

COLUMNS = (
    *("steps", "updates", "episodes", "return", "length"),
    *("eval/return", "eval/length", "eval/lasted", "wall/total", "wall/eval"),
)


class DeterministicPolicy(Policy):
    """A model of Stable-Baselines3 as something that can be evaluated."""

    def __init__(self, model: SAC) -> None:
        self._model = model

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        """The mean of the actor."""
        actions: NDArray[np.float32] = self._model.predict(obs, deterministic=True)[0]
        return actions


class Curve(BaseCallback):
    """Evaluates every so many seconds of training, and stops it when its time is up."""

    def __init__(self, body: str, seconds: float, every: float, episodes: int, out: Path) -> None:
        super().__init__()
        self._body, self._seconds, self._every = body, seconds, every
        self._episodes, self._out = episodes, out
        self._evaluating = self._next = 0.0
        self._ended = 0
        self.rows: list[dict[str, float | None]] = []

    def _on_training_start(self) -> None:
        self._start = time.perf_counter()

    def _on_step(self) -> bool:
        self._ended += int(np.sum(self.locals["dones"]))
        spent = time.perf_counter() - self._start - self._evaluating
        is_over = spent >= self._seconds
        if spent >= self._next or is_over:
            self._evaluate(spent)
            self._next += self._every
        return not is_over

    def _evaluate(self, spent: float) -> None:
        before = time.perf_counter()
        assert isinstance(self.model, SAC)
        policy = DeterministicPolicy(self.model)
        (result,) = evaluate(policy, self._body, episodes=self._episodes, threads=1)
        self._evaluating += time.perf_counter() - before
        recent = list(self.model.ep_info_buffer or [])
        row: dict[str, float | None] = {
            "steps": self.model.num_timesteps,
            "updates": self.model._n_updates,
            "episodes": self._ended,
            "return": float(np.mean([e["r"] for e in recent])) if recent else None,
            "length": float(np.mean([e["l"] for e in recent])) if recent else None,
            "eval/return": result.mean("total_reward"),
            "eval/length": result.mean("length"),
            "eval/lasted": 1 - result.mean("fell"),
            "wall/total": spent,
            "wall/eval": self._evaluating,
        }
        self.rows.append(row)
        with (self._out / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        print(
            f"{spent / 60:6.1f} min {row['steps']:>10,} steps {row['updates']:>9,} updates "
            f"return {row['eval/return']:8,.0f}, {row['eval/lasted']:.0%} last",
            flush=True,
        )


def train(settings: dict[str, Any], out: Path) -> list[dict[str, float | None]]:
    """Train as told and return the rows of the curve, which are written to `out`, too."""
    out.mkdir(parents=True)
    made_with = {
        "algorithm": "stable_baselines3.SAC",
        **settings,
        **physics(),
        "torch": torch.__version__,
        "stable_baselines3": version("stable_baselines3"),
        "sgrl": sgrl.__version__,
    }
    (out / "settings.json").write_text(json.dumps(made_with, indent=1) + "\n", encoding="utf-8")
    torch.set_num_threads(1)
    vector = sgrl.make_vec(settings["body"], settings["envs"], threads=1)
    model = SAC(
        "MlpPolicy",
        VecMonitor(SB3VecEnv(vector)),
        seed=settings["seed"],
        device="cpu",
        gradient_steps=settings["gradient_steps"],
        learning_starts=settings["learning_starts"],
    )
    seconds, every = 60 * settings["minutes"], 60 * settings["eval_every"]
    curve = Curve(settings["body"], seconds, every, settings["eval_episodes"], out)
    model.learn(10**9, callback=curve)
    model.save(out / "model.zip")
    return curve.rows


def main() -> None:
    """Train one body and print a line for each evaluation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("body")
    parser.add_argument("--minutes", type=float, default=45.0, help="of training, on one core")
    parser.add_argument("--envs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gradient-steps", type=int, default=1, help="after each step of all")
    parser.add_argument("--learning-starts", type=int, default=100, help="steps without updates")
    parser.add_argument("--eval-every", type=float, default=5.0, help="minutes of training")
    parser.add_argument("--eval-episodes", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True, help="a folder that does not exist yet")
    settings = vars(parser.parse_args())
    train(settings, settings.pop("out"))


if __name__ == "__main__":
    main()
