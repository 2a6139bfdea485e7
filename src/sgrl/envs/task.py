"""What a body is asked to do: run to a target on the ground without falling over.

Facts of the four families, reward terms as small functions of arrays, and `task_for`,
which fits the task to a body, one of the paper's or one of your own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology import MIRRORED, Morphology

Array = NDArray[np.float64]
Variant = Literal["v1", "v2", "mixed"]

PHYSICS_STEPS = 4
"""Physics steps per environment step."""
CONTROL_COST = 0.001
REACH_DISTANCE = 1.0
"""Metres on the ground at which a target counts as reached."""
MAX_EPISODE_STEPS = 1000
FAR_TARGET = (10_000.0, 10_000.0)
"""Metres; v1: so far that its direction never changes."""
NEAR_TARGET = (10.0, 20.0)
"""Metres; v2: reached within an episode, again and again."""


@dataclass(frozen=True, slots=True)
class Health:
    """Bounds; a body outside any of them has fallen, and its episode ends."""

    min_height: float
    """Metres, for the lowest of `height_limbs`."""
    height_limbs: tuple[str, ...] = ("torso",)
    max_height: float = math.inf
    """Metres, for the torso."""
    max_pitch: float = math.inf
    """Radians, up or down, of the torso."""
    max_roll: float = math.inf
    """Radians, to either side, of the torso."""
    max_tilt: float = math.inf
    """Radians between the torso's z axis and the vertical."""
    max_size: float = math.inf
    """For every coordinate of the state but the place on the ground."""
    min_motion: float = -math.inf
    """For the sum of squared velocities; less is squatting still."""


@dataclass(frozen=True, slots=True)
class Task:
    """Rewards, bounds, starts and targets."""

    alive_bonus: float
    rewards_forward: bool
    """Whether moving along the torso's own heading is rewarded too."""
    health: Health
    position_noise: float
    """Every position coordinate starts within this much of its rest, uniformly."""
    velocity_noise: float
    normal_velocity_noise: bool
    """Whether velocities start normal with that spread rather than uniform within it."""
    target_distance: tuple[float, float]
    """Metres to a new target."""
    targets_follow: bool
    """Whether a new target is placed around the agent rather than around the origin."""
    far_episodes: float = 0.0
    """Share of episodes whose target is as far away as in v1, whatever `target_distance` says."""
    yaw: float | None = None
    """Radians; every episode starts so turned. None: uniform over the circle."""

    def __post_init__(self) -> None:
        if not 0 <= self.far_episodes <= 1:
            raise ValueError(f"far_episodes is a share from 0 to 1, not {self.far_episodes}")
        if self.yaw is not None and not math.isfinite(self.yaw):
            raise ValueError(f"yaw must be a finite angle in radians, not {self.yaw}")


def fit_task(
    body: Morphology, task: Task | None, variant: Variant = "v1", yaw: float | None = None
) -> Task:
    """`task`, checked to fit the body, or the paper's if there is none."""
    if task is None:
        task = task_for(body, variant, yaw)
    elif yaw is not None:
        raise ValueError("give the yaw as a field of the task, not beside it")
    for limb in task.health.height_limbs:
        body.limb(limb)
    return task


def task_for(body: Morphology, variant: Variant = "v1", yaw: float | None = None) -> Task:
    """The paper's task for a body: its family's, with the bounds that fit its legs."""
    if body.family not in _HEALTH:
        raise ValueError(
            f"{body.name}: no task is known for the family {body.family!r}; give a Task, or "
            f"a family among {', '.join(_HEALTH)}"
        )
    if variant not in get_args(Variant):
        raise ValueError(
            f"unknown variant {variant!r}; there are v1 (far targets), v2 (near) and mixed "
            "(episodes of both)"
        )
    cheetah = body.family == "cheetah"
    return Task(
        alive_bonus=0.0 if cheetah else 1.0,
        rewards_forward=body.family != "hopper",
        health=_HEALTH[body.family](body),
        position_noise=0.1 if cheetah else 0.005,
        velocity_noise=0.1 if cheetah else 0.005,
        normal_velocity_noise=cheetah,
        target_distance=FAR_TARGET if variant == "v1" else NEAR_TARGET,
        targets_follow=variant != "v1",
        far_episodes=0.5 if variant == "mixed" else 0.0,
        yaw=yaw,
    )


def _hopper_health(body: Morphology) -> Health:
    # By links left in the leg; a leg of any other length falls when it is half down.
    height = {3: 0.45, 4: 0.60, 5: 0.95}.get(body.num_limbs, 0.5 * body.torso_height)
    return Health(min_height=height, max_tilt=1.0, max_size=100.0)


def _walker_health(body: Morphology) -> Health:
    # By knees left. The published bounds follow this rule with one exception.
    shins = sum(limb.type == "shin" for limb in body.limbs)
    low, high = {0: (0.54, 1.74), 1: (0.664, 2.0)}.get(shins, (0.8, 2.0))
    if body.name.removesuffix(MIRRORED) == "3d_walker_4_right_knee_left_foot":
        high = 1.864
    return Health(min_height=low, max_height=high, max_pitch=1.0, max_roll=1.0)


def _humanoid_health(body: Morphology) -> Health:
    return Health(min_height=0.834625, max_height=1.834625, max_pitch=1.0, max_roll=1.0)


def _cheetah_health(body: Morphology) -> Health:
    front = tuple(name for name in body.limb_names if name.endswith("_fthigh"))
    return Health(
        min_height=0.26,
        height_limbs=("torso", *front),
        max_pitch=1.35,
        max_roll=1.35,
        min_motion=1.0,
    )


_HEALTH = {
    "hopper": _hopper_health,
    "walker": _walker_health,
    "humanoid": _humanoid_health,
    "cheetah": _cheetah_health,
}


def progress_reward(distance_before: Array, distance_after: Array, dt: Array) -> Array:
    """Speed toward the target on the ground plane, m/s. (copies,)"""
    speed: Array = (distance_before - distance_after) / dt
    return speed


def forward_reward(moved: Array, heading: Array, dt: Array) -> Array:
    """Speed along the heading before the step, m/s. `moved` and `heading` are (2, copies)."""
    speed: Array = (moved[0] * heading[0] + moved[1] * heading[1]) / dt
    return speed


def control_reward(action: Array) -> Array:
    """Minus the cost of the (clipped) action (copies, motors)."""
    effort: Array = np.add.reduce(np.square(action), axis=1)
    return -CONTROL_COST * effort
