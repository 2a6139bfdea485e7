"""Drivers whose actions are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgrl.viewer.driver import Driven, Driver


class Still(Driver):
    """Does nothing, and counts for how many robots."""

    name = "nothing"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def act(self, robots: Sequence[Driven]) -> list[NDArray[np.float32]]:
        self.calls.append(len(robots))
        return [np.zeros(robot.body.action_dim, np.float32) for robot in robots]
