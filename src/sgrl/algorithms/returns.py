"""The units in which a value function learns the returns of each body."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MEMORY = 0.95
"""How much of the statistics of returns stays at each update."""


class ReturnScale:
    """Running mean and spread of each body's returns: the units of the value function."""

    def __init__(self, bodies: int) -> None:
        self._sums = np.zeros((3, bodies))  # weight, mean, mean square

    @property
    def mean(self) -> NDArray[np.float64]:
        """(bodies,)."""
        weight, mean, _ = self._sums
        return mean / np.maximum(weight, 1e-9)

    @property
    def spread(self) -> NDArray[np.float64]:
        """(bodies,), never 0."""
        weight, _, square = self._sums
        variance = square / np.maximum(weight, 1e-9) - self.mean**2
        return np.where(weight > 0, np.sqrt(np.maximum(variance, 1e-4)), 1.0)

    def update(self, returns: NDArray[np.float64], body_index: NDArray[np.int64]) -> None:
        """Count in returns (steps, copies) of copies of bodies `body_index`."""
        for body in range(self._sums.shape[1]):
            own = returns[:, body_index == body]
            seen = np.array([1.0, own.mean(), np.square(own).mean()])
            self._sums[:, body] = MEMORY * self._sums[:, body] + (1 - MEMORY) * seen

    def get_state(self) -> list[list[float]]:
        """Numbers that `set_state` takes back."""
        sums: list[list[float]] = self._sums.tolist()
        return sums

    def set_state(self, state: Sequence[Sequence[float]]) -> None:
        self._sums[:] = state
