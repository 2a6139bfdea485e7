"""Our Monolithic TD3 beside Stable-Baselines3's TD3: the same settings, steps and evaluation.

    python benchmarks/td3_peer.py --steps 30000 --seeds 0 1 2 3 4

Prints a Markdown table: return of the deterministic policy over the same episodes for both, and
seconds of training. The two take turns, so that both see the same machine. Ours steps its copies
in one vector environment and writes a run's folder; Stable-Baselines3 steps as many of
`gymnasium.make("sgrl/<body>-v1")` in its own `DummyVecEnv` and writes nothing. That tells its
buffer of time-outs (as `TimeLimit.truncated`), so that both bootstrap from them.

Not equal: weights at the start are orthogonal in ours and PyTorch's default in the other, and
our network reads velocities shortened (see docs/methods.md), the other as they are.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise

import sgrl
from sgrl.algorithms.td3 import Td3Config
from sgrl.models.monolithic import MonolithicConfig
from sgrl.morphology import Morphology, get_body
from sgrl.training.evaluate import Acts, evaluate, random_policy
from sgrl.training.loop import train
from sgrl.training.settings import TrainSettings

UNLIMITED = 1e9
"""A gradient is never so long: Stable-Baselines3 does not clip them."""


class PeerPolicy:
    """A model of Stable-Baselines3 as something that can be evaluated."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        """The actor's own actions."""
        actions: NDArray[np.float32] = self._model.predict(obs, deterministic=True)[0]
        return actions


@dataclass(frozen=True)
class Outcome:
    """A training's."""

    total_reward: float
    """Mean return of its policy."""
    seconds: float


def train_ours(settings: TrainSettings) -> Acts:
    """In a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        return sgrl.load_policy(train(replace(settings, runs=Path(folder))))


def train_peer(settings: TrainSettings) -> Acts:
    """By the same settings."""
    (name,), td3 = settings.bodies, settings.td3
    motors = get_body(name).num_actions
    assert isinstance(settings.network, MonolithicConfig)
    assert settings.steps is not None
    assert settings.copies is not None
    model = TD3(
        "MlpPolicy",
        make_vec_env(f"sgrl/{name}-v1", settings.copies, seed=settings.seed),
        learning_rate=td3.learning_rate,
        buffer_size=settings.steps + settings.copies,
        learning_starts=settings.warm_up,
        batch_size=td3.batch,
        tau=td3.polyak,
        gamma=td3.discount,
        train_freq=(1, "step"),
        gradient_steps=-1,  # one for each transition
        action_noise=NormalActionNoise(np.zeros(motors), np.full(motors, td3.exploration_noise)),
        policy_delay=td3.policy_delay,
        target_policy_noise=td3.target_noise,
        target_noise_clip=td3.target_noise_clip,
        policy_kwargs={"net_arch": list(settings.network.hidden)},
        seed=settings.seed,
        device="cpu",
    )
    return PeerPolicy(model.learn(settings.steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--body", default="3d_hopper_5_full")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--warm-up", type=int, default=5_000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--episodes", type=int, default=100, help="of each policy's evaluation")
    args = parser.parse_args()
    settings = TrainSettings(
        bodies=(args.body,),
        method="monolithic",
        network=MonolithicConfig(hidden=(256, 256)),
        copies=args.copies,
        threads=1,
        td3=Td3Config(learning_rate=args.learning_rate, gradient_clip=UNLIMITED),
    )
    torch.set_num_threads(1)
    trainings = {"sgrl": train_ours, "Stable-Baselines3": train_peer}
    found: dict[str, list[Outcome]] = {name: [] for name in trainings}
    for work in trainings.values():  # what is only slow the first time
        work(replace(settings, steps=200, warm_up=100))
    for turn, seed in enumerate(args.seeds):
        own = replace(settings, steps=args.steps, warm_up=args.warm_up, seed=seed)
        for name in sorted(trainings, reverse=bool(turn % 2)):
            start = time.perf_counter()
            policy = trainings[name](own)
            seconds = time.perf_counter() - start
            (result,) = evaluate(policy, args.body, episodes=args.episodes, threads=1)
            found[name].append(Outcome(result.mean("total_reward"), seconds))
            print(f"{name}, seed {seed}: {found[name][-1]}", flush=True)

    (random,) = evaluate(random_policy(), args.body, episodes=args.episodes, threads=1)
    print(
        f"\nTD3 on {args.body}, {args.steps:,} steps, {len(args.seeds)} seeds, one thread; returns "
        f"over {args.episodes} episodes of each seed's policy.\n"
    )
    print("| TD3 | return: mean ± standard deviation over seeds | of each seed | median seconds |")
    print("| --- | ---: | ---: | ---: |")
    for name, outcomes in found.items():
        rewards = [outcome.total_reward for outcome in outcomes]
        spread = f" ± {stdev(rewards):.0f}" if len(rewards) > 1 else ""
        each = ", ".join(f"{reward:.0f}" for reward in rewards)
        seconds = median(outcome.seconds for outcome in outcomes)
        print(f"| {name} | {fmean(rewards):.0f}{spread} | {each} | {seconds:.0f} |")
    print(f"| random policy | {random.mean('total_reward'):.0f} | | |")


if __name__ == "__main__":
    main()
