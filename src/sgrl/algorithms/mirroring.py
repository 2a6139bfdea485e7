"""What copies lived through, as a mirror shows it: rows of bodies and rows of their images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.rollout import Array
from sgrl.envs.observation import FEATURES, mirrored
from sgrl.morphology import Morphology, mirror_of
from sgrl.morphology.mirror import alike


@dataclass(frozen=True)
class Images:
    """Rows of a batch that are mirror images of others."""

    rows: Tensor
    """(images,)."""
    lived: Tensor
    """(images,): the rows of which they are the images."""
    sources: Tensor
    """(images, motors): of each motor the one that it is the image of."""
    signs: Tensor
    """(images, motors): of its action; 0 in the padding."""


class Mirroring:
    """The images of some bodies."""

    def __init__(self, bodies: Sequence[Morphology]) -> None:
        self._mirrors = [mirror_of(body) for body in bodies]
        known, places = list(bodies), []
        for mirror in self._mirrors:
            akin = (i for i, body in enumerate(known) if alike(mirror.body, body))
            places.append(next(akin, len(known)))
            if places[-1] == len(known):
                known.append(mirror.body)
        self.bodies = tuple(known)
        """Those given, then their images that are not among them."""
        self.image_index = np.array(places)
        """(bodies given,): where the image of each is in `bodies`."""
        self.units = np.where(self.image_index < len(bodies), places, np.arange(len(bodies)))
        """(bodies given,): the body in whose units the returns of its image count: the image if it
        is among those given, else the body itself."""

        motors = max(body.action_dim for body in bodies)
        self._sources = np.tile(np.arange(motors), (len(bodies), 1))
        self._signs = np.zeros((len(bodies), motors), np.float32)
        for source, sign, mirror in zip(self._sources, self._signs, self._mirrors, strict=True):
            count = mirror.body.action_dim
            source[:count] = np.abs(mirror.actions(np.arange(count)))
            sign[:count] = mirror.actions(np.ones(count))

    def observations(self, rows: Array, row_body: NDArray[np.int64]) -> Array:
        """Of observations (rows, width) of bodies `row_body` those of the images."""
        images = np.zeros_like(rows)
        for body, mirror in enumerate(self._mirrors):
            own, numbers = row_body == body, mirror.body.num_limbs * FEATURES
            images[own, :numbers] = mirrored(rows[own, :numbers], mirror)
        return images

    def actions(self, rows: Array, row_body: NDArray[np.int64]) -> Array:
        """Of actions (rows, motors) those of the images; 0 in padding."""
        sources, signs = self.motors(row_body)
        return np.take_along_axis(rows, sources, axis=1) * signs

    def motors(self, row_body: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """(rows, motors) each: of an image's motors the one that it is the image of, and the sign
        that its action has; 0 in padding."""
        return self._sources[row_body], self._signs[row_body]

    def find(
        self, rows: NDArray[np.int64], row_body: NDArray[np.int64], device: torch.device
    ) -> Images:
        """Which of the rows that a batch takes are images: those beyond the ones lived through."""
        is_image = rows >= len(row_body)
        images, lived = np.flatnonzero(is_image), rows[is_image] - len(row_body)
        place = np.empty(len(row_body), np.int64)
        place[rows[~is_image]] = np.flatnonzero(~is_image)
        parts = (images, place[lived], *self.motors(row_body[lived]))
        return Images(*(torch.from_numpy(part).to(device) for part in parts))


def with_images(offset: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first half of some rows, then their images, which lie `offset` rows behind them."""
    half = rows[: (len(rows) + 1) // 2]
    return np.concatenate((half, half + offset))
