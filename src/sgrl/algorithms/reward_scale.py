"""The scale of each body's rewards, so that no body's returns drown another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from sgrl.morphology import Morphology

LARGEST_RETURN = 5.0
"""Size that no scaled return is to exceed."""
SMALLEST_SCALE = 1e-3
MEMORY = 200_000.0
"""Returns that the running statistics remember, at most."""
_PRIOR = (1e-4, 0.0, 1.0, 0.0)
"""Count, mean, variance and largest size before there are any."""


class RewardScale:
    """Rewards are divided by the standard deviation of the discounted return so far, or by its
    largest size over 5 if that is more."""

    def __init__(
        self, bodies: Sequence[Morphology], gammas: Sequence[float], body_index: NDArray[np.intp]
    ) -> None:
        self._names = [f"{body.family}/{body.name}" for body in bodies]
        self._rows = [np.flatnonzero(body_index == i) for i in range(len(bodies))]
        self._gammas = np.asarray(gammas)[body_index]
        self._returns = np.zeros(len(body_index))
        self._statistics = np.tile(np.array(_PRIOR), (len(bodies), 1))

    @property
    def scales(self) -> NDArray[np.float64]:
        """(bodies,): what rewards are divided by."""
        _, _, variance, largest = self._statistics.T
        scales: NDArray[np.float64] = np.maximum(np.sqrt(variance), largest / LARGEST_RETURN)
        return scales.clip(SMALLEST_SCALE)

    def update(self, rewards: NDArray[np.float64], done: NDArray[np.bool_]) -> None:
        """Count in a step of all environments, (num_envs,) each."""
        # G <- gamma G + r
        self._returns = self._returns * self._gammas + rewards
        for own, rows in zip(self._statistics, self._rows, strict=True):
            returns = self._returns[rows]
            count, mean, variance, largest = own
            n = len(returns)
            total, away = count + n, returns.mean() - mean
            within = variance * count + returns.var() * n
            own[2] = (within + away * away * count * n / total) / total
            own[1] = mean + away * n / total
            own[0] = min(total, MEMORY)
            own[3] = max(largest, np.abs(returns).max())
        self._returns[done] = 0.0

    def weights(self) -> dict[str, Tensor]:
        """(4,) for each body, by family and name: count, mean, variance, largest size."""
        return dict(zip(self._names, from_numpy(self._statistics.copy()), strict=True))

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights` gave; a body that is not in it begins anew."""
        for own, name in zip(self._statistics, self._names, strict=True):
            own[:] = weights[name].numpy() if name in weights else _PRIOR

    def state_dict(self) -> dict[str, Any]:
        """The returns of the episodes that go on."""
        return {"returns": self._returns.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict`."""
        self._returns = np.array(state["returns"])
