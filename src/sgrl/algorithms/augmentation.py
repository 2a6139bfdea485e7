"""Symmetry augmentation: transitions of bodies and mirrored samples of them, of their images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.learner import Array
from sgrl.envs.observation import FEATURES, mirrored
from sgrl.morphology import Morphology, mirror_of
from sgrl.morphology.mirror import alike


@dataclass(frozen=True)
class MirroredRows:
    """Rows of a batch that are mirror images of others in it."""

    rows: Tensor
    """(mirrored,)."""
    originals: Tensor
    """(mirrored,): the rows of which they are the images."""
    sources: Tensor
    """(mirrored, action_dim): the motor of the original that each motor is the image of."""
    signs: Tensor
    """(mirrored, action_dim): of its action; 0 in the padding."""


class MirrorAugmentation:
    """The mirror images of some bodies, and of what they observe and do."""

    def __init__(self, bodies: Sequence[Morphology]) -> None:
        self._mirrors = [mirror_of(body) for body in bodies]
        known, images = list(bodies), []
        for mirror in self._mirrors:
            akin = (i for i, body in enumerate(known) if alike(mirror.body, body))
            images.append(next(akin, len(known)))
            if images[-1] == len(known):
                known.append(mirror.body)
        self.bodies = tuple(known)
        """Those given, then their images that are not among them."""
        self.image_index = np.array(images)
        """(bodies given,): index into `bodies` of the image of each."""
        self.return_index = np.where(self.image_index < len(bodies), images, np.arange(len(bodies)))
        """(bodies given,): the body whose statistics normalize the returns of its image: the image
        if it is among those given, else the body itself."""

        action_dim = max(body.action_dim for body in bodies)
        self._sources = np.tile(np.arange(action_dim), (len(bodies), 1))
        self._signs = np.zeros((len(bodies), action_dim), np.float32)
        for source, sign, mirror in zip(self._sources, self._signs, self._mirrors, strict=True):
            count = mirror.body.action_dim
            source[:count] = np.abs(mirror.actions(np.arange(count)))
            sign[:count] = mirror.actions(np.ones(count))

    def observations(self, rows: Array, body_index: NDArray[np.intp]) -> Array:
        """The images of observations (rows, width) of bodies (rows,)."""
        images = np.zeros_like(rows)
        for body, mirror in enumerate(self._mirrors):
            of_body, numbers = body_index == body, mirror.body.num_limbs * FEATURES
            images[of_body, :numbers] = mirrored(rows[of_body, :numbers], mirror)
        return images

    def actions(self, rows: Array, body_index: NDArray[np.intp]) -> Array:
        """The images of actions (rows, action_dim); 0 in padding."""
        sources, signs = self.motors(body_index)
        return np.take_along_axis(rows, sources, axis=1) * signs

    def motors(self, body_index: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
        """(rows, action_dim) each: the motor that a motor of the image is the image of, and the
        sign of its action; 0 in padding."""
        return self._sources[body_index], self._signs[body_index]

    def find(
        self, rows: NDArray[np.intp], body_index: NDArray[np.intp], device: torch.device
    ) -> MirroredRows:
        """The mirrored rows of a batch that takes `rows` of the collected transitions, of bodies
        `body_index`, and of their images, which are numbered behind them."""
        is_image = rows >= len(body_index)
        images, originals = np.flatnonzero(is_image), rows[is_image] - len(body_index)
        where = np.empty(len(body_index), np.intp)
        where[rows[~is_image]] = np.flatnonzero(~is_image)
        parts = (images, where[originals], *self.motors(body_index[originals]))
        return MirroredRows(*(torch.from_numpy(part).to(device) for part in parts))


def with_images(offset: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first half of some rows, then their images, which are numbered `offset` behind them."""
    half = rows[: (len(rows) + 1) // 2]
    return np.concatenate((half, half + offset))
