"""Speed of TD3 updates, and what an update costs in arithmetic.

    python benchmarks/td3_speed.py
    python benchmarks/td3_speed.py --methods set --presets fast --rounds 50

Prints a Markdown table: updates per second, milliseconds and "matmul GFLOP" of an update at
batch 100, sampling from the replay buffer included, and how far below its limit that is.
Matmul GFLOP are the time multiplied by the rate of a large float32 matrix product measured
just before and after (see model_speed.py), which is much the same on a fast machine, a slow
one and a busy one. Every second update also updates the actor, so two updates are measured
together and halved. All cases take turns and medians are reported.

For comparison, the published implementation takes for SET 350 to 440 matmul GFLOP on
cheetah_14_full and 130 to 160 on hopper_5_full, for SWAT 34 to 53 and 15 to 22.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import torch

from sgrl.algorithms.learner import Setup
from sgrl.algorithms.replay import Replay
from sgrl.algorithms.td3 import TD3
from sgrl.algorithms.td3_config import TD3Config
from sgrl.envs.observation import FEATURES, GRAVITY, GRAVITY_DIRECTION, TARGET
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import Morphology, resolve_bodies

STORED = 10_000
"""Transitions in the replay buffer."""
BODIES = {
    "cheetah_14_full": resolve_bodies(("3d_cheetah_14_full",)),
    "hopper_5_full": resolve_bodies(("3d_hopper_5_full",)),
    "mix": resolve_bodies(("3d_cwhh++",)),
}
LIMITS = {
    ("set", "paper"): {"cheetah_14_full": 176.0, "hopper_5_full": 66.0},
    ("set", "fast"): {"cheetah_14_full": 15.0, "hopper_5_full": 7.0},
    ("swat", "paper"): {"cheetah_14_full": 30.0, "hopper_5_full": 13.0},
    ("swat", "fast"): {"cheetah_14_full": 30.0, "hopper_5_full": 13.0},
}
"""Matmul GFLOP that an update may take."""


def matmul_rate(size: int = 768) -> float:
    """Floating-point operations per second in a product of large float32 matrices."""
    matrix = torch.ones(size, size)
    start = time.perf_counter()
    matrix @ matrix
    return 2.0 * size**3 / (time.perf_counter() - start)


def make_td3(method: str, preset: str, bodies: tuple[Morphology, ...]) -> TD3:
    """A learner with nothing stored."""
    layout = LocomotionVectorEnv(bodies, 1, threads=1)
    layout.close()
    setup = Setup(bodies, method, preset, None, layout, seed=0, device="cpu", steps=STORED)
    return TD3(TD3Config(buffer_size=STORED), setup)


def fill(replay: Replay) -> None:
    """Store random transitions, as many of each body."""
    rng = np.random.default_rng(0)
    for index, body in enumerate(replay.bodies):
        rows = replay.share
        observed = rng.standard_normal((2, rows, body.num_limbs, FEATURES), np.float32)
        observed[..., GRAVITY], observed[..., TARGET] = GRAVITY_DIRECTION, (1.0, 0.0, 0.0)
        obs, next_obs = observed.reshape(2, rows, -1)
        actions = rng.uniform(-1.0, 1.0, (rows, body.action_dim))
        terminated = rng.random(rows) < 0.01
        replay.add(np.full(rows, index), obs, actions, rng.random(rows), next_obs, terminated)


@dataclass
class Case:
    """Updates of a method on some bodies."""

    td3: TD3
    seconds: list[float] = field(default_factory=list)
    gflop: list[float] = field(default_factory=list)

    def run(self) -> None:
        """As many updates as one of the actor needs."""
        td3 = self.td3
        for _ in range(td3.config.policy_delay):
            td3.gradient_step(td3.replay.sample(td3.config.batch_size, td3.sampling))

    def measure(self) -> None:
        before = matmul_rate()
        start = time.perf_counter()
        self.run()
        elapsed = (time.perf_counter() - start) / self.td3.config.policy_delay
        self.seconds.append(elapsed)
        self.gflop.append(elapsed * (before + matmul_rate()) / 2 / 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["set", "swat"], help="names of methods")
    parser.add_argument("--presets", nargs="+", default=["fast", "paper"])
    parser.add_argument("--bodies", nargs="+", choices=BODIES, default=list(BODIES))
    parser.add_argument("--rounds", type=int, default=20, help="measurements of each case")
    parser.add_argument("--threads", type=int, default=1, help="threads that torch may use")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)

    cases: dict[tuple[str, str, str], Case] = {}
    for name in args.bodies:
        replay: Replay | None = None
        for method in args.methods:
            for preset in args.presets:
                td3 = make_td3(method, preset, BODIES[name])
                if replay is None:
                    replay = td3.replay
                    fill(replay)
                td3.replay = replay  # the same for all
                cases[method, preset, name] = Case(td3)
    for case in cases.values():
        case.run()
    for _ in range(args.rounds):
        for case in cases.values():
            case.measure()

    print(f"TD3 updates at batch 100, {args.threads} thread(s), median of {args.rounds}.\n")
    print("| method | bodies | updates/s | ms | matmul GFLOP | limit |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for (method, preset, name), case in cases.items():
        seconds, gflop = median(case.seconds), median(case.gflop)
        limit = LIMITS.get((method, preset), {}).get(name)
        print(
            f"| {method} `{preset}` | {name} | {1 / seconds:.1f} | {1e3 * seconds:.1f} "
            f"| {gflop:.1f} | {'' if limit is None else f'{limit:.0f}'} |"
        )


if __name__ == "__main__":
    main()
