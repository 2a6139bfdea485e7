"""Clicks on the ground as somebody who plays with the viewer makes them, from a seed."""

from __future__ import annotations

import numpy as np

from sgrl.viewer.simulation import Simulation

NEAREST, FARTHEST = 3.0, 12.0
"""Meters from a robot to where is clicked."""


class Clicker:
    """Sends the robots of a simulation here and there, as many times as was asked for."""

    def __init__(self, simulation: Simulation, clicks: int, seconds: float, seed: int = 0) -> None:
        """`seconds`: over which the clicks are spread, the first at once."""
        self._simulation = simulation
        self._rng = np.random.default_rng(seed)
        every = seconds / max(1, clicks)
        self._times = [
            simulation.time + every * (click + (self._rng.uniform(0, 0.8) if click else 0.0))
            for click in range(clicks)
        ]

    def click(self) -> bool:
        """Make the click that is due, if one is."""
        if not self._times or self._times[0] > self._simulation.time:
            return False
        self._times.pop(0)
        robots = self._simulation.robots
        leader = robots[int(self._rng.integers(len(robots)))]
        angle = float(self._rng.uniform(0, 2 * np.pi))
        self._simulation.aim_towards(leader, angle, float(self._rng.uniform(NEAREST, FARTHEST)))
        return True
