"""How shipped policies do in a world other than the one they were trained in.

    python benchmarks/robustness.py --episodes 100 --out docs/results/data/robustness

Each policy runs on the largest body of each family that it was trained on, under one disturbance at
a time, from the same starts. A cell is the mean return of the deterministic policy and the
share of episodes that last all steps. The folder gets every episode.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from sgrl.morphology import Morphology
from sgrl.training.evaluate import evaluate
from sgrl.training.policy import act_on_one_thread, load_policy
from sgrl.training.published import list_published
from sgrl.training.results import BodyResult, write_results

CONDITIONS: dict[str, dict[str, float]] = {
    "as trained": {},
    "half the friction": {"friction": 0.5},
    "twice the friction": {"friction": 2.0},
    "0.8 of the mass": {"mass": 0.8},
    "1.25 of the mass": {"mass": 1.25},
    "motors 1 step late": {"motor_delay": 1},
    "2 steps late": {"motor_delay": 2},
    "noise": {"observation_noise": 1.0},
    "3 times the noise": {"observation_noise": 3.0},
    "pushes of 0.5 m/s": {"push": 0.5},
    "of 1 m/s": {"push": 1.0},
}
"""Levels of disturbances (docs/howto/disturb.md) by their name in the table."""


def bodies_to_show(trained_on: Iterable[Morphology]) -> list[Morphology]:
    """The largest body of each family, which is the full one where it was trained on."""
    shown: dict[str, Morphology] = {}
    for body in sorted(trained_on, key=lambda body: body.num_limbs):
        shown[body.family] = body
    return list(shown.values())


def measure(policy: str, episodes: int, threads: int) -> list[BodyResult]:
    """The results of a policy, a body after the other, in the order of `CONDITIONS`."""
    acts = load_policy(policy)
    return [
        result
        for body in bodies_to_show(acts.bodies)
        for condition, levels in CONDITIONS.items()
        for result in evaluate(
            acts,
            body,
            episodes=episodes,
            threads=threads,
            options=levels,
            label=f"{policy}, {condition}",
        )
    ]


def row(results: list[BodyResult]) -> str:
    """A line of the table: one body under all conditions."""
    policy = results[0].policy.partition(",")[0]
    cells = [f"{r.mean('total_reward'):,.0f}, {1 - r.mean('fell'):.0%}" for r in results]
    return " | ".join(["", policy, results[0].body, *cells, ""]).strip()


def main() -> None:
    """Print the table, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", nargs="*", help="names or runs; all that ship if none")
    parser.add_argument("--episodes", type=int, default=100, help="of each cell")
    parser.add_argument("--threads", type=int, default=0, help="of the physics; 0: all cores")
    parser.add_argument("--out", type=Path, help="folder for the episodes")
    args = parser.parse_args()
    act_on_one_thread()
    print(" | ".join(["| policy | body", *CONDITIONS, ""]).strip())
    print("|" + " --- |" * (2 + len(CONDITIONS)))
    results = []
    for policy in args.policies or list_published():
        measured = measure(policy, args.episodes, args.threads)
        results += measured
        for start in range(0, len(measured), len(CONDITIONS)):
            print(row(measured[start : start + len(CONDITIONS)]), flush=True)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        write_results(results, args.out, about={"conditions": CONDITIONS})


if __name__ == "__main__":
    main()
