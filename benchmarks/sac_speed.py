"""Speed of SAC updates beside Stable-Baselines3's: sampling and update, without physics.

    python benchmarks/sac_speed.py
    python benchmarks/sac_speed.py --body 3d_humanoid_9_full --products float32

Prints a Markdown table: updates per second of CPU time of the one thread that works, actor
updates among them, and how many times those of Stable-Baselines3's SAC (MlpPolicy, hidden layers of
256 and 256, an actor update at each) that is. All take turns, of some updates each, and medians
over the turns are reported. Transitions are those of random actions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from stable_baselines3 import SAC as PeerSAC
from stable_baselines3.common.logger import configure

from sgrl.algorithms.config import Plan
from sgrl.algorithms.learner import Setup, Step
from sgrl.algorithms.sac import SAC
from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.speed import global_precision
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.methods import get_method
from sgrl.morphology import Morphology, get_body

STORED = 10_000
"""Transitions in the replay buffers."""
ENVS = 32
TARGETS = {"monolithic+tn": 2.5, "set": 1.2}
"""Times the updates of Stable-Baselines3 that a method is to make."""


def random_steps(env: LocomotionVectorEnv) -> list[Step]:
    """`STORED` transitions under random actions."""
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    steps = []
    for _ in range(STORED // env.num_envs):
        actions = rng.uniform(-1, 1, env.action_mask.shape).astype(np.float32)
        after, rewards, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        final = np.where(done[:, None], infos["final_obs"], after) if done.any() else after
        steps.append(Step(obs, actions, rewards, after, final, terminated, done))
        obs = after
    return steps


def make_ours(
    method: str, body: Morphology, config: SACConfig, env: LocomotionVectorEnv, steps: list[Step]
) -> tuple[SAC, Callable[[int], None]]:
    """A learner, and what makes updates of it."""
    one_body = get_method(method).one_body
    plan = Plan((body,), method, one_body, STORED, env.num_envs)
    setup = Setup((body,), method, "fast", None, env, seed=0, device="cpu", steps=10**9)
    learner = SAC(config.resolved(plan), setup)
    for step in steps:
        learner.store(step)

    def update(count: int) -> None:
        with global_precision(learner.networks.speed.products):
            learner.networks.get_ready()
            for _ in range(count):
                learner.networks.gradient_step(*learner.sample())

    return learner, update


def make_peer(body: Morphology, batch_size: int, steps: list[Step]) -> Callable[[int], None]:
    """What makes updates of Stable-Baselines3's SAC."""
    import gymnasium

    model = PeerSAC(
        "MlpPolicy",
        gymnasium.make(f"sgrl/{body.name}-v1"),
        batch_size=batch_size,
        buffer_size=STORED,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )
    model.set_logger(configure(format_strings=[]))
    buffer: Any = model.replay_buffer
    for step in steps:
        rows = zip(
            step.obs, step.final_obs, step.actions, step.rewards, step.terminated, strict=True
        )
        for obs, final, action, reward, fell in rows:
            buffer.add(obs[None], final[None], action[None], reward, np.array([fell]), [{}])
    return lambda count: model.train(gradient_steps=count, batch_size=batch_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--body", default="3d_walker_7_full")
    parser.add_argument("--cases", nargs="+", default=["monolithic+tn", "set"], help="methods")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--updates", type=int, default=40, help="in a turn")
    parser.add_argument("--compile", choices=["yes", "no"], default="yes")
    parser.add_argument(
        "--products", choices=["auto", "bfloat16", "onednn", "float32"], default="auto"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    body = get_body(args.body)
    env = LocomotionVectorEnv(body, ENVS, threads=1)
    steps = random_steps(env)
    config = SACConfig(
        batch_size=args.batch_size, compile=args.compile, products=args.products, utd_ratio=0.0
    )
    peer = "Stable-Baselines3"
    works = {peer: make_peer(body, args.batch_size, steps)}
    how = {peer: "1"}
    for method in args.cases:
        learner, works[method] = make_ours(method, body, config, env, steps)
        how[method] = f"1 in {learner.config.policy_delay}"
        print(f"{method}: {learner.networks.speed.describe()}", flush=True)
    for name, work in works.items():
        start = time.perf_counter()
        work(2 * config.policy_delay)
        print(f"{name}: first updates after {time.perf_counter() - start:.0f} s", flush=True)
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(args.rounds):
        for name in sorted(works, reverse=bool(turn % 2)):
            start = time.process_time()
            works[name](args.updates)
            times[name].append((time.process_time() - start) / args.updates)
    base = median(times[peer])
    print(
        f"\nSAC on {body.name}, batch {args.batch_size}, one thread, {args.rounds} turns of "
        f"{args.updates} updates.\n"
    )
    print("| SAC | updates/s | actor updates | times Stable-Baselines3 | target |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, spent in times.items():
        each = median(spent)
        target = TARGETS.get(name, "")
        print(f"| {name} | {1 / each:.0f} | {how[name]} | {base / each:.2f} | {target} |")


if __name__ == "__main__":
    main()
