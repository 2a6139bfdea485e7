"""What copies lived through, as a mirror shows it: rows of bodies and rows of their images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgrl.algorithms.rollout import Array
from sgrl.envs.observation import FEATURES, mirrored
from sgrl.morphology import Morphology, mirror_of


class Mirroring:
    """The images of some bodies."""

    def __init__(self, bodies: Sequence[Morphology]) -> None:
        self._mirrors = [mirror_of(body) for body in bodies]
        images = [mirror.body for mirror in self._mirrors]
        self.bodies = tuple(dict.fromkeys((*bodies, *images)))
        """Those given, then their images that are not among them."""
        self.image_index = np.array([self.bodies.index(image) for image in images])
        """(bodies given,): where the image of each is in `bodies`."""

    def observations(self, rows: Array, row_body: NDArray[np.int64]) -> Array:
        """Of observations (rows, width) of bodies `row_body` those of the images."""
        images = np.zeros_like(rows)
        for body, mirror in enumerate(self._mirrors):
            own, numbers = row_body == body, mirror.body.num_limbs * FEATURES
            images[own, :numbers] = mirrored(rows[own, :numbers], mirror)
        return images

    def actions(self, rows: Array, row_body: NDArray[np.int64]) -> Array:
        """Of actions (rows, motors) those of the images."""
        images = np.zeros_like(rows)
        for body, mirror in enumerate(self._mirrors):
            own, motors = row_body == body, mirror.body.num_actions
            images[own, :motors] = mirror.actions(rows[own, :motors])
        return images


def second_half_from(offset: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of which the second half lie as far behind as their images do."""
    return rows + offset * (np.arange(len(rows)) >= len(rows) // 2)
