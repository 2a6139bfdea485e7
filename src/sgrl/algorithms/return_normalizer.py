"""Returns of each body in units of their own mean and standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.morphology import Morphology

MEMORY = 0.95
"""How much of the statistics of returns stays at each update."""


class ReturnNormalizer:
    """Running mean and standard deviation of each body's returns, for a value function."""

    def __init__(self, bodies: Sequence[Morphology]) -> None:
        self._names = [f"{body.family}/{body.name}" for body in bodies]
        self._sums = np.zeros((3, len(bodies)))  # weight, mean, mean square

    @property
    def mean(self) -> NDArray[np.float64]:
        """(bodies,)."""
        weight, mean, _ = self._sums
        return mean / np.maximum(weight, 1e-9)

    @property
    def std(self) -> NDArray[np.float64]:
        """(bodies,), never 0."""
        weight, _, square = self._sums
        variance = square / np.maximum(weight, 1e-9) - self.mean**2
        return np.where(weight > 0, np.sqrt(np.maximum(variance, 1e-4)), 1.0)

    def update(self, returns: NDArray[np.float64], body_index: NDArray[np.intp]) -> None:
        """Count in returns (steps, num_envs) of bodies `body_index`, (num_envs,).

        FloatingPointError, and nothing changed, if one is not finite.
        """
        if not np.isfinite(returns).all():
            raise FloatingPointError("a return is not finite; nothing was changed by it")
        for body in range(self._sums.shape[1]):
            values = returns[:, body_index == body]
            moments = np.array([1.0, values.mean(), np.square(values).mean()])
            self._sums[:, body] = MEMORY * self._sums[:, body] + (1 - MEMORY) * moments

    def normalize(
        self, returns: NDArray[np.float64], body_index: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """(returns - mean) / std, for returns (..., n) of bodies (n,)."""
        return (returns - self.mean[body_index]) / self.std[body_index]

    def denormalize(
        self, normalized: NDArray[np.float64], body_index: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """What `normalize` was given."""
        return self.mean[body_index] + self.std[body_index] * normalized

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
            akin = [value for other, value in state.items() if other.startswith(f"{family}/")]
            known = [state[name]] if name in state else akin
            self._sums[:, body] = torch.stack(known).mean(dim=0) if known else 0.0
