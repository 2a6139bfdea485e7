"""How many robots the viewer drives in real time: simulated seconds for each second of work.

    python benchmarks/viewer_speed.py

Simulation and policy as `sgrl view` runs them, without drawing. Above 1 there is time to spare,
below 1 the page slows down and says so. Humanoids, hoppers and walkers act 125 times a second,
cheetahs 25 times.
"""

from __future__ import annotations

import argparse
import time

import torch

from sgrl.morphology import get_body
from sgrl.viewer.driver import load_driver
from sgrl.viewer.simulation import Simulation

BODIES = {
    "3d_cheetah_14_full": "set-cheetah",
    "3d_humanoid_9_full": "set-humanoid",
    "3d_walker_7_full": "set-walker",
    "3d_hopper_5_full": "set-hopper",
}
"""Each under the policy of its family."""
FRAME = 1.0 / 25.0
"""Seconds that are simulated between two pictures."""


def real_time(policy: str, body: str, robots: int, seconds: float) -> float:
    """Simulated seconds in a second, after a warm-up."""
    simulation = Simulation(load_driver(policy), [get_body(body)] * robots)
    simulation.advance(0.5)
    start = time.perf_counter()
    for _ in range(round(seconds / FRAME)):
        simulation.advance(FRAME)
    return seconds / (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=6.0, help="to simulate, each")
    args = parser.parse_args()
    torch.set_num_threads(1)  # as `sgrl view` does
    print("Simulated seconds in a second\n")
    print("| body | policy | " + " | ".join(f"{n} robots" for n in args.robots) + " |")
    print("| --- | --- |" + " ---: |" * len(args.robots))
    for body, policy in BODIES.items():
        found = [real_time(policy, body, n, args.seconds) for n in args.robots]
        print(f"| {body} | {policy} | " + " | ".join(f"{ratio:.1f}" for ratio in found) + " |")


if __name__ == "__main__":
    main()
