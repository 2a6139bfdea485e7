"""The largest numbers that making and resetting an environment takes.

They are far above what a machine can use, so that a slip of the keyboard is one clear line instead
of an hour of allocating.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

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
            f"{name} must be a whole number from {least} to {most:,}{meaning}, not {shown(value)}"
        )
    return number


def checked_episode_steps(value: object) -> int | None:
    """How many steps an episode may take; None is no limit."""
    if value is None:
        return None
    return whole_number("max_episode_steps", value, 1, LONGEST_EPISODE, " or None (no limit)")


def numbers(what: str, value: object) -> NDArray[np.float64]:
    """`value` as an array of numbers; ValueError in one line if it is none."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} must be numbers, not {shown(value)}") from None


def shown(value: Any) -> str:
    """What was passed, in one line and cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
