"""What a step earns and what ends an episode: two tables that every step loops over.

A row of `REWARDS` is a name, a function and a weight; a step earns the sum of `weight * function`
over the rows. A row of `TERMINATIONS` is a name, a function and two bounds; an episode goes on
while each function is between its bounds. A new term is a function and a row here, or, from
outside, a row of `Task.extra_rewards` or `Task.extra_terminations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology.task import Health, RewardTerm, Task, TerminationTerm

Array = NDArray[np.float64]

CONTROL_COST = 0.001
"""Reward that the sum of squared actions of a step costs, for each."""


@dataclass(slots=True)
class StepState:
    """What a term may read: one step of all environments, in the world frame, metres and seconds.

    Bodies with fewer limbs or hinges than the largest are padded with zeros at the end.
    """

    dt: Array
    """(num_envs,): seconds of the step."""
    action: Array
    """(num_envs, action_dim), clipped to [-1, 1]."""
    heading_before: Array
    """(2, num_envs): unit direction of the torso's x axis on the ground, before the step."""
    xy_before: Array
    """(2, num_envs): position of the torso on the ground before the step."""
    distance_before: Array
    """(num_envs,): from torso to target on the ground, before the step."""
    distance: Array
    """(num_envs,): the same after the step, to the same target."""
    position: Array
    """(3, num_envs, limbs): where the limbs are; `position[2]` is their height."""
    rotation: Array
    """(9, num_envs): the torso's rotation matrix, row by row; `rotation[0::3]` is its x axis."""
    angles: Array
    """(3, num_envs, limbs): angles of the hinges x, y and z of each limb, radians."""
    qvel: Array
    """(num_envs, 6 + action_dim): MuJoCo's velocities, of the torso and then of the hinges."""
    squared_speed: Array
    """(num_envs,): the sum of the squares of `qvel`."""
    limb_mask: NDArray[np.bool_]
    """(num_envs, limbs): which limbs are no padding."""
    uncounted_height: Array
    """(num_envs, limbs): 0 for `Health.height_limbs`, infinite for other limbs and padding."""


def alive(state: StepState) -> Array:
    """1 in every step."""
    return np.ones_like(state.distance)


def progress(state: StepState) -> Array:
    """Speed toward the target on the ground, m/s."""
    speed: Array = (state.distance_before - state.distance) / state.dt
    return speed


def forward(state: StepState) -> Array:
    """Speed along the heading before the step, m/s."""
    moved, heading = state.position[:2, :, 0] - state.xy_before, state.heading_before
    speed: Array = (moved[0] * heading[0] + moved[1] * heading[1]) / state.dt
    return speed


def control(state: StepState) -> Array:
    """The sum of squared actions."""
    effort: Array = np.add.reduce(np.square(state.action), axis=1)
    return effort


REWARDS = (
    RewardTerm("alive", alive, lambda task: task.alive_bonus),
    RewardTerm("progress", progress, 1.0),
    RewardTerm("forward", forward, lambda task: float(task.rewards_forward)),
    RewardTerm("control", control, -CONTROL_COST),
)


def lowest_height(state: StepState) -> Array:
    """Height of the lowest of `Health.height_limbs`."""
    lowest: Array = np.minimum.reduce(state.position[2] + state.uncounted_height, axis=1)
    return lowest


def torso_height(state: StepState) -> Array:
    """Height of the torso's frame."""
    return state.position[2, :, 0]


def sine_of_pitch(state: StepState) -> Array:
    """Minus the height of the tip of the torso's x axis; it stands for the pitch."""
    plane: Array = state.rotation[6]
    return plane


def cosine_of_tilt(state: StepState) -> Array:
    """Height of the tip of the torso's z axis; it stands for the angle to the vertical."""
    plane: Array = state.rotation[8]
    return plane


def roll(state: StepState) -> Array:
    """Roll of the torso, radians."""
    angle: Array = np.arctan2(state.rotation[7], state.rotation[8])
    return angle


def motion(state: StepState) -> Array:
    """The sum of squared velocities."""
    return state.squared_speed


