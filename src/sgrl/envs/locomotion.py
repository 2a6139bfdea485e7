"""The task for many copies of one or several bodies at once, as array operations.

`Locomotion` starts episodes, observes, rewards and decides when an episode ends. It does
not step physics: each part of it (the copies of one body) reads the arrays of whoever
does, a `mujoco.MjData` or a `mujoco.batch.Batch`, so that the single environment and the
vector environment are the same code. Bodies with fewer limbs than the largest are padded
with zeros. Everything is in the world frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs import observation as layout
from sgrl.envs.options import Start
from sgrl.envs.streams import Streams
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

        # Physics of all copies side by side, filled by `read`.
        self._xpos = np.zeros((copies, limbs, 3))
        self._cvel = np.zeros((copies, limbs, 6))
        self._axes = np.zeros((copies, limbs, 9))
        self._angles = np.zeros((copies, limbs, 3))
        self._com = np.zeros((copies, 3))
        self._rotation = np.zeros((copies, 9))
        self._qvel = np.zeros((copies, 6 + 3 * (limbs - 1)))
        self._transfers: list[list[tuple[Array, Array]]] = [[] for _ in self.parts]
        self._sources: list[dict[str, Array]] = [{} for _ in self.parts]

        self._constant = np.zeros((copies, limbs, layout.FEATURES), np.float32)
        self._angle_slope = np.zeros((copies, limbs, 3))
        self._angle_offset = np.zeros((copies, limbs, 3))
        self._dt = np.zeros(copies)
        self._alive_bonus = np.zeros(copies)
        self._forward = np.zeros(copies)
        self._ignored_height = np.full((copies, limbs), np.inf)
        for index, part in enumerate(self.parts):
            body, rows, count = part.body, part.rows, part.body.num_limbs
            self.limb_mask[rows, :count] = True
            self.body_index[rows] = index
            self._constant[rows, :count] = layout.constant_part(body)
            slope, offset = layout.angle_scale(body)
            self._angle_slope[rows, :count] = slope
            self._angle_offset[rows, :count] = offset
            self._dt[rows] = body.physics.timestep * PHYSICS_STEPS
            self._alive_bonus[rows] = part.task.alive_bonus
            self._forward[rows] = part.task.rewards_forward
            counted = [body.limb_names.index(name) for name in part.task.health.height_limbs]
            self._ignored_height[rows, counted] = 0.0
        self._padding = ~self.limb_mask
        self._is_padded = bool(self._padding.any())

        def bounds(name: str) -> Array:
            return np.repeat(
                [getattr(part.task.health, name) for part in self.parts],
                [part.copies for part in self.parts],
            )

        self._min_height = bounds("min_height")
        self._max_height = bounds("max_height")
        self._max_pitch = bounds("max_pitch")
        self._max_roll = bounds("max_roll")
        self._max_tilt = bounds("max_tilt")
        self._max_size = bounds("max_size")
        self._min_motion = bounds("min_motion")

    def connect(self, index: int, fields: dict[str, Array]) -> None:
        """Take the live physics arrays of part `index`, one for each of `PHYSICS_FIELDS`."""
        part = self.parts[index]
        rows, limbs = part.rows, part.body.num_limbs
        joints = (part.copies, limbs - 1)
        self._sources[index] = fields
        self._transfers[index] = [
            (self._xpos[rows, :limbs], fields["xpos"][:, 1:]),
            (self._cvel[rows, :limbs], fields["cvel"][:, 1:]),
            (self._axes[rows, 1:limbs], fields["xaxis"][:, 1:].reshape(*joints, 9)),
            (self._angles[rows, 1:limbs], fields["qpos"][:, 7:].reshape(*joints, 3)),
            (self._com[rows], fields["subtree_com"][:, 1]),
            (self._rotation[rows], fields["xmat"][:, 1].reshape(-1, 9)),
            (self._qvel[rows, : 6 + 3 * (limbs - 1)], fields["qvel"]),
        ]

    def read(self, index: int) -> None:
        """Copy the present physics of part `index`."""
        for ours, theirs in self._transfers[index]:
            np.copyto(ours, theirs)

    def begin(self, index: int, local: Rows, start: Start) -> None:
        """Write the start of new episodes into the physics of these copies of part `index`.

        The caller then computes positions and velocities, calls `read`, and `place_targets`.
        """
        part, fields = self.parts[index], self._sources[index]
        rows = part.start + local
        nq, nv = fields["qpos"].shape[1], fields["qvel"].shape[1]
        task = part.task

        def noise(size: int, spread: float) -> Array:
            return spread * (2 * self.streams.uniform(rows, size) - 1)

        # Drawn even where the start is given, so that options leave the stream as it is.
        yaw = 2 * np.pi * self.streams.uniform(rows, 1)[:, 0]
        qpos = noise(nq, task.position_noise)
        if task.normal_velocity_noise:
            qvel = task.velocity_noise * self.streams.normal(rows, nv)
        else:
            qvel = noise(nv, task.velocity_noise)

        if start.yaw is not None:
            yaw = start.yaw[rows]
        elif task.yaw is not None:
            yaw[:] = task.yaw
        qpos[:, 2] += part.body.torso_height
        qpos[:, 3] += np.cos(yaw / 2)
        qpos[:, 6] += np.sin(yaw / 2)
        qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
        if start.qpos is not None:
            qpos = start.qpos[rows]
        if start.qvel is not None:
            qvel = start.qvel[rows]
        fields["qpos"][local] = qpos
        fields["qvel"][local] = qvel

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
        for index in np.unique(self.body_index[rows]):
            mine = self.body_index[rows] == index
            task, chosen = self.parts[index].task, rows[mine]
            near, far = task.target_distance
            distance = near + (far - near) * draws[mine, 1]
            self.target[chosen, 0] = distance * np.cos(angle[mine])
            self.target[chosen, 1] = distance * np.sin(angle[mine])
            if task.targets_follow:
                self.target[chosen] += self._xpos[chosen, 0, :2]

    def _measure(self, rows: Rows) -> None:
        offset = self.target[rows] - self._xpos[rows, 0, :2]
        self.distance[rows] = np.hypot(offset[:, 0], offset[:, 1])

    def heading_and_place(self) -> tuple[Array, Array]:
        """Unit heading and place on the ground of all torsos, (copies, 2) each."""
        heading = self._rotation[:, 0:4:3]
        length = np.hypot(heading[:, 0], heading[:, 1])[:, None]
        return heading / np.maximum(length, 1e-12), self._xpos[:, 0, :2].copy()

    def advance(self, action: Array, before: tuple[Array, Array], diverged: Flags) -> Outcome:
        """Rewards and ends of the step that physics has just taken from `before`.

        `action` is clipped, (copies, motors). Copies that `diverged` end with a reward of 0.
        """
        heading, xy_before = before
        distance_before = self.distance.copy()
        xy = self._xpos[:, 0, :2]
        offset = self.target - xy
        np.hypot(offset[:, 0], offset[:, 1], out=self.distance)
        healthy = self._healthy()

        progress = progress_reward(distance_before, self.distance, self._dt)
        alive = self._alive_bonus.copy()
        forward = forward_reward(xy_before, xy, heading, self._dt) * self._forward
        control = control_reward(action)
        if diverged.any():
            for term in (alive, progress, forward, control):
                term[diverged] = 0.0
        reached = self.distance < REACH_DISTANCE
        if reached.any():
            rows = np.flatnonzero(reached & ~diverged)
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
        return Outcome(alive + progress + forward + control, ~healthy | diverged, info)

    def whereabouts(self) -> dict[str, NDArray[Any]]:
        """Targets and the distance to them, metres on the ground."""
        return {
            "distance": self.distance.copy(),
            "target": self.target.copy(),
            "targets_reached": self.targets_reached.copy(),
        }

    def _healthy(self) -> Flags:
        rotation, height = self._rotation, self._xpos[:, 0, 2]
        lowest = (self._xpos[:, :, 2] + self._ignored_height).min(axis=1)
        pitch = np.arcsin(np.clip(-rotation[:, 6], -1.0, 1.0))
        roll = np.arctan2(rotation[:, 7], rotation[:, 8])
        tilt = np.arccos(np.clip(rotation[:, 8], -1.0, 1.0))
        size = np.maximum(
            np.abs(self._angles).max(axis=(1, 2)), np.abs(self._qvel).max(axis=1)
        )
        motion = np.square(self._qvel).sum(axis=1)
        # Written so that a NaN anywhere counts as fallen.
        return (
            (lowest > self._min_height)
            & (height < self._max_height)
            & (np.abs(pitch) < self._max_pitch)
            & (np.abs(roll) < self._max_roll)
            & (tilt < self._max_tilt)
            & (np.maximum(size, height) < self._max_size)
            & (motion > self._min_motion)
        )

    def observe(self, rows: Rows | slice = slice(None)) -> NDArray[np.float32]:
        """Observations of these copies, (rows, max_limbs * 41), zero in the padding."""
        xpos, cvel, angles = self._xpos[rows], self._cvel[rows], self._angles[rows]
        torso = xpos[:, :1]
        limbs = self._constant[rows].copy()

        # MuJoCo's cvel is (angular, linear at the body's centre of mass); move it to each origin.
        velocities = np.empty((*xpos.shape[:2], 2, 3))
        turning = velocities[..., 1, :]
        turning[:] = cvel[..., :3]
        arm = xpos - self._com[rows, None]
        moving = velocities[..., 0, :]
        wx, wy, wz = turning[..., 0], turning[..., 1], turning[..., 2]
        rx, ry, rz = arm[..., 0], arm[..., 1], arm[..., 2]
        moving[..., 0] = cvel[..., 3] + (wy * rz - wz * ry)
        moving[..., 1] = cvel[..., 4] + (wz * rx - wx * rz)
        moving[..., 2] = cvel[..., 5] + (wx * ry - wy * rx)
        speed = np.sqrt(np.square(velocities).sum(axis=-1))
        velocities *= (layout.MAX_SPEED / np.maximum(speed, layout.MAX_SPEED))[..., None]

        offset = self.target[rows] - torso[:, 0, :2]
        direction = offset / self.distance[rows, None]
        limbs[..., layout.POSITION] = xpos - torso
        limbs[..., layout.TARGET.start : layout.TARGET.stop - 1] = direction[:, None]
        limbs[..., layout.VELOCITIES] = velocities.reshape(*xpos.shape[:2], 6)
        limbs[..., layout.AXES] = self._axes[rows]
        limbs[..., layout.ANGLES] = angles
        limbs[..., layout.SCALED_ANGLES] = (
            angles * self._angle_slope[rows] + self._angle_offset[rows]
        )
        limbs[..., layout.HEIGHT] = xpos[..., 2]
        if self._is_padded:
            limbs[self._padding[rows]] = 0.0
        return limbs.reshape(len(limbs), -1)

    def finite(self) -> Flags:
        """Which copies' physics is finite."""
        flags: Flags = np.isfinite(self._qvel.sum(axis=1) + self._xpos.sum(axis=(1, 2)))
        return flags

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Everything but physics, as copies."""
        return {
            **self.whereabouts(),
            "stream_keys": self.streams.keys.copy(),
            "stream_counters": self.streams.counters.copy(),
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to what `get_state` gave."""
        self.target[:] = state["target"]
        self.distance[:] = state["distance"]
        self.targets_reached[:] = state["targets_reached"]
        self.streams.keys[:] = state["stream_keys"]
        self.streams.counters[:] = state["stream_counters"]
