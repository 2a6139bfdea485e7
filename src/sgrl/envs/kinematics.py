"""How all environments move, read from physics into arrays side by side, and what they observe.

Each part, the environments of one body, is read from the arrays of whoever steps it: a
`mujoco.MjData` or a `mujoco.batch.Batch`. Bodies with fewer limbs than the largest are padded with
zeros. Everything is in the world frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgrl.envs import observation as layout
from sgrl.morphology import Morphology
from sgrl.morphology.task import Task

Array = NDArray[np.float64]
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
        """The rows as a slice."""
        return slice(self.start, self.stop)

    @property
    def num_envs(self) -> int:
        """How many there are."""
        return self.stop - self.start


class Kinematics:
    """Positions, velocities and angles of all environments at their present states."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        num_envs = parts[-1].stop
        limbs = max(part.body.num_limbs for part in parts)
        action_dim = max(part.body.action_dim for part in parts)
        self.limb_mask = np.zeros((num_envs, limbs), np.bool_)
        """(num_envs, limbs): which limbs are no padding."""

        # Coordinates come first, so that each is one contiguous plane (num_envs, limbs). Planes of
        # `_twist`: angular velocity y and z, then MuJoCo's cvel, which is angular x, y, z and
        # linear x, y, z; with y and z before x, a cross product is two products of slices.
        self.xpos = np.zeros((3, num_envs, limbs))
        """(3, num_envs, limbs): where the limbs are."""
        self.rotation = np.zeros((9, num_envs))
        """(9, num_envs): the torso's rotation matrix, row by row."""
        self.qvel = np.zeros((num_envs, 6 + action_dim))
        """(num_envs, 6 + action_dim): MuJoCo's velocities."""
        self._com = np.zeros((3, num_envs, 1))
        self._twist = np.zeros((8, num_envs, limbs))
        self._transfers: list[list[tuple[Array, Array]]] = [[] for _ in parts]
        self.states: list[tuple[Array, Array]] = []
        """Live qpos and qvel of each part; who writes them computes velocities and calls `read`."""

        # The observation in double precision, plane by plane; what never changes is filled here.
        self._planes = np.zeros((layout.FEATURES, num_envs, limbs))
        self.angles = self._planes[layout.ANGLES]
        """(3, num_envs, limbs): angles of the hinges x, y and z."""
        self.angle_slope = np.zeros((3, num_envs, limbs))
        """(3, num_envs, limbs): takes angles to scaled ones."""
        self._angle_offset = np.zeros((3, num_envs, limbs))
        for part in parts:
            body, rows, count = part.body, part.rows, part.body.num_limbs
            self.limb_mask[rows, :count] = True
            self._planes[:, rows, :count] = layout.constant_part(body).T[:, None]
            slope, offset = layout.angle_scale(body)
            self.angle_slope[:, rows, :count] = slope.T[:, None]
            self._angle_offset[:, rows, :count] = offset.T[:, None]

    def connect(self, fields: Sequence[Mapping[str, Array]]) -> None:
        """Take the live physics arrays of each part, one for each of `PHYSICS_FIELDS`."""
        self._transfers.clear()
        self.states.clear()
        for part, arrays in zip(self._parts, fields, strict=True):
            rows, limbs = part.rows, part.body.num_limbs
            qpos, qvel = arrays["qpos"], arrays["qvel"]
            self.states.append((qpos, qvel))
            self._transfers.append(
                [
                    (self.xpos[:, rows, :limbs], _planes(arrays["xpos"][:, 1:])),
                    (self._com[:, rows, 0], arrays["subtree_com"][:, 1].T),
                    (self._twist[2:, rows, :limbs], _planes(arrays["cvel"][:, 1:])),
                    (self.rotation[:, rows], arrays["xmat"][:, 1].T),
                    (self.qvel[rows, : qvel.shape[1]], qvel),
                    *self._hinge_transfers(part, arrays["xaxis"][:, 1:], qpos[:, 7:]),
                ]
            )

    def _hinge_transfers(self, part: Part, axes: Array, angles: Array) -> list[tuple[Array, Array]]:
        """Where axes (num_envs, hinges, 3) and angles (num_envs, hinges) go."""
        rows, mask = part.rows, part.body.hinge_mask
        axis_planes, angle_planes = self._planes[layout.AXES, rows], self.angles[:, rows]
        if mask[1:].all():  # all at once, where every limb has three hinges
            limbs = slice(1, part.body.num_limbs)
            return [
                (axis_planes[:, :, limbs], _planes(axes.reshape(part.num_envs, -1, 9))),
                (angle_planes[:, :, limbs], _planes(angles.reshape(part.num_envs, -1, 3))),
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

    def zero(self, rows: Flags) -> None:
        """Zero what moves of these environments, so that no NaN reaches the arithmetic."""
        for planes in (self.xpos, self._com, self._twist, self.rotation, self.angles):
            planes[:, rows] = 0.0
        self._planes[layout.AXES, rows] = 0.0
        self.qvel[rows] = 0.0

    def heading_and_xy(self) -> tuple[Array, Array]:
        """Unit heading and xy on the ground of all torsos, (2, num_envs) each."""
        heading = self.rotation[0:4:3]
        length = np.hypot(heading[0], heading[1])
        return heading / np.maximum(length, 1e-12), self.xpos[:2, :, 0].copy()

    def observe(
        self, out: NDArray[np.float32], rows: Rows | slice, target: Array, distance: Array
    ) -> None:
        """Write the observations of these environments to `out`, (rows, limbs, 41).

        `target` (rows, 2) and the `distance` (rows,) to it are metres on the ground.
        """
        planes, xpos, twist = self._planes[:, rows], self.xpos[:, rows], self._twist[:, rows]
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
        direction = (target.T - torso[:2, :, 0]) / np.maximum(distance, 1e-9)
        np.subtract(xpos, torso, out=planes[layout.POSITION])
        planes[layout.TARGET][:2] = direction[:, :, None]
        scaled = planes[layout.SCALED_ANGLES]
        np.multiply(planes[layout.ANGLES], self.angle_slope[:, rows], out=scaled)
        scaled += self._angle_offset[:, rows]
        planes[layout.HEIGHT] = xpos[2]
        out[...] = planes.transpose(1, 2, 0)


def _planes(array: Array) -> Array:
    """A view with the last dimension first."""
    return array.transpose(2, 0, 1)