def size(state: StepState) -> Array:
    """The largest number of the state but xy on the ground."""
    angles = np.maximum.reduce(np.abs(state.angles), axis=(0, 2))
    speeds = np.maximum.reduce(np.abs(state.qvel), axis=1)
    largest: Array = np.maximum(speeds, np.maximum(angles, state.position[2, :, 0]))
    return largest


def _max_sine(health: Health) -> float:
    return math.sin(health.max_pitch) if health.max_pitch < math.pi / 2 else math.inf


def _min_cosine(health: Health) -> float:
    return math.cos(health.max_tilt) if health.max_tilt < math.pi else -math.inf


TERMINATIONS = (
    TerminationTerm("low", lowest_height, low=lambda health: health.min_height),
    TerminationTerm("high", torso_height, high=lambda health: health.max_height),
    TerminationTerm("pitch", sine_of_pitch, lambda health: -_max_sine(health), _max_sine),
    TerminationTerm("tilt", cosine_of_tilt, low=_min_cosine),
    TerminationTerm("roll", roll, lambda health: -health.max_roll, lambda health: health.max_roll),
    TerminationTerm("still", motion, low=lambda health: health.min_motion),
    TerminationTerm("size", size, high=lambda health: health.max_size),
)


@dataclass(frozen=True, slots=True)
class Reward:
    """A row of the table of rewards, for all environments of a mix."""

    name: str
    function: Callable[[StepState], Array]
    weight: Array
    """(num_envs,), 0 where the task of an environment has no such term."""


@dataclass(frozen=True, slots=True)
class Termination:
    """A row of the table of terminations, for all environments of a mix."""

    function: Callable[[StepState], Array]
    low: Array
    """(num_envs,), infinite where the task of an environment has no such term."""
    high: Array


def reward_rows(tasks: Sequence[Task], counts: Sequence[int]) -> list[Reward]:
    """The rows of these tasks, each with the number of its environments."""
    rows = []
    for name, terms in _by_name(REWARDS, [task.extra_rewards for task in tasks]).items():
        pairs = zip(terms, tasks, strict=True)
        weights = [0.0 if term is None else _number(term.weight, task) for term, task in pairs]
        rows.append(Reward(name, _function(name, terms), np.repeat(weights, counts)))
    return rows


def termination_rows(tasks: Sequence[Task], counts: Sequence[int]) -> list[Termination]:
    """The rows of these tasks, each with the number of its environments, but those that can't end
    an episode."""
    rows = []
    for name, terms in _by_name(TERMINATIONS, [task.extra_terminations for task in tasks]).items():
        bounds = [
            (-math.inf, math.inf)
            if term is None
            else (_number(term.low, task.health), _number(term.high, task.health))
            for term, task in zip(terms, tasks, strict=True)
        ]
        if np.isfinite(bounds).any():
            low, high = np.repeat(np.array(bounds).T, counts, axis=1)
            rows.append(Termination(_function(name, terms), low, high))
    return rows


Term = TypeVar("Term", RewardTerm, TerminationTerm)
Source = TypeVar("Source", Task, Health)


def _by_name(
    table: Sequence[Term], extras: Sequence[Sequence[Term]]
) -> dict[str, list[Term | None]]:
    """The rows of the table and of each task by name; None for a task that has no such row."""
    rows: dict[str, list[Term | None]] = {term.name: [term] * len(extras) for term in table}
    for index, terms in enumerate(extras):
        for term in terms:
            row = rows.setdefault(term.name, [None] * len(extras))
            if row[index] is not None:
                raise ValueError(f"there is a term {term.name!r} already; give yours another name")
            row[index] = term
    return rows


def _function(name: str, terms: Sequence[Term | None]) -> Callable[[StepState], Array]:
    functions = {term.function for term in terms if term is not None}
    if len(functions) > 1:
        raise ValueError(f"the term {name!r} is another function for another body of the mix")
    return functions.pop()


def _number(value: float | Callable[[Source], float], source: Source) -> float:
    return float(value(source) if callable(value) else value)
