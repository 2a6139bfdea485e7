"""Write the returns that learning curves, evaluations and cards are compared with.

    python benchmarks/references.py             # of the best run on each body, from the cards
    python benchmarks/references.py --random    # also of random actions, evaluated on all bodies

The specialist of a body is the best that any run of the project does on it, by one protocol: the
mean return of 100 episodes of the deterministic policy as `sgrl publish` measured it, in the cards
of teachers/ and of the policies that ship. Publish a run into teachers/ and it counts; what is
known of a body already stays if it is better.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tyro

from sgrl import body_names
from sgrl.envs.variant import Variant
from sgrl.morphology import MIRRORED
from sgrl.training.acting import RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.references import REFERENCES
from sgrl.training.run import SHIPPED

TEACHERS = Path(__file__).parents[1] / "teachers"
VARIANTS: tuple[Variant, ...] = ("v1", "v2", "mixed")
EPISODES = 100
"""A card of fewer does not count: the luckiest of few episodes would win."""
Row = dict[str, Any]


def main(*, random: bool = False, seed: int = 1) -> None:
    """Write what is known today.

    Args:
        random: Evaluate random actions on all bodies.
        seed: Of that evaluation.
    """
    found = json.loads(REFERENCES.read_text(encoding="utf-8"))
    if random:
        found["random"] = {variant: of_random(variant, seed) for variant in VARIANTS}
    files = sorted([*TEACHERS.glob("*/card.json"), *SHIPPED.glob("*/card.json")])
    cards = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    found["specialist"] = best_of(cards, found["specialist"])
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if text != REFERENCES.read_text(encoding="utf-8"):
        REFERENCES.write_text(text, encoding="utf-8")
        print(f"wrote {REFERENCES}")


def best_of(
    cards: Iterable[dict[str, Any]], known: Mapping[str, Mapping[str, Row]]
) -> dict[str, dict[str, Row]]:
    """The best return on each body by variant, with its source, among cards and what is known."""
    best: dict[str, dict[str, Row]] = {
        variant: dict(known.get(variant, {})) for variant in VARIANTS
    }
    for card in cards:
        if card["episodes"] < EPISODES:
            continue
        made = f"{card['method']}, {card['algorithm']}, {card['steps']:,} steps"
        source = f"{card['name']} ({made})"
        rows = {(row["body"], row["variant"]): row for row in card["results"]}
        for body in dict.fromkeys(row["body"] for row in card["results"]):
            if body.endswith(MIRRORED):
                continue
            far, near = rows[body, "v1"], rows[body, "v2"]
            for variant, measured in zip(VARIANTS, ([far], [near], [far, near]), strict=True):
                row, before = _mean_of(measured) | {"source": source}, best[variant].get(body)
                if before is None or row["return"] > before["return"]:
                    best[variant][body] = row
    return best


def _mean_of(rows: list[Row]) -> Row:
    """Far and near targets count the same in a training on both."""
    mean = sum(row["total_reward"] for row in rows) / len(rows)
    error = math.hypot(*(row["total_reward_se"] for row in rows)) / len(rows)
    lasted = [row["lasted"] for row in rows if "lasted" in row]
    about = {"lasted": sum(lasted) / len(lasted)} if len(lasted) == len(rows) else {}
    return {"return": round(mean, 1), "se": round(error, 1)} | about


def of_random(variant: Variant, seed: int) -> dict[str, Row]:
    """What random actions get on each body."""
    rows = {}
    for body in body_names():
        (result,) = evaluate(
            RandomPolicy(seed), body, variant=variant, episodes=EPISODES, seed=seed
        )
        mean, error = result.mean("total_reward"), result.standard_error("total_reward")
        print(f"{body} {variant}: {mean:.1f} ± {error:.1f}")
        rows[body] = {"return": round(mean, 1), "se": round(error, 1), "source": "uniform actions"}
    return rows


if __name__ == "__main__":
    tyro.cli(main)
