"""The task for many environments of one or several bodies at once, as array operations.

`Locomotion` starts episodes, observes, rewards and decides when an episode ends. It does not step
physics: its `kinematics` are read from whoever does, so that the single environment and the vector
environment are the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.disturbances import Disturbances, fill_levels
from sgrl.envs.kinematics import Flags, Kinematics, Part, Rows
from sgrl.envs.options import Start
from sgrl.envs.streams import Streams, to_normal
from sgrl.envs.terms import Array, StepState, reward_rows, termination_rows
from sgrl.envs.variant import REACH_DISTANCE
from sgrl.morphology import Morphology
from sgrl.morphology.task import FAR_TARGET, Task


@dataclass(slots=True)
class StepResult:
    """What one step gave, (num_envs,) each."""

    reward: Array
    terminated: Flags
    diverged: Flags
    """Simulations that blew up: terminated, with a reward of 0 and an observation of zeros."""
    info: dict[str, NDArray[Any]]


class Locomotion:
    """Episodes of all environments: where their targets are, what they see, what they earn."""

    def __init__(
        self, bodies: Sequence[tuple[Morphology, Task, int]], levels: Array | None = None
    ) -> None:
        """`bodies` lists (body, task, num_envs); `levels` (num_envs, 6) of disturbances."""
        self.parts: list[Part] = []
        num_envs = 0
        for body, task, count in bodies:
            self.parts.append(Part(body, task, num_envs, num_envs + count))
            num_envs += count
        self.num_envs = num_envs
        self.max_limbs = max(part.body.num_limbs for part in self.parts)
        self.max_action_dim = max(part.body.action_dim for part in self.parts)
        self.kinematics = Kinematics(self.parts)
        counts = [part.num_envs for part in self.parts]
        self.body_index = np.repeat(np.arange(len(self.parts)), counts)
        self._padding = ~self.kinematics.limb_mask
        self._is_padded = bool(self._padding.any())

        # A start draws yaw and target (3), qpos and, for normal numbers, twice qvel.
        self.streams = Streams(num_envs, longest=22 + 3 * self.max_action_dim)
        self.target = np.zeros((num_envs, 2))
        self.distance = np.zeros(num_envs)
        self.targets_reached = np.zeros(num_envs, np.int64)
        self._levels = levels
        self.disturbances: Disturbances | None = None
        """None where nothing disturbs."""

        self._uncounted_height = np.full((num_envs, self.max_limbs), np.inf)
        for part in self.parts:
            counted = [part.body.limb_names.index(n) for n in part.task.health.height_limbs]
            self._uncounted_height[part.rows, counted] = 0.0
        tasks = [part.task for part in self.parts]
        self._rewards = reward_rows(tasks, counts)
        self._terminations = termination_rows(tasks, counts)

        def per_env(value: Callable[[Part], float]) -> Array:
            return np.repeat([float(value(part)) for part in self.parts], counts)

        self._dt = per_env(lambda part: part.body.dt)
        self._nearest = per_env(lambda part: part.task.target_distance[0])
        self._farthest = per_env(lambda part: part.task.target_distance[1])
        self._follow = per_env(lambda part: part.task.targets_follow)
        self._far_episodes = per_env(lambda part: part.task.far_episodes)

    def reset(self, index: int, local: Rows, start: Start) -> None:
        """Write the start of new episodes into the physics of these rows of part `index`.

        The caller then computes positions and velocities and calls `kinematics.read`.
        """
        part, (qpos_out, qvel_out) = self.parts[index], self.kinematics.states[index]
        rows, task = part.start + local, part.task
        nq, nv = qpos_out.shape[1], qvel_out.shape[1]

        self._reset_disturbances(rows, start.levels)
        # Drawn even where the start is given, so that options leave the stream as it is.
        normal = task.normal_velocity_noise
        draws = self.streams.uniform(rows, 3 + nq + (2 if normal else 1) * nv)
        half_yaw = np.pi * draws[:, 0]
        qpos = task.position_noise * (2 * draws[:, 3 : 3 + nq] - 1)
        first, second = draws[:, 3 + nq : 3 + nq + nv], draws[:, 3 + nq + nv :]
        qvel = task.velocity_noise * (to_normal(first, second) if normal else 2 * first - 1)

        if start.yaw is not None:
            half_yaw = start.yaw[rows] / 2
        elif task.yaw is not None:
            half_yaw[:] = task.yaw / 2
        qpos[:, 2] += part.body.torso_height
        qpos[:, 3] += np.cos(half_yaw)
        qpos[:, 6] += np.sin(half_yaw)
        qpos[:, 3:7] /= np.sqrt(np.square(qpos[:, 3:7]).sum(axis=1, keepdims=True))
        if start.qpos is not None:
            qpos = start.qpos[rows]
        if start.qvel is not None:
            qvel = start.qvel[rows]
        qpos_out[local] = qpos
        qvel_out[local] = qvel
        self.targets_reached[rows] = 0
        self._place_targets(rows, draws[:, 1:3], qpos[:, :2], self._far_episodes[rows])
        if start.target is not None:
            self.target[rows] = start.target[rows]
            offset = self.target[rows] - qpos[:, :2]
            self.distance[rows] = np.hypot(offset[:, 0], offset[:, 1])

    def _reset_disturbances(self, rows: Rows, levels: Array | None) -> None:
        """Disturbances of new episodes; a level that is NaN is that of `__init__`."""
        if self.disturbances is None:
            if levels is None and self._levels is None:
                return
            self.disturbances = self._no_disturbances()
        fresh = fill_levels(levels, self._levels, rows)
        keys, counters = self.streams.keys[rows], self.streams.counters[rows]
        self.disturbances.reset(rows, fresh, keys, counters == 0)

    def _no_disturbances(self) -> Disturbances:
        return Disturbances(self.num_envs, self.max_limbs, self.max_action_dim)

    def motors(self, actions: Array, waited: Flags | None = None) -> tuple[Array, Rows]:
        """What motors do in the coming step, after any pushes; and who was pushed.

        Of those the caller computes velocities anew where physics does not by itself.
        """
        if self.disturbances is None:
            return actions, np.zeros(0, np.intp)
        actions = self.disturbances.step(actions, waited)
        rows, velocity = self.disturbances.pushed(self._dt, waited)
        for part, (_, qvel) in zip(self.parts, self.kinematics.states, strict=True):
            here = (rows >= part.start) & (rows < part.stop)
            qvel[rows[here] - part.start, :2] += velocity[here]
        return actions, rows

    def _place_targets(
        self, rows: Rows, draws: Array, xy: Array, far_share: Array | float = 0.0
    ) -> None:
        """New targets for agents at `xy`, both (rows, 2), from uniform `draws`.

        The lowest `far_share` of the second draw means far away, the rest is a distance.
        """
        angle = 2 * np.pi * draws[:, 0]
        nearest, is_far = self._nearest[rows], draws[:, 1] < far_share
        part = (draws[:, 1] - far_share) / np.maximum(1.0 - far_share, 1e-9)
        reach = nearest + (self._farthest[rows] - nearest) * part
        reach[is_far] = FAR_TARGET[0]
        offset = np.array([reach * np.cos(angle), reach * np.sin(angle)])
        offset -= (1.0 - self._follow[rows]) * xy.T
        self.target[rows] = xy + offset.T
        self.distance[rows] = np.hypot(offset[0], offset[1])

    def compute_rewards(
        self,
        action: Array,
        before: tuple[Array, Array],
        diverged: Flags,
        waited: Flags | None = None,
    ) -> StepResult:
        """Rewards and ends of the step that physics has just taken from `before`.

        `action` is clipped, (num_envs, action_dim); `diverged` are those whose physics gave up.
        Those that `waited` did not step, earn nothing and go on.
        """
        moved = self.kinematics
        squared_speed = np.add.reduce(np.square(moved.qvel), axis=1)
        any_diverged = bool(diverged.any()) or not math.isfinite(np.add.reduce(squared_speed))
        if any_diverged:
            diverged = diverged | ~np.isfinite(squared_speed)
            moved.zero(diverged)
        heading, xy_before = before
        distance_before = self.distance.copy()
        xy = moved.xpos[:2, :, 0]
        offset = self.target.T - xy
        np.hypot(offset[0], offset[1], out=self.distance)
        state = StepState(
            dt=self._dt,
            action=action,
            heading_before=heading,
            xy_before=xy_before,
            distance_before=distance_before,
            distance=self.distance,
            position=moved.xpos,
            rotation=moved.rotation,
            angles=moved.angles,
            qvel=moved.qvel,
            squared_speed=squared_speed,
            limb_mask=moved.limb_mask,
            uncounted_height=self._uncounted_height,
        )
        reward = np.zeros(self.num_envs)
        info: dict[str, NDArray[Any]] = {}
        for row in self._rewards:
            earned = row.weight * row.function(state)
            if any_diverged:
                earned[diverged] = 0.0
            if waited is not None:
                earned[waited] = 0.0
            reward += earned
            info[f"reward_{row.name}"] = earned
        terminated = diverged.copy()
        for bound in self._terminations:
            value = bound.function(state)
            terminated |= ~((value > bound.low) & (value < bound.high))
        if waited is not None:
            terminated &= ~waited

        if np.minimum.reduce(self.distance) < REACH_DISTANCE:
            stepped = ~diverged if waited is None else ~(diverged | waited)
            rows = np.flatnonzero((self.distance < REACH_DISTANCE) & stepped)
            self.targets_reached[rows] += 1
            self._place_targets(rows, self.streams.uniform(rows, 2), xy[:, rows].T)
        info["speed_to_target"] = info["reward_progress"]
        info["diverged"] = diverged
        info |= self.target_info()
        return StepResult(reward, terminated, diverged, info)

    def target_info(self) -> dict[str, NDArray[Any]]:
        """Targets and the distance to them, metres on the ground."""
        return {
            "distance": self.distance.copy(),
            "target": self.target.copy(),
            "targets_reached": self.targets_reached.copy(),
        }

    def observe(self, out: NDArray[np.float32], rows: Rows | slice = slice(None)) -> None:
        """Write the observations of these environments to `out`, (rows, limbs, 41)."""
        self.kinematics.observe(out, rows, self.target[rows], self.distance[rows])
        if self.disturbances is not None:
            chosen = np.arange(self.num_envs)[rows]
            self.disturbances.add_noise(out, chosen, self.kinematics.angle_slope[:, rows])
        if self._is_padded:
            out[self._padding[rows]] = 0.0

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything but physics, in arrays of the caller's own."""
        return {
            **self.target_info(),
            "stream_keys": self.streams.keys.copy(),
            "stream_counters": self.streams.counters.copy(),
            **({} if self.disturbances is None else self.disturbances.state_dict()),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what `state_dict` gave."""
        self.target[:] = state["target"]
        self.distance[:] = state["distance"]
        self.targets_reached[:] = state["targets_reached"]
        self.streams.restore(
            np.arange(self.num_envs), state["stream_keys"], state["stream_counters"]
        )
        self.expect(state)
        if self.disturbances is not None:
            self.disturbances.load_state_dict(state)

    def expect(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Have disturbances if this state has some, and else none."""
        if ("levels" in state) != (self.disturbances is not None):
            self.disturbances = self._no_disturbances() if "levels" in state else None
