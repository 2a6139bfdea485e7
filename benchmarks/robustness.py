"""How shipped policies do in a world other than the one they were trained in.

    python benchmarks/robustness.py     # some five minutes of one core; then `make pages`

Each policy runs on the largest body of each family that it was trained on, under one disturbance at
a time, from the same starts. What is measured goes to docs/results/data/robustness.json, of which
`make pages` makes docs/results/robustness.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sgrl.envs.disturbances import LEVELS
from sgrl.morphology import Morphology
from sgrl.morphology.digest import physics
from sgrl.training.evaluate import evaluation_seeds, run_episodes
from sgrl.training.policy import act_on_one_thread, load_policy
from sgrl.training.published import list_published
from sgrl.training.results import BodyResult
from sgrl.training.run import current_commit

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "data" / "robustness.json"
CONDITIONS: dict[str, dict[str, float]] = {
    "as trained": {},
    "half the friction": {"friction": 0.5},
    "twice the friction": {"friction": 2.0},
    "0.8 of the mass": {"mass": 0.8},
    "1.25 of the mass": {"mass": 1.25},
    "motors 1 step late": {"motor_delay": 1},
    "motors 2 steps late": {"motor_delay": 2},
    "noise": {"observation_noise": 1.0},
    "3 times the noise": {"observation_noise": 3.0},
    "pushes of 0.5 m/s": {"push": 0.5},
    "pushes of 1 m/s": {"push": 1.0},
}
"""Levels of disturbances (docs/howto/disturb.md) by their name in the table."""


def bodies_to_show(trained_on: Iterable[Morphology]) -> list[Morphology]:
    """The largest body of each family, which is the full one where it was trained on."""
    shown: dict[str, Morphology] = {}
    for body in sorted(trained_on, key=lambda body: body.num_limbs):
        shown[body.family] = body
    return list(shown.values())


def measure(name: str, episodes: int, threads: int) -> list[dict[str, Any]]:
    """Rows of a policy, a body after the other, in the order of `CONDITIONS`.

    All conditions of a body run at once: a batch of a few episodes would take twice as long.
    """
    policy = load_policy(name)
    # Levels that a condition does not name are those of no disturbance.
    levels = {
        key: np.repeat([one.get(key, LEVELS[key].none) for one in CONDITIONS.values()], episodes)
        for key in dict.fromkeys(key for one in CONDITIONS.values() for key in one)
    }
    seeds = evaluation_seeds(0, episodes) * len(CONDITIONS)
    rows = []
    for body in bodies_to_show(policy.bodies):
        ended = run_episodes(policy, body, seeds, options=levels, threads=threads)
        for number, condition in enumerate(CONDITIONS):
            own = ended[number * episodes : (number + 1) * episodes]
            result = BodyResult(name, body.name, "v1", own)
            rows.append(
                {
                    "policy": name,
                    "body": body.name,
                    "condition": condition,
                    "total_reward": round(result.mean("total_reward"), 1),
                    "lasted": round(result.lasted, 3),
                    "gained": round(result.mean("gained"), 2),
                }
            )
            print(*rows[-1].values(), sep=", ", flush=True)
    return rows


def main() -> None:
    """Write what was measured; a line as soon as it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", nargs="*", help="names; all that ship if none")
    parser.add_argument("--episodes", type=int, default=16, help="of each cell")
    parser.add_argument("--threads", type=int, default=1, help="of the physics; 0: all cores")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file to write")
    args = parser.parse_args()
    act_on_one_thread()
    cards = list_published()
    names = args.policies or list(cards)
    rows = [row for name in names for row in measure(name, args.episodes, args.threads)]
    about = {
        "episodes": args.episodes,
        "commit": current_commit(),
        "physics": physics(),
        # Numbers of a policy that another has replaced are not shown.
        "steps": {name: cards[name]["steps"] for name in names},
    }
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    head = json.dumps(about, indent=1)[:-2]
    args.out.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
