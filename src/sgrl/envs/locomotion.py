"""The task for many copies of one or several bodies at once, as array operations.

`Locomotion` starts episodes, observes, rewards and decides when an episode ends. It does
not step physics: each part of it (the copies of one body) reads the arrays of whoever
does, a `mujoco.MjData` or a `mujoco.batch.Batch`, so that the single environment and the
vector environment are the same code. Bodies with fewer limbs than the largest are padded
with zeros. Everything is in the world frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs import observation as layout
from sgrl.envs.options import Start
from sgrl.envs.streams import Streams, to_normal
from sgrl.envs.task import (
    PHYSICS_STEPS,
    REACH_DISTANCE,
    Array,
    Task,
    control_reward,
    forward_reward,
    progress_reward,
)
from sgrl.morphology import Morphology

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

PHYSICS_FIELDS = ("qpos", "qvel", "xpos", "xmat", "cvel", "subtree_com", "xaxis")
"""What the task reads of MuJoCo's state; each array has a leading dimension of copies."""


@dataclass(frozen=True, slots=True)
class Part:
    """The copies of one body: rows `start` to `stop` of everything."""

    body: Morphology
    task: Task
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def copies(self) -> int:
        return self.stop - self.start


@dataclass(slots=True)
class Outcome:
    """What one step gave, (copies,) each."""

    reward: Array
    terminated: Flags
    diverged: Flags
    """Simulations that blew up: terminated, with a reward of 0, and no state to observe."""
    info: dict[str, NDArray[Any]]


