"""The colour of each limb: the body's own, or one that shows what the policy does."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology import Morphology
from sgrl.morphology.families import color_of

Colouring = Literal["body", "action", "attention"]
Colours = NDArray[np.uint8]
"""(limbs, 3)"""

IDLE = np.array([0.62, 0.66, 0.72])
"""Of a limb that does nothing, or that nobody listens to."""
ACTING = np.array([0.87, 0.13, 0.16])
HEARD = np.array([0.42, 0.16, 0.78])
FULL_ATTENTION = 2.0
"""Times the even share of attention at which the colour is full."""


def body_colours(body: Morphology) -> Colours:
    """The family's colour, a little darker with each limb away from the torso."""
    colour = np.array(color_of(body)[:3])
    depth = np.zeros(body.num_limbs)
    for limb, parent in enumerate(body.parents):
        depth[limb] = 0 if parent < 0 else depth[parent] + 1
    return _bytes(colour * 0.9 ** depth[:, None])


def action_colours(limb_actions: NDArray[np.float32]) -> Colours:
    """By the size of the action (limbs, 3): its root mean square over the hinges."""
    size = np.sqrt(np.square(limb_actions).mean(axis=1))
    return _blend(size, ACTING)


def attention_colours(attention: NDArray[np.float32]) -> Colours:
    """By the share of attention (limbs,), compared with an even one."""
    return _blend(attention * len(attention) / FULL_ATTENTION, HEARD)


def _blend(amount: NDArray[np.floating], full: NDArray[np.float64]) -> Colours:
    share = np.clip(amount, 0, 1)[:, None]
    return _bytes((1 - share) * IDLE + share * full)


def _bytes(colours: NDArray[np.float64]) -> Colours:
    return np.round(255 * colours).astype(np.uint8)
