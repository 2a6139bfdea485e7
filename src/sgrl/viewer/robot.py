"""One body in a world that it may share with others: where it is, and how it is doing."""

from __future__ import annotations

import math
from collections import deque

import mujoco
import numpy as np
from numpy.typing import NDArray

from sgrl.envs.single import LocomotionEnv, StepTuple
from sgrl.envs.variant import REACH_DISTANCE, Variant
from sgrl.morphology import Morphology, compile_model
from sgrl.viewer.limb_colors import Color, robot_color
from sgrl.viewer.shapes import Shape, lowest_point

XY = NDArray[np.float64]
"""(2,): meters on the ground of the world."""

PUSH_SECONDS = 0.1
"""How long a push lasts."""
TRAIL_SPACING = 0.05
"""Meters between two points of a trail."""
TRAIL_POINTS = 400
SMOOTHING = 0.3
"""Seconds over which a speed is averaged."""
NEAREST_TARGET = 0.2
"""Meters; an episode does not begin with a target any nearer. It may be moved there."""


class Robot:
    """A body with a simulation of its own. Limbs can be cut from it while it runs.

    Its environment always starts at its own origin; `origin` says where that is in the world,
    so that robots stand side by side and one that fell gets up where it lies.
    """

    def __init__(
        self,
        whole: Morphology,
        home: XY,
        variant: Variant,
        seed: int,
        color: Color | None = None,
    ) -> None:
        """`home`: where it starts, and its position in a group that runs to a target."""
        self.whole = whole
        self.color = color or robot_color(whole, ())
        self.missing: frozenset[str] = frozenset()
        """Limbs of `whole` that were cut off, with all that hung on them."""
        self.home = home
        self.origin = home.copy()
        self.clock = 0.0
        """Seconds since its start."""
        self.falls = 0
        self.since_fall = math.inf
        """Seconds."""
        self.reached = 0
        """Targets; one that stays where it is counts again after the robot has left it."""
        self._variant = variant
        self._body = whole
        self._at_target = False
        self._make_env()
        self.env.reset(seed=seed)

    def _make_env(self) -> None:
        self.env = LocomotionEnv(self._body, variant=self._variant)
        self.shape = Shape(self.env.model)
        self.dt = self.env.dt
        """Seconds between two actions."""
        self._smoothing = 1 - math.exp(-self.dt / SMOOTHING)
        self._pushed_steps = 0

    @property
    def body(self) -> Morphology:
        """With the limbs that it has at the moment."""
        return self._body

    @property
    def xy(self) -> XY:
        """Where the torso is."""
        xy: XY = self.env.data.xpos[1, :2] + self.origin
        return xy

    @property
    def resting_xy(self) -> XY:
        """Where it is, or home if its simulation has blown up and it is nowhere."""
        xy = self.xy
        return xy if np.isfinite(xy).all() else self.home

    @property
    def target(self) -> XY:
        """Where it is to run."""
        target: XY = self.env.target + self.origin
        return target

    @property
    def distance(self) -> float:
        """Meters to the target."""
        return float(np.hypot(*(self.target - self.xy)))

    @property
    def is_at_target(self) -> bool:
        """Whether it is so near to the target that this counts as reached."""
        return self.distance <= REACH_DISTANCE

    @property
    def limb_actions(self) -> NDArray[np.float32]:
        """(limbs, 3): of hinges x, y, z; zeros for the torso."""
        return self._body.by_limb(self.action)

    def start(self, origin: XY, target: XY) -> None:
        """Begin an episode at `origin`, with any heading."""
        away = target - origin
        is_there = np.hypot(*away) < NEAREST_TARGET
        self.origin = origin.copy()
        self.observation, _ = self.env.reset(options=None if is_there else {"target": away})
        self._begin()
        if is_there:
            self.aim(target)

    def _begin(self) -> None:
        self.action = np.zeros(self._body.action_dim, np.float32)
        self.reward = self.total = self.speed = self.approach = 0.0
        self._at_target = False
        self._was, self._goal = self.xy, self.env.target
        self.trail: deque[XY] = deque([self._was], maxlen=TRAIL_POINTS)

    def after_step(self, action: NDArray[np.float32], stepped: StepTuple, *, roams: bool) -> bool:
        """Take note of what a step of its environment gave; whether it is still on its feet."""
        self.action = action
        self.observation, self.reward, fallen, _, info = stepped
        self.clock += self.dt
        self.since_fall += self.dt
        self.total += self.reward
        if self._pushed_steps:
            self._pushed_steps -= 1
            if not self._pushed_steps:
                self.env.data.xfrc_applied[1] = 0.0
        if info["diverged"]:
            return False
        self._look_back(info["speed_to_target"])
        goal, self._goal = self._goal, info["target"]
        if (goal != self._goal).any():
            self.reached += not self._at_target
            if not roams:
                self.aim(goal + self.origin)
                self._at_target = True
        elif info["distance"] > REACH_DISTANCE:
            self._at_target = False
        return not fallen

    def _look_back(self, approach: float) -> None:
        was, self._was = self._was, self.xy
        speed = math.dist(self._was, was) / self.dt
        self.speed += self._smoothing * (speed - self.speed)
        self.approach += self._smoothing * (approach - self.approach)
        if math.dist(self._was, self.trail[-1]) > TRAIL_SPACING:
            self.trail.append(self._was)

    def fall(self) -> None:
        """Get up where it lies, with the target that it had."""
        self.falls += 1
        self.since_fall = 0.0
        trail = self.trail
        self.start(self.resting_xy, self.target)
        self.trail = trail

    def aim(self, target: XY) -> None:
        """Move the target; one right under the torso is ignored, since it has no direction."""
        self._at_target = False
        if np.hypot(*(target - self.xy)) > 1e-3:
            self.observation = self.env.set_target(target - self.origin)
            self._goal = self.env.target

    def push(self, velocity: XY) -> None:
        """Push the torso so that the whole body gains this velocity on the ground, m/s."""
        self._pushed_steps = max(1, round(PUSH_SECONDS / self.dt))
        force = self.env.model.body_mass.sum() * velocity / (self._pushed_steps * self.dt)
        self.env.data.xfrc_applied[1, :2] = force

    def cut(self, names: frozenset[str]) -> None:
        """Have all limbs but these and what hangs on them, and go on from where it is."""
        for name in names:
            self.whole.limb(name)
        uppermost = [limb.name for limb in self.whole.limbs if limb.name in names]
        uppermost = [name for name in uppermost if self.whole.limb(name).parent not in names]
        body = self.whole.cut(*uppermost) if uppermost else self.whole
        if body.num_limbs == 1:
            raise ValueError("a torso without limbs can't move; leave it at least one")
        target = self.env.target
        qpos, qvel = self._carried_over(body)
        self._body = body
        self.missing = frozenset(self.whole.limb_names) - frozenset(body.limb_names)
        self._make_env()
        self.observation, _ = self.env.reset(options={"qpos": qpos, "qvel": qvel, "target": target})
        self.action = np.zeros(body.action_dim, np.float32)

    def _carried_over(self, body: Morphology) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions and velocities of another body in this one's stead; new limbs hang at rest."""
        qpos = np.zeros(7 + body.action_dim)
        qvel = np.zeros(6 + body.action_dim)
        data, before = self.env.data, self._body
        qpos[:7], qvel[:6] = data.qpos[:7], data.qvel[:6]
        kept = [name for name in body.limb_names if name in before.limb_names]
        new = [body.limb_names.index(name) for name in kept]
        old = [before.limb_names.index(name) for name in kept]
        for numbers, values in ((qpos[7:], data.qpos[7:]), (qvel[6:], data.qvel[6:])):
            limbs = body.by_limb(numbers)
            limbs[new] = before.by_limb(values)[old]
            numbers[:] = limbs[body.hinge_mask]
        # A limb that comes back may reach into the ground, which would throw the body up.
        model = compile_model(body)
        posed = mujoco.MjData(model)
        posed.qpos[:] = qpos
        mujoco.mj_kinematics(model, posed)
        qpos[2] -= min(0.0, lowest_point(model, posed))
        return qpos, qvel
