"""Our Monolithic TD3 beside Stable-Baselines3's TD3: the same settings, steps and evaluation.

    python benchmarks/td3_peer.py --steps 20000 --seeds 0 1 2 3

Prints a Markdown table: return of the deterministic policy over the same episodes for each, and
seconds of training. They take turns, so that all see the same machine. Ours steps its copies
in one vector environment and writes a run's folder; Stable-Baselines3 steps as many of
`gymnasium.make("sgrl/<body>-v1")` in its own `DummyVecEnv` and writes nothing. That tells its
buffer of time-outs (as `TimeLimit.truncated`), so that both bootstrap from them.

Stable-Baselines3 runs twice. As it is, weights start by PyTorch's default and the network reads
velocities as they are; ours starts orthogonal and squashes them (docs/explanation/set.md). The
second time it is given our inputs and our start, and what is left to differ is the algorithm.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import sgrl
from sgrl.algorithms.td3_config import TD3Config
from sgrl.models.batch import LimbBatch
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.network import mlp
from sgrl.morphology import Morphology, get_body
from sgrl.training.acting import Policy, RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.loop import train
from sgrl.training.settings import TrainSettings

UNLIMITED = 1e9
"""A gradient is never so long: Stable-Baselines3 does not clip them."""


class PeerPolicy(Policy):
    """A model of Stable-Baselines3 as something that can be evaluated."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        """The actor's own actions."""
        actions: NDArray[np.float32] = self._model.predict(obs, deterministic=True)[0]
        return actions


class OurInputs(BaseFeaturesExtractor):
    """What our monolithic network reads."""

    def __init__(self, space: Any, name: str) -> None:
        super().__init__(space, space.shape[0])
        self._body = get_body(name)

    def forward(self, observations: Tensor) -> Tensor:
        """(rows, limbs * 41)."""
        return LimbBatch.from_flat(observations, self._body).flat.view(len(observations), -1)


def start_as_ours(network: nn.Sequential, hidden: tuple[int, ...]) -> None:
    """Weights as `mlp` draws them; other layers, a tanh at the end, have none."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    ours = mlp(layers[0].in_features, hidden, layers[-1].out_features)
    with torch.no_grad():
        for weight, own in zip(network.parameters(), ours.parameters(), strict=True):
            weight.copy_(own)


@dataclass(frozen=True)
class Outcome:
    """A training's."""

    total_reward: float
    """Mean return of its policy."""
    seconds: float


def train_ours(settings: TrainSettings) -> Policy:
    """In a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        return sgrl.load_policy(train(replace(settings, runs=Path(folder))))


def train_peer(settings: TrainSettings, ours: bool = False) -> Policy:
    """By the same settings, and with `ours` with our inputs and start."""
    (name,), td3 = settings.bodies, settings.config
    assert isinstance(td3, TD3Config)
    motors = get_body(name).action_dim
    extractor = {
        "features_extractor_class": OurInputs,
        "features_extractor_kwargs": {"name": name},
    }
    assert isinstance(settings.network, MonolithicConfig)
    assert settings.steps is not None
    assert settings.envs_per_body is not None
    model = TD3(
        "MlpPolicy",
        make_vec_env(f"sgrl/{name}-v1", settings.envs_per_body, seed=settings.seed),
        learning_rate=td3.learning_rate,
        buffer_size=settings.steps + settings.envs_per_body,
        learning_starts=td3.learning_starts,
        batch_size=td3.batch_size,
        tau=td3.tau,
        gamma=td3.gamma,
        train_freq=(1, "step"),
        gradient_steps=-1,  # one for each transition
        action_noise=NormalActionNoise(np.zeros(motors), np.full(motors, td3.exploration_noise)),
        policy_delay=td3.policy_delay,
        target_policy_noise=td3.target_noise,
        target_noise_clip=td3.target_noise_clip,
        policy_kwargs={"net_arch": list(settings.network.hidden)} | (extractor if ours else {}),
        seed=settings.seed,
        device="cpu",
    )
    if ours:
        critic: Any = model.critic
        actor: Any = model.actor
        for network in (actor.mu, *critic.q_networks):
            start_as_ours(network, settings.network.hidden)
        model.actor_target.load_state_dict(actor.state_dict())
        model.critic_target.load_state_dict(critic.state_dict())
    return PeerPolicy(model.learn(settings.steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--body", default="3d_hopper_5_full")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--envs-per-body", type=int, default=4)
    parser.add_argument("--learning-starts", type=int, default=5_000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--episodes", type=int, default=100, help="of each policy's evaluation")
    args = parser.parse_args()
    settings = TrainSettings(
        bodies=(args.body,),
        method="monolithic",
        network=MonolithicConfig(hidden=(256, 256)),
        envs_per_body=args.envs_per_body,
        threads=1,
        algorithm="td3",
    )
    config = TD3Config(
        learning_rate=args.learning_rate,
        max_grad_norm=UNLIMITED,
        learning_starts=args.learning_starts,
    )
    torch.set_num_threads(1)
    trainings: dict[str, Callable[[TrainSettings], Policy]] = {
        "sgrl": train_ours,
        "Stable-Baselines3": train_peer,
        "Stable-Baselines3, our inputs and start": partial(train_peer, ours=True),
    }
    found: dict[str, list[Outcome]] = {name: [] for name in trainings}
    for work in trainings.values():  # what is only slow the first time
        work(replace(settings, steps=200, config=replace(config, learning_starts=100)))
    for turn, seed in enumerate(args.seeds):
        own = replace(settings, steps=args.steps, config=config, seed=seed)
        for name in sorted(trainings, reverse=bool(turn % 2)):
            start = time.perf_counter()
            policy = trainings[name](own)
            seconds = time.perf_counter() - start
            (result,) = evaluate(policy, args.body, episodes=args.episodes, threads=1)
            found[name].append(Outcome(result.mean("total_reward"), seconds))
            print(f"{name}, seed {seed}: {found[name][-1]}", flush=True)

    (random,) = evaluate(RandomPolicy(), args.body, episodes=args.episodes, threads=1)
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
