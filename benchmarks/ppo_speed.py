"""How fast PPO learns from end to end, beside raw physics and Stable-Baselines3.

    python benchmarks/ppo_speed.py

Ours is the training itself: run folder, metrics and checkpoints included. Stable-Baselines3 has
its MlpPolicy of 2 x 256 on as many of `gymnasium.make("sgrl/3d_cheetah_14_full-v1")`, in
its own DummyVecEnv, with the same rollout, mini-batch and epochs; its TD3 makes one update a
step at batch 100. All take turns on the same cores and the median over turns counts. Raw physics
is a plain `mujoco.batch.Batch` under random actions (see env_speed.py).
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from env_speed import Peers, timed
from stable_baselines3 import PPO, TD3
from stable_baselines3.common.env_util import make_vec_env

from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.training.loop import train
from sgrl.training.metrics import ACTIVITIES
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, resolve_settings

BODY = "3d_cheetah_14_full"
TD3_STEPS = 400
COLUMNS = (("sim",), ("act",), ("sample", "update"), ("eval", "other"))
"""Activities that each column of the table adds up."""
REST_LIMIT = 0.10
TD3_LIMIT, PPO_LIMIT = 5.0, 1.0


def settings_of(bodies: str, preset: str, threads: int, rollouts: int) -> TrainSettings:
    """A training of so many rollouts."""
    settings = resolve_settings(
        TrainSettings(
            bodies=(bodies,),
            preset=preset,
            algorithm="ppo",
            threads=threads,
            config=PPOConfig(compile="yes"),  # in the first rollout, which is not counted
        )
    )
    config, envs = config_of(settings)
    size = config.n_steps * envs * len(settings.bodies)
    return replace(settings, steps=rollouts * size, log_every=size)


def config_of(settings: TrainSettings) -> tuple[PPOConfig, int]:
    """The config of PPO in resolved settings, and the environments of each body."""
    assert isinstance(settings.config, PPOConfig)
    assert settings.envs_per_body is not None
    return settings.config, settings.envs_per_body


def train_ours(settings: TrainSettings) -> tuple[float, dict[str, float]]:
    """Steps per second without the first rollout, and the share of each activity."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(train(replace(settings, runs=Path(folder))))
        with open(run.metrics_file, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))[1:]
    spent = {name: sum(float(row[f"wall/{name}"]) for row in rows) for name in ACTIVITIES}
    total = sum(spent.values())
    steps = int(rows[-1]["steps"]) * len(rows) / (len(rows) + 1)
    return steps / total, {name: seconds / total for name, seconds in spent.items()}


def peer_ppo(config: PPOConfig, num_envs: int) -> PPO:
    """Stable-Baselines3's, with our rollout, mini-batch and epochs."""
    return PPO(
        "MlpPolicy",
        make_vec_env(f"sgrl/{BODY}-v1", num_envs, seed=0),
        n_steps=config.n_steps,
        batch_size=config.batch_size,
        n_epochs=config.n_epochs,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )


def peer_td3() -> TD3:
    """Stable-Baselines3's, at one update a step."""
    return TD3(
        "MlpPolicy",
        make_vec_env(f"sgrl/{BODY}-v1", 4, seed=0),
        learning_starts=100,
        batch_size=100,
        gradient_steps=-1,
        buffer_size=10_000,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--rollouts", type=int, default=4, help="of a turn")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--preset", default="fast")
    args = parser.parse_args()
    cases = {
        bodies: settings_of(bodies, args.preset, args.threads, args.rollouts)
        for bodies in (BODY, "3d_cwhh++")
    }
    config, num_envs = config_of(cases[BODY])
    ppo, td3 = peer_ppo(config, num_envs), peer_td3()
    td3.learn(200)
    physics = {
        bodies: Peers(bodies, config_of(case)[1], args.threads) for bodies, case in cases.items()
    }
    speeds: dict[str, list[float]] = {name: [] for name in (*cases, "ppo", "td3")}
    raw: dict[str, list[float]] = {name: [] for name in cases}
    shares: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    size = config.n_steps * num_envs
    for _ in range(args.rounds):
        for name, case in cases.items():
            speed, share = train_ours(case)
            speeds[name].append(speed)
            shares[name].append(share)
            peers = physics[name]
            raw[name].append(len(peers.actions) * peers.env.num_envs / peers.free())
        speeds["ppo"].append(size / timed(partial(ppo.learn, size, reset_num_timesteps=False)))
        seconds = timed(partial(td3.learn, TD3_STEPS, reset_num_timesteps=False))
        speeds["td3"].append(TD3_STEPS / seconds)
    print(
        f"{num_envs} environments, rollouts of {config.n_steps} steps, batches of "
        f"{config.batch_size}, {config.n_epochs} epochs, SET {args.preset}\n"
    )
    print("| bodies | steps/s | of raw physics | physics | acting | learning | rest | limit |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in cases:
        ratio = median(a / b for a, b in zip(speeds[name], raw[name], strict=True))
        means = [median(sum(s[part] for part in parts) for s in shares[name]) for parts in COLUMNS]
        cells = " | ".join(f"{mean:.0%}" for mean in means)
        print(
            f"| {name} | {median(speeds[name]):,.0f} | {ratio:.2f} | {cells} | {REST_LIMIT:.0%} |"
        )
    print("\n| peer on cheetah_14_full | steps/s | ours over it | limit |\n|---|---:|---:|---:|")
    for name, limit in (("td3", TD3_LIMIT), ("ppo", PPO_LIMIT)):
        ratio = median(a / b for a, b in zip(speeds[BODY], speeds[name], strict=True))
        title = f"Stable-Baselines3 {name.upper()}"
        print(f"| {title} | {median(speeds[name]):,.0f} | {ratio:.1f} | ≥ {limit:.1f} |")


if __name__ == "__main__":
    main()
