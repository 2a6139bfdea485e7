"""The color of each robot and of its limbs: the robot's own, or one that shows the policy."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology import Morphology
from sgrl.morphology.families import color_of

Coloring = Literal["body", "action", "attention"]
Color = tuple[float, float, float]
"""Red, green and blue, from 0 to 1."""
Colors = NDArray[np.uint8]
"""(limbs, 3)"""

MORE_COLORS: tuple[Color, ...] = (
    (0.80, 0.28, 0.55),
    (0.10, 0.66, 0.70),
    (0.60, 0.74, 0.20),
    (0.12, 0.22, 0.50),
    (0.50, 0.34, 0.18),
    (0.95, 0.62, 0.72),
    (0.33, 0.38, 0.45),
)
"""Colors of robots whose family's color another one has already."""
LEAST_DIFFERENCE = 0.2
"""Between the colors of two robots."""
IDLE = np.array([0.62, 0.66, 0.72])
"""The color of a limb without an action, or without attention."""
ACTING = np.array([0.87, 0.13, 0.16])
ATTENDED = np.array([0.42, 0.16, 0.78])
FULL_ATTENTION = 2.0
"""Times the even share of attention at which the color is full."""


def robot_color(body: Morphology, taken: Collection[Color]) -> Color:
    """The color of one more robot: its family's, or if that is taken one that is not."""
    red, green, blue, _ = color_of(body)
    family = (red, green, blue)

    def is_free(color: Color) -> bool:
        return all(math.dist(color, other) > LEAST_DIFFERENCE for other in taken)

    return next(filter(is_free, (family, *MORE_COLORS)), family)


def body_colors(body: Morphology, color: Color) -> Colors:
    """A robot's color, a little darker with each limb away from the torso."""
    depth = np.zeros(body.num_limbs)
    for limb, parent in enumerate(body.parents):
        depth[limb] = 0 if parent < 0 else depth[parent] + 1
    return to_bytes(np.array(color) * 0.9 ** depth[:, None])


def action_colors(limb_actions: NDArray[np.float32]) -> Colors:
    """By the size of the action (limbs, 3): its root mean square over the hinges."""
    size = np.sqrt(np.square(limb_actions).mean(axis=1))
    return _blend(size, ACTING)


def attention_colors(attention: NDArray[np.float32]) -> Colors:
    """By the share of attention (limbs,), compared with an even one."""
    return _blend(attention * len(attention) / FULL_ATTENTION, ATTENDED)


def to_bytes(colors: NDArray[np.float64]) -> Colors:
    """Channels from 0 to 1 as whole numbers from 0 to 255."""
    return np.round(255 * colors).astype(np.uint8)


def _blend(amount: NDArray[np.floating], full: NDArray[np.float64]) -> Colors:
    share = np.clip(amount, 0, 1)[:, None]
    return to_bytes((1 - share) * IDLE + share * full)