class Locomotion:
    """Episodes of all copies: where their targets are, what they see, what they earn."""

    def __init__(self, bodies: Sequence[tuple[Morphology, Task, int]]) -> None:
        """`bodies` lists (body, task, copies)."""
        self.parts: list[Part] = []
        copies = 0
        for body, task, count in bodies:
            self.parts.append(Part(body, task, copies, copies + count))
            copies += count
        self.copies = copies
        self.max_limbs = limbs = max(part.body.num_limbs for part in self.parts)
        self.limb_mask = np.zeros((copies, limbs), np.bool_)
        self.body_index = np.zeros(copies, np.intp)

        self.streams = Streams(copies)
        self.target = np.zeros((copies, 2))
        self.distance = np.zeros(copies)
        self.targets_reached = np.zeros(copies, np.int64)

        # Physics of all copies side by side, filled by `read`. Coordinates come first, so that
        # each is one contiguous plane (copies, limbs).
        self._xpos = np.zeros((3, copies, limbs))
        self._cvel = np.zeros((6, copies, limbs))
        self._com = np.zeros((3, copies, 1))
        self._axes = np.zeros((copies, limbs, 9))
        self._angles = np.zeros((copies, limbs, 3))
        self._rotation = np.zeros((9, copies))
        self._qvel = np.zeros((copies, 6 + 3 * (limbs - 1)))
        self._transfers: list[list[tuple[Array, Array]]] = [[] for _ in self.parts]
        self._states: list[tuple[Array, Array]] = []

        self._constant = np.zeros((copies, limbs, layout.FEATURES), np.float32)
        self._angle_slope = np.zeros((copies, limbs, 3))
        self._angle_offset = np.zeros((copies, limbs, 3))
        self._ignored_height = np.full((copies, limbs), np.inf)
        for index, part in enumerate(self.parts):
            body, rows, count = part.body, part.rows, part.body.num_limbs
            self.limb_mask[rows, :count] = True
            self.body_index[rows] = index
            self._constant[rows, :count] = layout.constant_part(body)
            slope, offset = layout.angle_scale(body)
            self._angle_slope[rows, :count] = slope
            self._angle_offset[rows, :count] = offset
            counted = [body.limb_names.index(name) for name in part.task.health.height_limbs]
            self._ignored_height[rows, counted] = 0.0
        self._padding = ~self.limb_mask
        self._is_padded = bool(self._padding.any())

        def per_copy(value: Callable[[Part], float]) -> Array:
            return np.repeat(
                [float(value(part)) for part in self.parts], [part.copies for part in self.parts]
            )

        self._dt = per_copy(lambda part: part.body.physics.timestep * PHYSICS_STEPS)
        self._alive_bonus = per_copy(lambda part: part.task.alive_bonus)
        self._forward = per_copy(lambda part: part.task.rewards_forward)
        self._nearest = per_copy(lambda part: part.task.target_distance[0])
        self._farthest = per_copy(lambda part: part.task.target_distance[1])
        self._follow = per_copy(lambda part: part.task.targets_follow)
        self._min_height = per_copy(lambda part: part.task.health.min_height)
        self._max_height = per_copy(lambda part: part.task.health.max_height)
        self._max_pitch = per_copy(lambda part: part.task.health.max_pitch)
        self._max_roll = per_copy(lambda part: part.task.health.max_roll)
        self._max_tilt = per_copy(lambda part: part.task.health.max_tilt)
        self._max_size = per_copy(lambda part: part.task.health.max_size)
        self._min_motion = per_copy(lambda part: part.task.health.min_motion)
        self._size_matters = bool(np.isfinite(self._max_size).any())

    def connect(self, fields: Sequence[Mapping[str, Array]]) -> None:
        """Take the live physics arrays of each part, one for each of `PHYSICS_FIELDS`."""
        self._transfers.clear()
        self._states.clear()
        for part, own in zip(self.parts, fields, strict=True):
            rows, limbs = part.rows, part.body.num_limbs
            joints = (part.copies, limbs - 1)
            self._states.append((own["qpos"], own["qvel"]))
            self._transfers.append(
                [
                    (self._xpos[:, rows, :limbs], own["xpos"][:, 1:].transpose(2, 0, 1)),
                    (self._cvel[:, rows, :limbs], own["cvel"][:, 1:].transpose(2, 0, 1)),
                    (self._com[:, rows, 0], own["subtree_com"][:, 1].T),
                    (self._axes[rows, 1:limbs], own["xaxis"][:, 1:].reshape(*joints, 9)),
                    (self._angles[rows, 1:limbs], own["qpos"][:, 7:].reshape(*joints, 3)),
                    (self._rotation[:, rows], own["xmat"][:, 1].T),
                    (self._qvel[rows, : 6 + 3 * (limbs - 1)], own["qvel"]),
                ]
            )

    def read(self, index: int) -> None:
        """Copy the present physics of part `index`."""
        for ours, theirs in self._transfers[index]:
            np.copyto(ours, theirs)

    def begin(self, index: int, local: Rows, start: Start) -> None:
        """Write the start of new episodes into the physics of these copies of part `index`.

        The caller then computes positions and velocities, calls `read`, and `place_targets`.
        """
        part, (qpos_out, qvel_out) = self.parts[index], self._states[index]
        rows, task = part.start + local, part.task
        nq, nv = qpos_out.shape[1], qvel_out.shape[1]

        # Drawn even where the start is given, so that options leave the stream as it is.
        draws = self.streams.uniform(rows, 1 + nq + 2 * nv)
        yaw = 2 * np.pi * draws[:, 0]
        qpos = task.position_noise * (2 * draws[:, 1 : 1 + nq] - 1)
        first, second = draws[:, 1 + nq : 1 + nq + nv], draws[:, 1 + nq + nv :]
        if task.normal_velocity_noise:
            qvel = task.velocity_noise * to_normal(first, second)
        else:
            qvel = task.velocity_noise * (2 * first - 1)

        if start.yaw is not None:
            yaw = start.yaw[rows]
        elif task.yaw is not None:
            yaw[:] = task.yaw
        qpos[:, 2] += part.body.torso_height
        qpos[:, 3] += np.cos(yaw / 2)
        qpos[:, 6] += np.sin(yaw / 2)
        qpos[:, 3:7] /= np.sqrt(np.square(qpos[:, 3:7]).sum(axis=1, keepdims=True))
        qpos_out[local] = qpos if start.qpos is None else start.qpos[rows]
        qvel_out[local] = qvel if start.qvel is None else start.qvel[rows]

    def place_targets(self, rows: Rows, start: Start) -> None:
        """First targets of new episodes, at the torsos' places in the last `read`."""
        self.targets_reached[rows] = 0
        self._draw_targets(rows)
        if start.target is not None:
            self.target[rows] = start.target[rows]
        self._measure(rows)

    def _draw_targets(self, rows: Rows) -> None:
        draws = self.streams.uniform(rows, 2)
        angle = 2 * np.pi * draws[:, 0]
        nearest = self._nearest[rows]
        distance = nearest + (self._farthest[rows] - nearest) * draws[:, 1]
        around = self._follow[rows]
        self.target[rows, 0] = distance * np.cos(angle) + around * self._xpos[0, rows, 0]
        self.target[rows, 1] = distance * np.sin(angle) + around * self._xpos[1, rows, 0]

    def _measure(self, rows: Rows | slice = slice(None)) -> None:
        x, y = self._xpos[0, rows, 0], self._xpos[1, rows, 0]
        self.distance[rows] = np.hypot(self.target[rows, 0] - x, self.target[rows, 1] - y)

    def heading_and_place(self) -> tuple[Array, Array]:
        """Unit heading and place on the ground of all torsos, (2, copies) each."""
        heading = self._rotation[0:4:3]
        length = np.hypot(heading[0], heading[1])
        return heading / np.maximum(length, 1e-12), self._xpos[:2, :, 0].copy()

    def advance(self, action: Array, before: tuple[Array, Array], warned: Flags) -> Outcome:
        """Rewards and ends of the step that physics has just taken from `before`.

        `action` is clipped, (copies, motors); `warned` are copies whose physics gave up.
        """
        motion = np.square(self._qvel).sum(axis=1)
        diverged = warned | ~np.isfinite(motion)
        any_diverged = bool(diverged.any())
        if any_diverged:
            self._forget(diverged)
        heading, place_before = before
        distance_before = self.distance.copy()
        self._measure()

        alive = self._alive_bonus.copy()
        progress = progress_reward(distance_before, self.distance, self._dt)
        moved = self._xpos[:2, :, 0] - place_before
        forward = forward_reward(moved, heading, self._dt) * self._forward
        control = control_reward(action)
        if any_diverged:
            for term in (alive, progress, forward, control):
                term[diverged] = 0.0
        if self.distance.min() < REACH_DISTANCE:
            rows = np.flatnonzero((self.distance < REACH_DISTANCE) & ~diverged)
            self.targets_reached[rows] += 1
            self._draw_targets(rows)
            self._measure(rows)
        info: dict[str, NDArray[Any]] = {
            "reward_alive": alive,
            "reward_progress": progress,
            "reward_forward": forward,
            "reward_control": control,
            "speed_to_target": progress,
            "diverged": diverged,
            **self.whereabouts(),
        }
        fallen = ~self._healthy(motion)
        return Outcome(alive + progress + forward + control, fallen, diverged, info)

    def _forget(self, rows: Flags) -> None:
        """Zero the physics of copies that have none: no NaN reaches the arithmetic, and lying on
        the ground they count as fallen."""
        for planes in (self._xpos, self._cvel, self._com, self._rotation):
            planes[:, rows] = 0.0
        for array in (self._axes, self._angles, self._qvel):
            array[rows] = 0.0

    def whereabouts(self) -> dict[str, NDArray[Any]]:
        """Targets and the distance to them, metres on the ground."""
        return {
            "distance": self.distance.copy(),
            "target": self.target.copy(),
            "targets_reached": self.targets_reached.copy(),
        }

    def _healthy(self, motion: Array) -> Flags:
        rotation, height = self._rotation, self._xpos[2, :, 0]
        lowest = (self._xpos[2] + self._ignored_height).min(axis=1)
        pitch = np.arcsin(rotation[6].clip(-1.0, 1.0))
        roll = np.arctan2(rotation[7], rotation[8])
        tilt = np.arccos(rotation[8].clip(-1.0, 1.0))
        healthy: Flags = (
            (lowest > self._min_height)
            & (height < self._max_height)
            & (np.abs(pitch) < self._max_pitch)
            & (np.abs(roll) < self._max_roll)
            & (tilt < self._max_tilt)
            & (motion > self._min_motion)
        )
        if self._size_matters:
            angles = np.abs(self._angles.reshape(self.copies, -1)).max(axis=1)
            speeds = np.abs(self._qvel).max(axis=1)
            healthy &= np.maximum(np.maximum(angles, speeds), height) < self._max_size
        return healthy

    def observe(self, rows: Rows | slice = slice(None)) -> NDArray[np.float32]:
        """Observations of these copies, (rows, max_limbs * 41), zero in the padding."""
        xpos, cvel, angles = self._xpos[:, rows], self._cvel[:, rows], self._angles[rows]
        limbs = self._constant[rows].copy()

        # MuJoCo's cvel is (angular, linear at the body's centre of mass); move it to each origin.
        velocities = np.empty((2, *xpos.shape))
        moving, turning = velocities
        turning[:] = wx, wy, wz = cvel[:3]
        rx, ry, rz = xpos - self._com[:, rows]
        moving[0] = cvel[3] + (wy * rz - wz * ry)
        moving[1] = cvel[4] + (wz * rx - wx * rz)
        moving[2] = cvel[5] + (wx * ry - wy * rx)
        speeds = np.sqrt(np.square(velocities).sum(axis=1, keepdims=True))
        velocities *= layout.MAX_SPEED / np.maximum(speeds, layout.MAX_SPEED)

        torso = xpos[:, :, :1]
        offset = self.target[rows] - torso[:2, :, 0].T
        direction = offset / self.distance[rows, None]
        limbs[..., layout.POSITION] = (xpos - torso).transpose(1, 2, 0)
        limbs[..., layout.TARGET.start : layout.TARGET.stop - 1] = direction[:, None]
        limbs[..., layout.VELOCITIES] = velocities.reshape(6, *xpos.shape[1:]).transpose(1, 2, 0)
        limbs[..., layout.AXES] = self._axes[rows]
        limbs[..., layout.ANGLES] = angles
        limbs[..., layout.SCALED_ANGLES] = (
            angles * self._angle_slope[rows] + self._angle_offset[rows]
        )
        limbs[..., layout.HEIGHT] = xpos[2]
        if self._is_padded:
            limbs[self._padding[rows]] = 0.0
        return limbs.reshape(len(limbs), -1)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Everything but physics, as copies."""
        return {
            **self.whereabouts(),
            "stream_keys": self.streams.keys.copy(),
            "stream_counters": self.streams.counters.copy(),
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what `get_state` gave."""
        self.target[:] = state["target"]
        self.distance[:] = state["distance"]
        self.targets_reached[:] = state["targets_reached"]
        self.streams.keys[:] = state["stream_keys"]
        self.streams.counters[:] = state["stream_counters"]
