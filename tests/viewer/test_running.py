"""A click on the page, and the robot runs there. In a browser with no other tab to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("viser")
from sgrl.morphology import get_body
from sgrl.viewer.driver import RandomDriver, load_driver
from sgrl.viewer.simulation import Simulation
from tests.viewer.watching import CHEETAH, PATIENCE, SIZE, has_moved, viewing, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HORIZON = (360, 150)
"""Where a click means a place tens of metres away, in pixels: so far that a robot must run there,
and that it does not matter how sharply it can turn."""
CLOSER = 10.0
"""Metres by which a robot that runs there comes closer."""
WITHIN = 25.0
"""Simulated seconds in which it does; those of a clock would be a test of the machine."""


def test_a_trained_policy_runs_to_the_click(browser: Browser) -> None:
    with (
        browser.new_context(viewport=SIZE) as context,
        viewing(context, load_driver("set-cheetah"), CHEETAH, paused=True) as (viewer, page),
    ):
        simulation = viewer.simulation
        (robot,) = simulation.robots
        before = robot.target
        page.mouse.click(*HORIZON)
        wait_for(lambda: has_moved(robot, before), page, "the target to move")
        start = robot.distance
        assert start > 2 * CLOSER

        def comes_closer() -> bool:
            assert simulation.time < WITHIN, f"{start - robot.distance:.1f} m in {WITHIN:g} s"
            return robot.distance < start - CLOSER

        viewer.pause(False)
        wait_for(comes_closer, page, "the robot to run to the target", patience=10 * PATIENCE)


@pytest.mark.parametrize("seed", range(3))
def test_chance_does_not_run_to_the_click(seed: int) -> None:
    simulation = Simulation(RandomDriver(seed), [get_body(CHEETAH)], seed=seed)
    (robot,) = simulation.robots
    simulation.aim(robot.xy + np.array([3 * CLOSER, 0.0]))
    start = robot.distance
    while simulation.time < WITHIN:
        simulation.advance(0.2)
        assert robot.distance > start - 0.5 * CLOSER
