"""Several robots under one driver, in one world and at one pace. Knows nothing of pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.cores import count_cores
from sgrl.envs.single import step_together
from sgrl.envs.variant import Variant
from sgrl.morphology import Morphology
from sgrl.morphology.task import FAR_TARGET, NEAR_TARGET
from sgrl.viewer.driver import Driver
from sgrl.viewer.limb_colors import robot_color
from sgrl.viewer.robot import XY, Robot

SPACING = 2.5
"""Meters between robots at the start and at a target, so that they don't run into each other."""
HOMES = SPACING * np.array(
    [(0, 0), (0, 1), (0, -1), (1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1)], np.float64
)
MAX_ROBOTS = len(HOMES)
FARTHEST_TARGET = 1000.0
"""Meters from the robots; a click near the horizon counts as one at this distance."""
CORES = count_cores()
_TICK = 1e-6
"""Seconds by which a sum of steps may miss the time that it stands for."""


class Simulation:
    """Robots that are driven to targets."""

    def __init__(
        self,
        driver: Driver,
        bodies: Sequence[Morphology],
        *,
        variant: Variant = "v2",
        seed: int = 0,
        roams: bool = True,
    ) -> None:
        """`variant`: whether new targets are near (v2) or 10 km away (v1)."""
        if not 1 <= len(bodies) <= MAX_ROBOTS:
            raise ValueError(f"1 to {MAX_ROBOTS} bodies at once, not {len(bodies)}")
        self.driver = driver
        self.gets_up = True
        """Whether a robot that falls begins again where it lies; otherwise it stays down."""
        self.roams = roams
        """Whether a target that is reached makes way for a new one; otherwise it stays there."""
        self.time = 0.0
        """Seconds simulated."""
        self.steps = 0
        """Environment steps of all robots."""
        self.robots: list[Robot] = []
        self._variant: Variant = variant
        self._rng = np.random.default_rng(seed)
        self._threads = ThreadPoolExecutor(CORES)
        target = self._random_target()
        for body in bodies:
            home = self._free_home()
            self._enter(body, home, home, target + home)

    def _random_target(self) -> XY:
        """Around the home of the first robot, as the environments place theirs."""
        nearest, farthest = FAR_TARGET if self._variant == "v1" else NEAR_TARGET
        angle = self._rng.uniform(0, 2 * np.pi)
        reach = self._rng.uniform(nearest, farthest)
        return np.array([reach * np.cos(angle), reach * np.sin(angle)])

    def add(self, body: Morphology) -> Robot:
        """One more robot, at its slot in the formation: beside the others, wherever they are."""
        if len(self.robots) == MAX_ROBOTS:
            raise ValueError(f"{MAX_ROBOTS} robots at once are the most")
        home, first = self._free_home(), self.robots[0]
        away = home - first.home
        return self._enter(body, home, first.resting_xy + away, first.target + away)

    def _free_home(self) -> XY:
        taken = {tuple(robot.home) for robot in self.robots}
        return next(home for home in HOMES if tuple(home) not in taken)

    def _enter(self, body: Morphology, home: XY, origin: XY, target: XY) -> Robot:
        self.driver.check([body])
        color = robot_color(body, {other.color for other in self.robots})
        robot = Robot(body, home, self._variant, int(self._rng.integers(2**62)), color)
        robot.clock = self._clock(robot)
        robot.start(origin, target)
        self.robots.append(robot)
        return robot

    def _clock(self, robot: Robot) -> float:
        """The time for a newcomer: as it is for others of its rate, so that they step as one."""
        return next((other.clock for other in self.robots if other.dt == robot.dt), self.time)

    def remove(self, robot: Robot) -> None:
        """Take a robot away, unless it is the last."""
        if len(self.robots) == 1:
            raise ValueError("this is the last robot; add another before you remove it")
        self.robots.remove(robot)

    def replace(self, robot: Robot, body: Morphology) -> Robot:
        """Put another body where a robot is."""
        self.driver.check([body])
        others = {other.color for other in self.robots if other is not robot}
        seed = int(self._rng.integers(2**62))
        new = Robot(body, robot.home, self._variant, seed, robot_color(body, others))
        new.clock = self._clock(new)
        new.start(robot.xy, robot.target)
        self.robots[self.robots.index(robot)] = new
        return new

    def cut(self, robot: Robot, limbs: frozenset[str]) -> None:
        """Let a robot have all its limbs but these, and what hangs on them, from now on."""
        if limbs and not self.driver.takes_any_body:
            self.driver.check([robot.whole.cut(*limbs)])
        robot.cut(limbs)

    def aim(self, xy: XY, leader: Robot | None = None) -> None:
        """Send a robot, by default the first, to a point on the ground, the others in formation."""
        leader = leader or self.robots[0]
        for robot in self.robots:
            robot.aim(xy + robot.home - leader.home)

    def aim_towards(self, robot: Robot, angle: float, distance: float) -> None:
        """Send the robots so many meters from one of them, in the direction of an angle."""
        self.aim(robot.xy + distance * np.array([np.cos(angle), np.sin(angle)]), robot)

    def aim_behind(self, distance: float) -> None:
        """Send each robot to the point so many meters behind it."""
        for robot in self.robots:
            ahead = robot.env.data.xmat[1].reshape(3, 3)[:2, 0]
            robot.aim(robot.xy - distance * ahead / np.hypot(*ahead))

    def reset(self) -> None:
        """All robots home, turned anyhow, with a new target."""
        target = self._random_target()
        for robot in self.robots:
            robot.start(robot.home, target + robot.home)
            robot.falls = robot.reached = 0
            robot.since_fall = math.inf

    def push(self, robot: Robot, speed: float, angle: float | None = None) -> None:
        """Push a robot to a speed, m/s, in the direction of an angle, or in any direction."""
        if angle is None:
            angle = self._rng.uniform(0, 2 * np.pi)
        robot.push(speed * np.array([np.cos(angle), np.sin(angle)]))

    def advance(self, seconds: float) -> None:
        """Simulate so many seconds; every robot at the rate of its own environment."""
        self.time += seconds
        while due := [robot for robot in self.robots if robot.clock + _TICK < self.time]:
            due.sort(key=lambda robot: robot.dt)
            pairs = zip(due, self.driver.act(due), strict=True)
            for _, alike in groupby(pairs, key=lambda pair: pair[0].dt):
                self._step(*zip(*alike, strict=True))
            self.steps += len(due)

    def _step(self, robots: Sequence[Robot], actions: Sequence[NDArray[np.float32]]) -> None:
        """One step of robots of one rate, their physics side by side."""
        stepped = step_together([robot.env for robot in robots], actions, self._spread)
        for robot, action, outcome in zip(robots, actions, stepped, strict=True):
            on_its_feet = robot.after_step(action, outcome, roams=self.roams)
            if not on_its_feet and self.gets_up:
                robot.fall()

    def _spread(self, function: Callable[..., bool], *inputs: Sequence[Any]) -> list[bool]:
        """Map a function over inputs, an equal share of the calls on each core.

        To hand over single ones would take as long as to make them.
        """
        calls = list(zip(*inputs, strict=True))
        size = math.ceil(len(calls) / CORES)
        own, *others = (calls[start : start + size] for start in range(0, len(calls), size))
        at_work = [self._threads.submit(_call, function, share) for share in others]
        return sum((share.result() for share in at_work), start=_call(function, own))

    def attention(self) -> list[NDArray[np.float32]]:
        """(limbs,) of each robot: how much its limbs are listened to."""
        return self.driver.attention(self.robots)


def _call(function: Callable[..., bool], inputs: Iterable[tuple[Any, ...]]) -> list[bool]:
    return list(starmap(function, inputs))


def ground_point(origin: Sequence[float], direction: Sequence[float]) -> XY | None:
    """Where a ray meets the ground, or nothing if it looks up at the sky."""
    start, along = np.array(origin, np.float64), np.array(direction, np.float64)
    if start[2] <= 0 or along[2] >= 0:
        return None
    length = np.hypot(*along[:2])
    reach = min(length * start[2] / -along[2], FARTHEST_TARGET)
    xy: XY = start[:2] + (along[:2] / length * reach if length > 0 else 0.0)
    return xy
