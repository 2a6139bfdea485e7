"""The task for many environments of one or several bodies at once, as array operations.

`Locomotion` starts episodes, observes, rewards and decides when an episode ends. It does
not step physics: each part of it (the environments of one body) reads the arrays of
whoever does, a `mujoco.MjData` or a `mujoco.batch.Batch`, so that the single environment and the
vector environment are the same code. Bodies with fewer limbs than the largest are padded
with zeros. Everything is in the world frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs import observation as layout
from sgrl.envs.disturbances import Disturbances, fill_levels
from sgrl.envs.options import Start
from sgrl.envs.streams import Streams, to_normal
from sgrl.envs.task import REACH_DISTANCE
from sgrl.envs.terms import Array, StepState, reward_rows, termination_rows
from sgrl.morphology import Morphology
from sgrl.morphology.task import FAR_TARGET, Task

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

PHYSICS_FIELDS = ("qpos", "qvel", "xpos", "xmat", "cvel", "subtree_com", "xaxis")
"""What the task reads of MuJoCo's state; each array has a leading dimension of environments."""


@dataclass(frozen=True, slots=True)
class Part:
    """The environments of one body: rows `start` to `stop` of everything."""

    body: Morphology
    task: Task
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def num_envs(self) -> int:
        return self.stop - self.start


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
        self.max_limbs = limbs = max(part.body.num_limbs for part in self.parts)
        self.max_action_dim = max(part.body.action_dim for part in self.parts)
        self.limb_mask = np.zeros((num_envs, limbs), np.bool_)
        self.body_index = np.zeros(num_envs, np.intp)

        # A start draws yaw and target (3), qpos and, for normal numbers, twice qvel.
        self.streams = Streams(num_envs, longest=22 + 3 * self.max_action_dim)
        self.target = np.zeros((num_envs, 2))
        self.distance = np.zeros(num_envs)
        self.targets_reached = np.zeros(num_envs, np.int64)
        self._levels = levels
        self.disturbances: Disturbances | None = None
        """None where nothing disturbs."""

        # Physics of all of them side by side, filled by `read`. Coordinates come first, so that
        # each is one contiguous plane (num_envs, limbs). Planes of `_twist`: angular velocity y and
        # z, then MuJoCo's cvel, which is angular x, y, z and linear x, y, z; with y and z before
        # x, a cross product is two products of slices.
        self._xpos = np.zeros((3, num_envs, limbs))
        self._com = np.zeros((3, num_envs, 1))
        self._twist = np.zeros((8, num_envs, limbs))
        self._rotation = np.zeros((9, num_envs))
        self._qvel = np.zeros((num_envs, 6 + self.max_action_dim))
        self._transfers: list[list[tuple[Array, Array]]] = [[] for _ in self.parts]
        self._states: list[tuple[Array, Array]] = []

        # The observation in double precision, plane by plane; what never changes is filled here.
        self._planes = np.zeros((layout.FEATURES, num_envs, limbs))
        self._angle_slope = np.zeros((3, num_envs, limbs))
        self._angle_offset = np.zeros((3, num_envs, limbs))
        self._uncounted_height = np.full((num_envs, limbs), np.inf)
        for index, part in enumerate(self.parts):
            body, rows, count = part.body, part.rows, part.body.num_limbs
            self.limb_mask[rows, :count] = True
            self.body_index[rows] = index
            self._planes[:, rows, :count] = layout.constant_part(body).T[:, None]
            slope, offset = layout.angle_scale(body)
            self._angle_slope[:, rows, :count] = slope.T[:, None]
            self._angle_offset[:, rows, :count] = offset.T[:, None]
            counted = [body.limb_names.index(name) for name in part.task.health.height_limbs]
            self._uncounted_height[rows, counted] = 0.0
        self._padding = ~self.limb_mask
        self._is_padded = bool(self._padding.any())

        tasks = [part.task for part in self.parts]
        counts = [part.num_envs for part in self.parts]
        self._rewards = reward_rows(tasks, counts)
        self._terminations = termination_rows(tasks, counts)

        def per_env(value: Callable[[Part], float]) -> Array:
            return np.repeat([float(value(part)) for part in self.parts], counts)

        self._dt = per_env(lambda part: part.body.dt)
        self._nearest = per_env(lambda part: part.task.target_distance[0])
        self._farthest = per_env(lambda part: part.task.target_distance[1])
        self._follow = per_env(lambda part: part.task.targets_follow)
        self._far_episodes = per_env(lambda part: part.task.far_episodes)

    def connect(self, fields: Sequence[Mapping[str, Array]]) -> None:
        """Take the live physics arrays of each part, one for each of `PHYSICS_FIELDS`."""
        self._transfers.clear()
        self._states.clear()
        for part, own in zip(self.parts, fields, strict=True):
            rows, limbs = part.rows, part.body.num_limbs
            self._states.append((own["qpos"], own["qvel"]))
            self._transfers.append(
                [
                    (self._xpos[:, rows, :limbs], _planes(own["xpos"][:, 1:])),
                    (self._com[:, rows, 0], own["subtree_com"][:, 1].T),
                    (self._twist[2:, rows, :limbs], _planes(own["cvel"][:, 1:])),
                    (self._rotation[:, rows], own["xmat"][:, 1].T),
                    (self._qvel[rows, : own["qvel"].shape[1]], own["qvel"]),
                    *self._hinge_transfers(part, own["xaxis"][:, 1:], own["qpos"][:, 7:]),
                ]
            )

    def _hinge_transfers(self, part: Part, axes: Array, angles: Array) -> list[tuple[Array, Array]]:
        """Where axes (num_envs, hinges, 3) and angles (num_envs, hinges) go."""
        rows, mask = part.rows, part.body.hinge_mask
        axis_planes, angle_planes = (
            self._planes[layout.AXES, rows],
            self._planes[layout.ANGLES, rows],
        )
        if mask[1:].all():
            shape = (part.num_envs, part.body.num_limbs - 1)
            limbs = slice(1, part.body.num_limbs)
            return [
                (axis_planes[:, :, limbs], _planes(axes.reshape(*shape, 9))),
                (angle_planes[:, :, limbs], _planes(angles.reshape(*shape, 3))),
            ]
        transfers = []
        for hinge, (limb, slot) in enumerate(np.argwhere(mask)):
            axis = axis_planes[3 * slot : 3 * slot + 3, :, limb]
            transfers.append((axis, axes[:, hinge].T))
            transfers.append((angle_planes[slot, :, limb], angles[:, hinge]))
        return transfers

    def read(self, index: int) -> None:
        """Copy the present physics of part `index`."""
        for ours, theirs in self._transfers[index]:
            np.copyto(ours, theirs)

    def reset(self, index: int, local: Rows, start: Start) -> None:
        """Write the start of new episodes into the physics of these rows of part `index`.

        The caller then computes positions and velocities and calls `read`.
        """
        part, (qpos_out, qvel_out) = self.parts[index], self._states[index]
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
        for part, (_, qvel) in zip(self.parts, self._states, strict=True):
            own = (rows >= part.start) & (rows < part.stop)
            qvel[rows[own] - part.start, :2] += velocity[own]
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

    def heading_and_xy(self) -> tuple[Array, Array]:
        """Unit heading and xy on the ground of all torsos, (2, num_envs) each."""
        heading = self._rotation[0:4:3]
        length = np.hypot(heading[0], heading[1])
        return heading / np.maximum(length, 1e-12), self._xpos[:2, :, 0].copy()

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
        squared_speed = np.add.reduce(np.square(self._qvel), axis=1)
        any_diverged = bool(diverged.any()) or not math.isfinite(np.add.reduce(squared_speed))
        if any_diverged:
            diverged = diverged | ~np.isfinite(squared_speed)
            self._forget(diverged)
        heading, xy_before = before
        distance_before = self.distance.copy()
        xy = self._xpos[:2, :, 0]
        offset = self.target.T - xy
        np.hypot(offset[0], offset[1], out=self.distance)
        state = StepState(
            dt=self._dt,
            action=action,
            heading_before=heading,
            xy_before=xy_before,
            distance_before=distance_before,
            distance=self.distance,
            position=self._xpos,
            rotation=self._rotation,
            angles=self._planes[layout.ANGLES],
            qvel=self._qvel,
            squared_speed=squared_speed,
            limb_mask=self.limb_mask,
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

    def _forget(self, rows: Flags) -> None:
        """Zero the physics of those that have none, so that no NaN reaches the arithmetic."""
        for planes in (self._xpos, self._com, self._twist, self._rotation):
            planes[:, rows] = 0.0
        for part in (layout.AXES, layout.ANGLES):
            self._planes[part, rows] = 0.0
        self._qvel[rows] = 0.0

    def target_info(self) -> dict[str, NDArray[Any]]:
        """Targets and the distance to them, metres on the ground."""
        return {
            "distance": self.distance.copy(),
            "target": self.target.copy(),
            "targets_reached": self.targets_reached.copy(),
        }

    def observe(self, out: NDArray[np.float32], rows: Rows | slice = slice(None)) -> None:
        """Write the observations of these environments to `out`, (rows, limbs, 41)."""
        planes, xpos, twist = self._planes[:, rows], self._xpos[:, rows], self._twist[:, rows]
        velocities = planes[layout.VELOCITIES].reshape(2, 3, *planes.shape[1:])
        # MuJoCo's linear velocity is that at the body's center of mass; move it to each origin.
        arm = np.empty((5, *planes.shape[1:]))
        np.subtract(xpos, self._com[:, rows], out=arm[2:])
        arm[:2] = arm[3:]
        twist[:2] = twist[3:5]
        cross = twist[:3] * arm[1:4] - twist[1:4] * arm[:3]
        np.add(twist[5:], cross, out=velocities[0])
        velocities[1] = twist[2:5]
        speeds = np.sqrt(np.add.reduce(np.square(velocities), axis=1, keepdims=True))
        velocities *= layout.MAX_SPEED / np.maximum(speeds, layout.MAX_SPEED)

        torso = xpos[:, :, :1]
        offset = self.target[rows].T - torso[:2, :, 0]
        direction = offset / np.maximum(self.distance[rows], 1e-9)
        np.subtract(xpos, torso, out=planes[layout.POSITION])
        planes[layout.TARGET][:2] = direction[:, :, None]
        scaled = planes[layout.SCALED_ANGLES]
        np.multiply(planes[layout.ANGLES], self._angle_slope[:, rows], out=scaled)
        scaled += self._angle_offset[:, rows]
        planes[layout.HEIGHT] = xpos[2]
        out[...] = planes.transpose(1, 2, 0)
        if self.disturbances is not None:
            chosen = np.arange(self.num_envs)[rows]
            self.disturbances.add_noise(out, chosen, self._angle_slope[:, rows])
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


def _planes(array: Array) -> Array:
    """A view with the last dimension first."""
    return array.transpose(2, 0, 1)
