"""Clicks from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from sgrl.morphology import get_body
from sgrl.viewer.clicks import FARTHEST, NEAREST, Clicker
from sgrl.viewer.robot import XY
from sgrl.viewer.simulation import Simulation
from tests.viewer.drivers import Still

WALKER = get_body("3d_walker_7_full")


def clicked(seed: int) -> tuple[list[float], list[XY]]:
    """When is clicked, and where the targets of the first robot then are."""
    simulation = Simulation(Still(), [WALKER] * 2, roams=False)
    clicker = Clicker(simulation, clicks=6, seconds=3.0, seed=seed)
    times, targets = [], []
    for _ in range(75):
        if clicker.click():
            times.append(simulation.time)
            targets.append(simulation.robots[0].target)
            distances = [robot.distance for robot in simulation.robots]
            assert any(NEAREST <= distance <= FARTHEST for distance in distances)
        simulation.advance(0.04)
    return times, targets


def test_clicks_are_spread_over_the_time_and_the_same_for_a_seed() -> None:
    times, targets = clicked(seed=3)
    assert len(times) == 6
    assert times[0] == 0
    for click, time in enumerate(times):
        assert 0.5 * click <= time <= 0.5 * click + 0.44 + 1e-9
    again = clicked(seed=3)
    assert times == again[0]
    assert all(map(np.array_equal, targets, again[1]))
    assert not np.allclose(targets, clicked(seed=4)[1])


def test_no_clicks() -> None:
    simulation = Simulation(Still(), [WALKER])
    target = simulation.robots[0].target
    assert not Clicker(simulation, clicks=0, seconds=1.0).click()
    assert simulation.robots[0].target == pytest.approx(target)
