"""The cores that there are to work with."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Those that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores_are_busy() -> bool:
    """Whether others work on this machine, so that more threads than one would wait."""
    if not hasattr(os, "getloadavg"):  # on Windows
        return False
    return os.getloadavg()[0] > 0.6 * count_cores()
