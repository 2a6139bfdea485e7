"""What a name that is not known may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "known are") -> str:
    """The names nearest to one that is not known, or after `otherwise` all that are known."""
    known = tuple(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"{otherwise} {', '.join(known)}"
