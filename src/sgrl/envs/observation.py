"""What a limb observes, and the one place that knows where each number lies.

Flat, as Gymnasium sees it, an observation is limb after limb in the order of the body
tree, `FEATURES` numbers each: position, gravity, target direction, linear velocity,
angular velocity, hinge axes x, y, z (3 each), then the 17 scalars. What belongs to a hinge
that a limb has not is zero (for the torso, limits and scaled angles are 0.5). With names and shapes
it is a `LimbObservation`. `split` and `join` go between the two and work alike on NumPy
arrays and torch tensors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology import Morphology
from sgrl.morphology.body import LIMB_TYPES
from sgrl.morphology.mirror import AXIAL, POLAR, Mirror

VECTOR_NAMES = (
    "position",
    "linear_velocity",
    "angular_velocity",
    "axis_x",
    "axis_y",
    "axis_z",
)
"""The six vectors of a limb: relative to the torso, then in the world frame."""
NUM_VECTORS = len(VECTOR_NAMES)
NUM_SCALARS = 17

POSITION = slice(0, 3)
GRAVITY = slice(3, 6)
TARGET = slice(6, 9)
VELOCITIES = slice(9, 15)
"""Linear, then angular."""
AXES = slice(15, 24)
SCALARS = slice(24, 41)
ANGLES = slice(24, 27)
"""Angles of the hinges x, y and z, in radians."""
SCALED_ANGLES = slice(27, 36, 3)
"""Within the hinge's range, 0 at its low limit and 1 at its high."""
LOW_LIMITS = slice(28, 36, 3)
HIGH_LIMITS = slice(29, 36, 3)
LIMB_TYPE = slice(36, 40)
HEIGHT = 40
FEATURES = 41

GRAVITY_DIRECTION = (0.0, 0.0, -1.0)
MAX_SPEED = 10.0
"""A longer linear (m/s) or angular (rad/s) velocity is shrunk to this length."""


class LimbObservation(NamedTuple):
    """An observation with names; `...` are batch dimensions. NumPy or torch, world frame."""

    vectors: Any
    """(..., limbs, 6, 3), in the order of `VECTOR_NAMES`."""
    scalars: Any
    """(..., limbs, 17): angles, scaled angles and limits, type, height."""
    gravity: Any
    """(..., 3), unit."""
    target: Any
    """(..., 3), unit and horizontal, from torso to target."""


def split(flat: Any, num_limbs: int) -> LimbObservation:
    """Name the parts of a flat observation (..., num_limbs * 41)."""
    if flat.shape[-1] != num_limbs * FEATURES:
        raise ValueError(
            f"a body of {num_limbs} limbs observes {num_limbs * FEATURES} numbers "
            f"({FEATURES} per limb), not {flat.shape[-1]}"
        )
    limbs = flat.reshape(*flat.shape[:-1], num_limbs, FEATURES)
    order = [*range(POSITION.start, POSITION.stop), *range(VELOCITIES.start, AXES.stop)]
    vectors = limbs[..., order].reshape(*limbs.shape[:-1], NUM_VECTORS, 3)
    return LimbObservation(
        vectors, limbs[..., SCALARS], limbs[..., 0, GRAVITY], limbs[..., 0, TARGET]
    )


def join(observation: LimbObservation) -> NDArray[np.float32]:
    """The flat observation (..., num_limbs * 41) of named NumPy parts."""
    vectors, scalars, gravity, target = (np.asarray(part) for part in observation)
    limbs = np.empty((*vectors.shape[:-2], FEATURES), np.float32)
    limbs[..., POSITION] = vectors[..., 0, :]
    limbs[..., GRAVITY] = gravity[..., None, :]
    limbs[..., TARGET] = target[..., None, :]
    limbs[..., VELOCITIES.start : AXES.stop] = vectors[..., 1:, :].reshape(*vectors.shape[:-2], 15)
    limbs[..., SCALARS] = scalars
    return limbs.reshape(*limbs.shape[:-2], -1)


def constant_part(body: Morphology) -> NDArray[np.float32]:
    """What never changes in a body's observation, (limbs, 41); zero where it does."""
    limbs = np.zeros((body.num_limbs, FEATURES), np.float32)
    limbs[:, GRAVITY] = GRAVITY_DIRECTION
    limbs[0, SCALED_ANGLES] = limbs[0, LOW_LIMITS] = limbs[0, HIGH_LIMITS] = 0.5
    for row, limb in zip(limbs, body.limbs, strict=True):
        if limb.hinges:
            slots = list(limb.hinge_slots)
            low, high = np.deg2rad([hinge.range_deg for hinge in limb.hinges]).T
            row[LOW_LIMITS][slots] = (np.pi + low) / (2 * np.pi)
            row[HIGH_LIMITS][slots] = (np.pi + high) / (2 * np.pi)
        if limb.type is not None:
            row[LIMB_TYPE.start + LIMB_TYPES.index(limb.type)] = 1.0
    return limbs


def angle_scale(body: Morphology) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and offset, (limbs, 3) each, that take hinge angles to scaled angles."""
    slope, offset = np.zeros((2, body.num_limbs, 3))
    offset[0] = 0.5
    for i, limb in enumerate(body.limbs):
        if limb.hinges:
            slots = list(limb.hinge_slots)
            low, high = np.deg2rad([hinge.range_deg for hinge in limb.hinges]).T
            slope[i, slots] = 1 / (high - low)
            offset[i, slots] = -low / (high - low)
    return slope, offset


def mirrored(flat: NDArray[np.float32], mirror: Mirror) -> NDArray[np.float32]:
    """The mirror image of flat observations (..., limbs * 41) of a body."""
    limbs = flat.reshape(*flat.shape[:-1], -1, FEATURES)[..., mirror.sources, :]
    factors, offsets = _mirror_map(mirror)
    image: NDArray[np.float32] = (limbs * factors + offsets).reshape(flat.shape)
    return image


@lru_cache(maxsize=1024)
def _mirror_map(mirror: Mirror) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Factors and offsets, (limbs, 41) each, that take a limb's observation to its image's."""
    factors = np.ones((mirror.body.num_limbs, FEATURES), np.float32)
    offsets = np.zeros_like(factors)
    for part in (POSITION, TARGET):
        factors[:, part] = POLAR
    factors[:, VELOCITIES] = POLAR + AXIAL
    factors[:, AXES] = (mirror.signs[..., None] * AXIAL).reshape(-1, 9)
    factors[:, ANGLES] = factors[:, SCALED_ANGLES] = mirror.signs
    offsets[:, SCALED_ANGLES] = mirror.signs < 0
    constant = constant_part(mirror.body)
    for limits in (LOW_LIMITS, HIGH_LIMITS):
        factors[:, limits], offsets[:, limits] = 0.0, constant[:, limits]
    return factors, offsets
