"""Returns to compare with: what random actions get on a body, and what its specialist gets.

The specialist of a body is the best that any run of the project does on it. The numbers are written
by `benchmarks/references.py`, from the cards of policies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sgrl.envs.variant import Variant
from sgrl.morphology import MIRRORED

REFERENCES = Path(__file__).with_suffix(".json")
Kind = Literal["random", "specialist"]
KINDS: tuple[Kind, ...] = ("random", "specialist")


@cache
def read_references() -> dict[Kind, dict[str, dict[str, dict[str, Any]]]]:
    """By kind, variant and body: `return`, its standard error `se`, and `source` in a few words;
    of most specialists `lasted`, the share of episodes that last."""
    found: dict[Kind, dict[str, dict[str, dict[str, Any]]]]
    found = json.loads(REFERENCES.read_text(encoding="utf-8"))
    return found


def reference_return(kind: Kind, bodies: Sequence[str], variant: Variant) -> float | None:
    """The mean over bodies of a kind of return, or None if one of them has none.

    A mirror image has the return of its body.
    """
    rows = read_references()[kind].get(variant, {})
    known = [rows.get(body.removesuffix(MIRRORED)) for body in bodies]
    returns = [row["return"] for row in known if row is not None]
    return sum(returns) / len(returns) if returns and len(returns) == len(known) else None
