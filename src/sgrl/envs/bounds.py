"""The largest numbers that making and resetting an environment takes.

They are far above what a machine can use, so that a slip of the keyboard is one clear line instead
of an hour of allocating.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, cast

MAX_ENVS = 65_536
"""Environments in one vector environment, all bodies together."""
MAX_THREADS = 1_024
LONGEST_EPISODE = 1_000_000_000
"""Steps."""
MAX_FRAME_PIXELS = 8_192
"""Width and height of a frame."""
MAX_SEED = 2**63 - 1


def whole_number(name: str, value: object, least: int, most: int, meaning: str = "") -> int:
    """`value` as an int from `least` to `most`; ValueError in one line if it is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(
            f"{name} must be a whole number from {least} to {most:,}{meaning}, not {_short(value)}"
        )
    return number


def checked_episode_steps(value: object) -> int | None:
    """How many steps an episode may take; None is no limit."""
    if value is None:
        return None
    return whole_number("max_episode_steps", value, 1, LONGEST_EPISODE, " or None (no limit)")


def _short(value: Any) -> str:
    """What was given, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
