"""A body as tubes and balls: what has to be drawn, and where it is in a simulation."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR = 1
"""The floor is a model's first geom; those of the limbs follow."""


class Shape:
    """The tubes and balls of one model. A capsule is a tube with a ball at each end."""

    def __init__(self, model: mujoco.MjModel) -> None:
        radius, half_length = model.geom_size[FLOOR:, 0], model.geom_size[FLOOR:, 1]
        limb = model.geom_bodyid[FLOOR:] - 1
        capsule = model.geom_type[FLOOR:] == mujoco.mjtGeom.mjGEOM_CAPSULE
        self._capsules = np.flatnonzero(capsule) + FLOOR
        self._spheres = np.flatnonzero(~capsule) + FLOOR
        self._half_length = half_length[capsule, None]
        self.tube_limbs = limb[capsule]
        """(tubes,): which limb each is part of."""
        self.tube_scales = np.stack((radius, radius, half_length), axis=1)[capsule]
        """(tubes, 3): of a tube of radius 1 from z = -1 to z = 1."""
        self.ball_limbs = np.concatenate((limb[capsule], limb[capsule], limb[~capsule]))
        """(balls,)"""
        self.ball_scales = np.concatenate((radius[capsule], radius[capsule], radius[~capsule]))
        """(balls,): their radii."""

    def poses(self, data: mujoco.MjData) -> tuple[Array, Array, Array]:
        """Tubes' centers (tubes, 3) and quaternions (tubes, 4), balls' centers (balls, 3)."""
        centers = data.geom_xpos[self._capsules]
        axes = data.geom_xmat[self._capsules][:, 2::3]
        ends = self._half_length * axes
        balls = np.concatenate((centers + ends, centers - ends, data.geom_xpos[self._spheres]))
        return centers, _turn_z_onto(axes), balls


def _turn_z_onto(axes: Array) -> Array:
    """Quaternions (rows, 4) that turn z onto unit axes (rows, 3); a tube has no front."""
    axes = np.where(axes[:, 2:] < 0, -axes, axes)
    x, y, z = axes.T
    quaternions = np.stack((1 + z, -y, x, np.zeros_like(x)), axis=1)
    turned: Array = quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)
    return turned


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Height of the lowest point of all limbs, meters; `data` has its positions."""
    radius, half_length = model.geom_size[FLOOR:, 0], model.geom_size[FLOOR:, 1]
    down = radius + half_length * np.abs(data.geom_xmat[FLOOR:, 8])
    return float((data.geom_xpos[FLOOR:, 2] - down).min())
