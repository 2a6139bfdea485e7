"""Write the returns that learning curves and evaluations are compared with.

python benchmarks/references.py --random            # of random actions, on all bodies
python benchmarks/references.py --specialists runs/specialist-*   # keeps the best of each body

Specialists are runs on a single body; each is evaluated on it as all of them are, and what is known
of the body already stays if it is better.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tyro

from sgrl import body_names, load_policy
from sgrl.envs.variant import Variant
from sgrl.training.acting import RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.references import REFERENCES

VARIANTS: tuple[Variant, ...] = ("v1", "v2", "mixed")


def main(
    *, random: bool = False, specialists: tuple[Path, ...] = (), episodes: int = 100, seed: int = 1
) -> None:
    """Evaluate and write.

    Args:
        random: Evaluate random actions on all bodies.
        specialists: Runs on a single body.
        episodes: Of each body and variant.
        seed: Of the evaluations.
    """
    found = json.loads(REFERENCES.read_text(encoding="utf-8")) if REFERENCES.exists() else {}
    for kind in ("random", "specialist"):
        for variant in VARIANTS:
            found.setdefault(kind, {}).setdefault(variant, {})
    if random:
        for body in body_names():
            for variant in VARIANTS:
                row = measure(RandomPolicy(seed), body, variant, episodes, seed)
                found["random"][variant][body] = row | {"source": "uniform actions"}
    for path in specialists:
        policy = load_policy(path)
        if len(policy.bodies) != 1:
            raise SystemExit(f"{path} was trained on {len(policy.bodies)} bodies, not on one")
        algorithm = policy.settings.algorithm
        (body,) = (one.name for one in policy.bodies)
        for variant in VARIANTS:
            row = measure(policy, body, variant, episodes, seed)
            best = found["specialist"][variant]
            if body not in best or row["return"] > best[body]["return"]:
                source = f"{policy.method}, {algorithm}, {policy.checkpoint:,} steps"
                best[body] = row | {"source": source}
    REFERENCES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def measure(policy: Any, body: str, variant: Variant, episodes: int, seed: int) -> dict[str, Any]:
    """Return of a policy on a body, mean and standard error."""
    (result,) = evaluate(policy, body, variant=variant, episodes=episodes, seed=seed)
    mean, error = result.mean("total_reward"), result.standard_error("total_reward")
    print(f"{body} {variant}: {mean:.1f} ± {error:.1f}")
    return {"return": round(mean, 1), "se": round(error, 1)}


if __name__ == "__main__":
    tyro.cli(main)
