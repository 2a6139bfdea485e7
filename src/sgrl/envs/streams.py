"""One stream of random numbers per environment, drawn for many at once.

A number is a hash (SplitMix64) of its stream's key and its index in the stream, so an environment's
draws do not depend on its neighbors, a draw for a thousand environments is a few array operations,
and the whole state is two integers each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


AHEAD = 1024
"""Numbers of a stream computed at once, at least: a draw is then a look-up. They depend on key and
index alone, so how far ahead they are computed changes nothing."""


class Streams:
    """`count` independent streams; `keys` and `counters` are all there is to save."""

    def __init__(self, count: int, longest: int = AHEAD) -> None:
        """`longest`: the most numbers that one draw takes."""
        self._ahead = max(AHEAD, longest)
        self.keys = np.zeros(count, np.uint64)
        self.counters = np.zeros(count, np.int64)
        """Numbers drawn so far."""
        self._numbers = np.empty((count, self._ahead))
        self._first = np.full(count, -self._ahead - 1)
        """Index in the stream of the first of `_numbers`; far behind where there are none."""

    def seed(self, rows: NDArray[np.intp], seeds: NDArray[np.uint64]) -> None:
        """Start these streams anew; equal seeds give equal streams."""
        self.restore(rows, _mix(_mix(seeds + _STEP)), np.zeros(len(rows), np.int64))

    def restore(
        self, rows: NDArray[np.intp], keys: NDArray[np.uint64], counters: NDArray[np.int64]
    ) -> None:
        """Go on from saved keys and counters."""
        self.keys[rows] = keys
        self.counters[rows] = counters
        self._first[rows] = -self._ahead - 1

    def uniform(self, rows: NDArray[np.intp], size: int) -> NDArray[np.float64]:
        """(len(rows), size) numbers in [0, 1)."""
        counters = self.counters[rows]
        offset = counters - self._first[rows]
        late = (offset < 0) | (offset + size > self._ahead)
        if late.any():
            self._compute(rows[late])
            offset[late] = 0
        self.counters[rows] = counters + size
        columns = offset[:, None] + np.arange(size)
        numbers: NDArray[np.float64] = self._numbers[rows[:, None], columns]
        return numbers

    def _compute(self, rows: NDArray[np.intp]) -> None:
        indices = (self.counters[rows, None] + np.arange(1, self._ahead + 1)).astype(np.uint64)
        bits = _mix(np.add(self.keys[rows, None], indices * _STEP, dtype=np.uint64))
        self._numbers[rows] = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        self._first[rows] = self.counters[rows]


def to_normal(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard normal numbers from two arrays of uniform ones (Box and Muller)."""
    normal: NDArray[np.float64] = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2 * np.pi * second)
    return normal


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))
