"""What a body is asked to do, as values: rewards, bounds, starts and targets.

What they mean is in `sgrl.envs`; here they belong to the family of a body.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST = 1e10
"""Every coordinate, velocity and angle stays below: MuJoCo takes a larger number for a simulation
that has blown up."""
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
    """Bound of every coordinate of the state but xy on the ground."""
    min_motion: float = -math.inf
    """Bound of the sum of squared velocities; less is squatting still."""


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """A row of the table of rewards: each step earns `weight * function(state)`."""

    name: str
    """What it earned is reported in `info` as `reward_<name>`."""
    function: Callable[[Any], Array]
    """Takes a `sgrl.envs.StepState` and returns (num_envs,)."""
    weight: float | Callable[[Task], float] = 1.0
    """A number, or what reads it from the task of a body."""


@dataclass(frozen=True, slots=True)
class TerminationTerm:
    """A row of the table of terminations: an episode goes on while low < function(state) < high."""

    name: str
    function: Callable[[Any], Array]
    """Takes a `sgrl.envs.StepState` and returns (num_envs,)."""
    low: float | Callable[[Health], float] = -math.inf
    """A number, or what reads it from the bounds of a body."""
    high: float | Callable[[Health], float] = math.inf


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
    normal_velocity_noise: bool = False
    """Whether it is the standard deviation of normal velocities, not the bound of uniform ones."""
    target_distance: tuple[float, float] = FAR_TARGET
    """Metres to a new target."""
    targets_follow: bool = False
    """Whether a new target is placed around the agent rather than around the origin."""
    far_episodes: float = 0.0
    """Share of episodes whose target is as far away as in v1, whatever `target_distance` says."""
    yaw: float | None = None
    """Radians; every episode starts with this yaw. None: uniform over the circle."""
    extra_rewards: tuple[RewardTerm, ...] = ()
    """Terms beside those of `sgrl.envs.terms.REWARDS`, which every task has."""
    extra_terminations: tuple[TerminationTerm, ...] = ()
    """Terms beside those of `sgrl.envs.terms.TERMINATIONS`."""

    def __post_init__(self) -> None:
        if not 0 <= self.far_episodes <= 1:
            raise ValueError(f"far_episodes is a share from 0 to 1, not {self.far_episodes}")
        if self.yaw is not None and not (
            isinstance(self.yaw, int | float | np.number) and abs(self.yaw) < LARGEST
        ):
            wrong = " ".join(repr(self.yaw).split())[:60]
            raise ValueError(
                f"yaw must be a finite angle in radians, below {LARGEST:g}, not {wrong}"
            )
