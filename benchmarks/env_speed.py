"""How much of MuJoCo's own speed is left when it is an environment.

Every figure is a ratio to a peer in the same run: `python benchmarks/env_speed.py`. Raw physics
is a plain `mujoco.batch.Batch` that is given the environment's states and actions, so that both
simulate the same contacts; the two take turns step by step, and the median over many turns
counts, because machines are shared and noisy.
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
from sgrl.envs.task import PHYSICS_STEPS
from sgrl.morphology import FULL_BODIES, compile_model

COPIES = 64
STEPS = 16
"""Environment steps in one turn of a peer."""


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Replay:
    """A vector environment under random actions, and raw batches that do its physics alone."""

    def __init__(self, bodies: str, copies: int, threads: int) -> None:
        self.env = LocomotionVectorEnv(bodies, copies, threads=threads)
        self.env.reset(seed=0)
        rng = np.random.default_rng(0)
        shape = (STEPS, *self.env.action_mask.shape)
        self.actions = rng.uniform(-1, 1, shape).astype(np.float32)
        for action in self.actions:
            self.env.step(action)
        self.raw = [
            Batch(compile_model(part.body), part.copies, threads) for part in self.env.parts
        ]

    def turn(self) -> tuple[float, float]:
        """Seconds of some steps of the environment, and of their physics alone.

        The two take turns step by step, from the same states under the same actions.
        """
        environment = physics = 0.0
        for action in self.actions:
            for part, own, raw in zip(self.env.parts, self.env.batches, self.raw, strict=True):
                raw.state[:] = own.state
                raw.ctrl[:] = action[part.rows, : part.body.num_actions]
            physics += timed(self._step_raw)
            environment += timed(partial(self.env.step, action))
        return environment, physics

    def _step_raw(self) -> None:
        for batch in self.raw:
            batch.step(nstep=PHYSICS_STEPS)


def vector_over_raw(bodies: str, copies: int, threads: int, rounds: int) -> tuple[float, float]:
    """Environment steps per second, and as a fraction of raw physics."""
    replay = Replay(bodies, copies, threads)
    turns = [replay.turn() for _ in range(rounds)]
    speed = STEPS * replay.env.num_envs / median(environment for environment, _ in turns)
    return speed, median(physics / environment for environment, physics in turns)


def vector_over_async(name: str, processes: int, rounds: int) -> float:
    """Steps per second of the vector environment over Gymnasium's, one process a core."""
    replay = Replay(name, COPIES, 0)
    id = f"sgrl/{name}-v1"
    peer = AsyncVectorEnv([lambda: gymnasium.make(id) for _ in range(processes)])
    peer.reset(seed=0)
    turns = COPIES * STEPS // processes
    shape = (turns, processes, replay.actions.shape[2])
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)

    def step_peer() -> float:
        return timed(lambda: [peer.step(action) for action in actions])

    try:
        return median(step_peer() / replay.turn()[0] for _ in range(rounds))
    finally:
        peer.close()


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
        env.step(np.zeros((1024, env.parts[0].body.num_actions), np.float32))
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
    full = [body.name for body in FULL_BODIES.values()]
    print("| what | steps/s | ratio | limit |\n|---|---:|---:|---:|")
    for name in full:
        speed, ratio = vector_over_raw(name, COPIES, args.threads, args.rounds)
        print(f"| {name}, 64 copies, of raw Batch.step | {speed:,.0f} | {ratio:.2f} | ≥ 0.90 |")
    speed, ratio = vector_over_raw("3d_cwhh++", 4, args.threads, args.rounds)
    print(f"| 3d_cwhh++, 4 copies each, of raw Batch.step | {speed:,.0f} | {ratio:.2f} | ≥ 0.80 |")
    processes = len(os.sched_getaffinity(0))
    for name in full:
        ratio = vector_over_async(name, processes, max(3, args.rounds // 3))
        print(f"| {name}, 64 copies, over AsyncVectorEnv | | {ratio:.1f} | ≥ 2 |")
    for name in full:
        extra = single_overhead(name, args.rounds)
        print(f"| {name}, single, beyond mj_step | | {extra:.0f} µs | ≤ 150 µs |")
    command = [sys.executable, __file__, "--memory"]
    megabytes = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"| 1,024 cheetahs | | {megabytes:.0f} MB | ≤ 600 MB |")


if __name__ == "__main__":
    main()
