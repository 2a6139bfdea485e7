"""The units in which a value function learns the returns of each body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.morphology import Morphology

MEMORY = 0.95
"""How much of the statistics of returns stays at each update."""


class ReturnScale:
    """Running mean and spread of each body's returns: the units of the value function."""

    def __init__(self, bodies: Sequence[Morphology]) -> None:
        self._names = [f"{body.family}/{body.name}" for body in bodies]
        self._sums = np.zeros((3, len(bodies)))  # weight, mean, mean square

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
        """Count in returns (steps, copies) of copies of bodies `body_index`.

        FloatingPointError, and nothing changed, if one is not finite.
        """
        if not np.isfinite(returns).all():
            raise FloatingPointError("a return is not finite; nothing was changed by it")
        for body in range(self._sums.shape[1]):
            own = returns[:, body_index == body]
            seen = np.array([1.0, own.mean(), np.square(own).mean()])
            self._sums[:, body] = MEMORY * self._sums[:, body] + (1 - MEMORY) * seen

    def to_units(
        self, returns: NDArray[np.float64], bodies: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Of returns (..., n) of bodies (n,), as rewards count, as the value function counts."""
        return (returns - self.mean[bodies]) / self.spread[bodies]

    def from_units(
        self, units: NDArray[np.float64], bodies: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What `to_units` was given."""
        return self.mean[bodies] + self.spread[bodies] * units

    def state_dict(self) -> dict[str, Tensor]:
        """(3,) for each body, by family and name."""
        return dict(zip(self._names, torch.from_numpy(self._sums.T.copy()), strict=True))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave, if of other bodies too.

        A body that is not in it gets the mean of its family; of a family that is not in it
        nothing is known yet.
        """
        for body, name in enumerate(self._names):
            family, _, _ = name.partition("/")
            akin = [own for other, own in state.items() if other.startswith(f"{family}/")]
            known = [state[name]] if name in state else akin
            self._sums[:, body] = torch.stack(known).mean(dim=0) if known else 0.0
