"""Exploration noise that is held: white noise at 125 Hz moves no body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ZETA = 2.0
"""Exponent of the distribution of how long noise is held."""


class HeldNoise:
    """Standard normal noise of each environment, drawn anew after k steps, k from Zeta(2)."""

    def __init__(self, shape: tuple[int, int], longest: int) -> None:
        """`shape` is (num_envs, action_dim); `longest` bounds k."""
        self._noise = np.zeros(shape, np.float32)
        self._left = np.zeros(shape[0], np.int64)
        self._longest = longest

    def draw(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """(num_envs, action_dim) for the next step."""
        ended = np.flatnonzero(self._left == 0)
        if len(ended):
            self._left[ended] = np.minimum(rng.zipf(ZETA, len(ended)), self._longest)
            shape = (len(ended), self._noise.shape[1])
            self._noise[ended] = rng.standard_normal(shape, np.float32)
        self._left -= 1
        return self._noise

    def release(self, done: NDArray[np.bool_]) -> None:
        """Hold nothing over the end of an episode."""
        self._left[done] = 0

    def state_dict(self) -> dict[str, Any]:
        """What is held, and for how long."""
        return {"noise": self._noise.copy(), "left": self._left.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict`."""
        self._noise[:], self._left[:] = state["noise"], state["left"]
