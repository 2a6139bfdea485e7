"""One stream of random numbers per copy, drawn for many copies at once.

A number is a hash (SplitMix64) of its copy's key and its place in that copy's stream, so
a copy's draws do not depend on its neighbours, a draw for a thousand copies is a few array
operations, and the whole state is two integers a copy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Streams:
    """`count` independent streams."""

    def __init__(self, count: int) -> None:
        self.keys = np.zeros(count, np.uint64)
        self.counters = np.zeros(count, np.uint64)

    def seed(self, rows: NDArray[np.intp], seeds: NDArray[np.uint64]) -> None:
        """Start these copies' streams anew; equal seeds give equal streams."""
        self.keys[rows] = _mix(_mix(seeds + _STEP))
        self.counters[rows] = 0

    def uniform(self, rows: NDArray[np.intp], size: int) -> NDArray[np.float64]:
        """(len(rows), size) numbers in [0, 1)."""
        places = self.counters[rows, None] + np.arange(1, size + 1, dtype=np.uint64)
        self.counters[rows] += np.uint64(size)
        bits = _mix(np.add(self.keys[rows, None], places * _STEP, dtype=np.uint64))
        numbers: NDArray[np.float64] = (bits >> np.uint64(11)) * 2.0**-53
        return numbers


def to_normal(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard normal numbers from two arrays of uniform ones (Box and Muller)."""
    normal: NDArray[np.float64] = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2 * np.pi * second)
    return normal


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))
