"""Small constructors in which the four full bodies are written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgrl.morphology.body import Geom, Hinge, Quat, Vec3

Range = tuple[float, float]


def capsule(start: Vec3, end: Vec3, radius: float, friction: Vec3 | None = None) -> Geom:
    """A capsule between two points, as MuJoCo's `fromto` has it."""
    axis = tuple(a - b for a, b in zip(start, end, strict=True))
    length = math.hypot(*axis)
    x, y, z = (component / length for component in axis)
    # Shortest rotation that takes (0, 0, 1) to the axis.
    w = math.sqrt((1 + z) / 2)
    quat = (w, -y / (2 * w), x / (2 * w), 0.0) if w > 1e-9 else (0.0, 1.0, 0.0, 0.0)
    middle = tuple((a + b) / 2 for a, b in zip(start, end, strict=True))
    return Geom(radius, length / 2, (middle[0], middle[1], middle[2]), quat, friction)


def about_y(angle: float) -> Quat:
    """A rotation about the y axis by `angle` radians."""
    return (math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0)


def unit(x: float, y: float, z: float) -> Vec3:
    """The direction of a vector."""
    length = math.hypot(x, y, z)
    return (x / length, y / length, z / length)


RIGHT: tuple[Vec3, Vec3, Vec3] = ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0))
"""Hinge axes of limbs in the middle and on the right."""
LEFT: tuple[Vec3, Vec3, Vec3] = ((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0))
"""Hinge axes on the left: x and z mirrored, so that equal angles are mirror images."""


def hinges(
    x: Range,
    y: Range,
    z: Range,
    gears: Sequence[float],
    *,
    damping: float,
    armature: float | Sequence[float],
    stiffness: float | Sequence[float] = 0.0,
    axes: tuple[Vec3, Vec3, Vec3] = RIGHT,
) -> tuple[Hinge, ...]:
    """Three hinges with ranges in degrees; a single stiffness or armature holds for all."""
    return tuple(
        Hinge(axis, limits, gear, k, damping, a)
        for axis, limits, gear, k, a in zip(
            axes, (x, y, z), gears, _three(stiffness), _three(armature), strict=True
        )
    )


def _three(value: float | Sequence[float]) -> Sequence[float]:
    return (value,) * 3 if isinstance(value, int | float) else value
