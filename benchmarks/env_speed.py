"""How much of MuJoCo's own speed is left when it is an environment.

Every figure is a ratio to a peer in the same run: `python benchmarks/env_speed.py`. Peers take
turns and the median over many turns counts, because machines are shared and noisy. Raw physics
is a plain `mujoco.batch.Batch` under the same actions, once running on by itself, bodies on the
ground in the end, and once, stricter, from the very states that the environment steps from: these
have fewer contacts, and a random policy falls so soon that much of the time is new starts.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import gymnasium
import mujoco
import numpy as np
from gymnasium.vector import AsyncVectorEnv
from mujoco.batch import Batch

from sgrl.envs import LocomotionEnv, LocomotionVectorEnv
from sgrl.envs.sb3 import SB3VecEnv
from sgrl.morphology import FAMILIES, compile_model
from sgrl.morphology.body import PHYSICS_STEPS

NUM_ENVS = 64
STEPS = 16
"""Environment steps in one turn of a peer."""


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Peers:
    """A vector environment under random actions beside raw batches of the same physics."""

    def __init__(self, bodies: str, envs_per_body: int, threads: int) -> None:
        self.env = LocomotionVectorEnv(bodies, envs_per_body, threads=threads)
        self.env.reset(seed=0)
        rng = np.random.default_rng(0)
        shape = (STEPS, *self.env.action_mask.shape)
        self.actions = rng.uniform(-1, 1, shape).astype(np.float32)
        self.raw, self.same = (
            [Batch(compile_model(part.body), part.num_envs, threads) for part in self.env.parts]
            for _ in range(2)
        )
        for action in self.actions:
            self.env.step(action)
            self._step(self.raw, action)

    def environment(self) -> float:
        """Seconds of some steps of the environment."""
        return sum(timed(partial(self.env.step, action)) for action in self.actions)

    def free(self) -> float:
        """Seconds of as many steps of raw batches that run on without resets."""
        return sum(self._step(self.raw, action) for action in self.actions)

    def replay(self) -> tuple[float, float]:
        """Seconds of environment and raw physics from the same states, step by step in turn."""
        environment = physics = 0.0
        for action in self.actions:
            for own, raw in zip(self.env._stepper.batches, self.same, strict=True):
                raw.state[:] = own.state
            physics += self._step(self.same, action)
            environment += timed(partial(self.env.step, action))
        return environment, physics

    def _step(self, batches: list[Batch], action: np.ndarray) -> float:
        for part, batch in zip(self.env.parts, batches, strict=True):
            batch.ctrl[:] = action[part.rows, : part.body.action_dim]
        return timed(lambda: [batch.step(nstep=PHYSICS_STEPS) for batch in batches])


def vector_over_raw(
    bodies: str, envs_per_body: int, threads: int, rounds: int
) -> tuple[float, ...]:
    """Environment steps per second; as a fraction of raw batches, free and from its own states."""
    peers = Peers(bodies, envs_per_body, threads)
    seconds, free, same = [], [], []
    for _ in range(rounds):
        seconds.append(peers.environment())
        free.append(peers.free() / seconds[-1])
        environment, physics = peers.replay()
        same.append(physics / environment)
    return STEPS * peers.env.num_envs / median(seconds), median(free), median(same)


def vector_over_async(name: str, processes: int, rounds: int) -> float:
    """Steps per second of the vector environment over Gymnasium's, one process a core."""
    peers = Peers(name, NUM_ENVS, 0)
    id = f"sgrl/{name}-v1"
    peer = AsyncVectorEnv([lambda: gymnasium.make(id) for _ in range(processes)])
    peer.reset(seed=0)
    turns = NUM_ENVS * STEPS // processes
    shape = (turns, processes, peers.actions.shape[2])
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)

    def step_peer() -> float:
        return timed(lambda: [peer.step(action) for action in actions])

    try:
        return median(step_peer() / peers.environment() for _ in range(rounds))
    finally:
        peer.close()


def adapter_over_vector(name: str, rounds: int) -> float:
    """Steps per second of Stable-Baselines3's view of a vector environment over its own."""
    peers = Peers(name, NUM_ENVS, 0)
    adapted = SB3VecEnv(LocomotionVectorEnv(name, NUM_ENVS))
    adapted.seed(0)
    adapted.reset()
    for action in peers.actions:
        adapted.step(action)

    def step_adapted() -> float:
        return timed(lambda: [adapted.step(action) for action in peers.actions])

    return median(peers.environment() / step_adapted() for _ in range(rounds))


def single_overhead(name: str, rounds: int) -> float:
    """Microseconds that a step of the single environment takes beyond its physics."""
    env = LocomotionEnv(name)
    env.reset(seed=0)
    data = mujoco.MjData(env.model)
    actions = np.random.default_rng(0).uniform(-1, 1, (100, env.model.nu)).astype(np.float32)
    extra = []
    for _ in range(rounds):
        for action in actions:
            mujoco.mj_copyData(data, env.model, env.data)
            data.ctrl[:] = action
            start = time.perf_counter()
            mujoco.mj_step(env.model, data, nstep=PHYSICS_STEPS)
            middle = time.perf_counter()
            ended = env.step(action)[2]
            extra.append(time.perf_counter() - middle - (middle - start))
            if ended:
                env.reset()
    return 1e6 * median(extra)


def memory_of_many_cheetahs() -> float:
    """Megabytes that 1,024 cheetahs add to a process, measured in one of their own."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    env = LocomotionVectorEnv("3d_cheetah_14_full", 1024)
    env.reset(seed=0)
    for _ in range(20):
        env.step(np.zeros((1024, env.parts[0].body.action_dim), np.float32))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each peer")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--memory", action="store_true", help="only the memory of 1,024 cheetahs")
    args = parser.parse_args()
    if args.memory:
        print(memory_of_many_cheetahs())
        return
    full = [family.body.name for family in FAMILIES.values()]
    print("| what | steps/s | ratio | limit | from the same states |\n|---|---:|---:|---:|---:|")
    for bodies, count, limit in [*((name, NUM_ENVS, 0.9) for name in full), ("3d_cwhh++", 4, 0.8)]:
        speed, free, same = vector_over_raw(bodies, count, args.threads, args.rounds)
        what = f"{bodies}, {count} environments{' a body' if count == 4 else ''}, of raw Batch.step"
        print(f"| {what} | {speed:,.0f} | {free:.2f} | ≥ {limit:.2f} | {same:.2f} |")
    processes = len(os.sched_getaffinity(0))
    for name in full:
        ratio = vector_over_async(name, processes, max(3, args.rounds // 3))
        print(f"| {name}, 64 environments, over AsyncVectorEnv | | {ratio:.1f} | ≥ 2 | |")
    for name in full:
        ratio = adapter_over_vector(name, args.rounds)
        print(f"| {name}, 64 environments, Stable-Baselines3's | | {ratio:.2f} | ≥ 0.9 | |")
    for name in full:
        extra = single_overhead(name, args.rounds)
        print(f"| {name}, single, beyond mj_step | | {extra:.0f} µs | ≤ 150 µs | |")
    command = [sys.executable, __file__, "--memory"]
    megabytes = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"| 1,024 cheetahs | | {megabytes:.0f} MB | ≤ 600 MB | |")


if __name__ == "__main__":
    main()
