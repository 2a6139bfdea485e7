"""What the page says."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from sgrl.morphology import get_body
from sgrl.viewer import readout
from sgrl.viewer.simulation import Simulation
from tests.viewer.drivers import Still

WALKER, HOPPER = get_body("3d_walker_7_full"), get_body("3d_hopper_5_full")


class Trained(Still):
    name = "walker-1"
    details = "set, 5 steps"
    trained_on = (WALKER,)


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_the_title_says_what_drives() -> None:
    assert "no policy was given" in readout.title(Still())
    shown = words(readout.title(Trained()))
    assert shown == "walker-1 (set, 5 steps), trained on 3d_walker_7_full"
    several = Trained()
    several.trained_on = (WALKER, HOPPER)
    assert words(readout.title(several)).endswith("trained on 2 bodies")


def test_time() -> None:
    assert words(readout.pace(1, 1, True, paused=False)) == "real time"
    assert words(readout.pace(0.25, 0.25, True, paused=False)) == "slow motion, 0.25 of real time"
    slow = words(readout.pace(1, 0.4, False, paused=False))
    assert slow.startswith("slowed down to 0.40 of real time")
    assert words(readout.pace(1, 0.0, False, paused=True)) == "paused"


def test_numbers_of_each_robot() -> None:
    simulation = Simulation(Trained(), [WALKER, HOPPER])
    first, second = simulation.robots
    first.speed, first.reward, first.total, first.falls = 1.26, 0.51, 42.4, 3
    simulation.aim(first.xy + np.array([3.0, 4.0]))
    text = words(readout.robots(simulation.robots, second, simulation.driver))
    assert "1 1.3 5.0 m 0.5 42 3 2" in text
    assert "5 limbs, never seen in training (zero-shot)" in text
    assert "7 limbs, seen in training" in words(
        readout.robots(simulation.robots, first, simulation.driver)
    )
    simulation.driver.trained_on = (WALKER, get_body("3d_walker_6_right_foot"))
    simulation.cut(first, frozenset({"right_foot"}))
    assert "6 limbs, seen in training" in words(
        readout.robots(simulation.robots, first, simulation.driver)
    )
    simulation.cut(first, frozenset({"left_foot"}))
    assert "6 limbs, never seen in training (zero-shot)" in words(
        readout.robots(simulation.robots, first, simulation.driver)
    )


def test_a_target_that_is_reached_is_said() -> None:
    simulation = Simulation(Still(), [WALKER])
    (robot,) = simulation.robots
    assert "reached 0.0" not in words(readout.robots([robot], robot, simulation.driver))
    simulation.aim(robot.xy + np.array([0.6, 0.0]))
    assert "1 0.0 reached 0.0" in words(readout.robots([robot], robot, simulation.driver))


def test_a_legend_for_what_colors_mean() -> None:
    assert readout.legend("body") == ""
    assert words(readout.legend("action")) == "no action full action"
    assert words(readout.legend("attention")) == "no attention 2 times an even share"
    assert "rgb(158,168,184),rgb(222,33,41)" in readout.legend("action")


def test_each_robot_has_its_color_in_the_table() -> None:
    simulation = Simulation(Still(), [WALKER, WALKER, HOPPER])
    html = readout.robots(simulation.robots, simulation.robots[0], simulation.driver)
    assert len(set(re.findall(r"background:(rgb\([0-9,]+\))", html))) == 3


def test_a_bar_for_each_hinge() -> None:
    simulation = Simulation(Still(), [HOPPER])
    (robot,) = simulation.robots
    robot.action = np.linspace(-1, 1, robot.body.action_dim).astype(np.float32)
    html = readout.actions(robot)
    widths = [float(width) for width in re.findall(r"width:(\d+)px;background:#", html)]
    assert len(widths) == robot.body.action_dim == 12
    assert widths[0] == widths[-1] == readout.BAR
    assert widths[5] < widths[2] < widths[0]
    lefts = [float(left) for left in re.findall(r"margin-left:(\d+)px", html)]
    assert lefts[0] == 0
    assert lefts[-1] == readout.BAR
    assert words(html) == "thigh shin lower_shin foot"


def test_names_are_not_html() -> None:
    foot = replace(HOPPER.limbs[-1], name="<b>foot")
    odd = replace(HOPPER, name="odd", limbs=(*HOPPER.limbs[:-1], foot))
    simulation = Simulation(Still(), [odd])
    assert "<b>" not in readout.actions(simulation.robots[0])
