"""The specialist of a body: the best of any run, by one protocol."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sgrl.training.references import REFERENCES
from sgrl.training.run import SHIPPED

ROOT = Path(__file__).parents[2]
BODY = "3d_hopper_3_shin"


@pytest.fixture(scope="module")
def references() -> ModuleType:
    spec = importlib.util.spec_from_file_location("r", ROOT / "benchmarks" / "references.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def card(name: str, far: float, near: float, episodes: int = 100) -> dict[str, Any]:
    rows = [
        {"body": body, "variant": variant, "total_reward": total, "total_reward_se": 3.0}
        | {"lasted": 0.9 if variant == "v1" else 0.5}
        for body in (BODY, f"{BODY}_mirrored")
        for variant, total in (("v1", far), ("v2", near))
    ]
    about = {"name": name, "method": "set", "algorithm": "sac", "steps": 1000}
    return about | {"episodes": episodes, "results": rows}


def test_the_best_of_all_cards_counts(references: ModuleType) -> None:
    cards = [card("a", 100.0, 40.0), card("b", 80.0, 70.0), card("lucky", 999.0, 999.0, 3)]
    best = references.best_of(cards, {})
    assert {variant: list(rows) for variant, rows in best.items()} == {
        "v1": [BODY],
        "v2": [BODY],
        "mixed": [BODY],
    }
    assert best["v1"][BODY] == {
        "return": 100.0,
        "se": 3.0,
        "lasted": 0.9,
        "source": "a (set, sac, 1,000 steps)",
    }
    assert best["v2"][BODY]["source"].startswith("b ")
    assert best["mixed"][BODY]["return"] == 75.0
    assert best["mixed"][BODY]["lasted"] == pytest.approx(0.7)
    # Of independent means: the root of 3² + 3², halved.
    assert best["mixed"][BODY]["se"] == pytest.approx(2.1)


def test_what_is_known_stays_if_it_is_better(references: ModuleType) -> None:
    known = {"v1": {BODY: {"return": 90.0, "se": 1.0, "source": "of before"}}}
    assert references.best_of([card("a", 80.0, 40.0)], known)["v1"][BODY]["source"] == "of before"
    assert references.best_of([card("a", 95.0, 40.0)], known)["v1"][BODY]["return"] == 95.0
    assert known["v1"][BODY]["return"] == 90.0


def test_the_file_is_current(references: ModuleType) -> None:
    files = [*(ROOT / "teachers").glob("*/card.json"), *SHIPPED.glob("*/card.json")]
    cards = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(files)]
    found = json.loads(REFERENCES.read_text(encoding="utf-8"))["specialist"]
    assert references.best_of(cards, found) == found, "run `make pages`"
