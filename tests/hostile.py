"""How many inputs the tests of hostile input make, and what holds for whatever they are given."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("SGRL_EXAMPLES", "100"))
"""Inputs for each test; the nightly run has more (tests/test_hostile_all.py)."""
LONGEST_LINE = 2000
HANGS = 120
"""Seconds after which something hangs: everything here takes less than one."""


def made(examples: int) -> Any:
    """So many inputs, the same ones every time."""
    return settings(
        max_examples=max(1, examples),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def in_time() -> Iterator[None]:
    """What takes too long fails."""

    def fail(*_: object) -> None:
        raise AssertionError(f"it hangs: {HANGS} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_line(said: str) -> None:
    """One line that somebody can read, and a terminal shows as it is."""
    assert 5 < len(said) < LONGEST_LINE, said
    assert said.isprintable(), repr(said)
