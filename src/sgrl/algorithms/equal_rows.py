"""Batches that hold as many rows of each body, half of them mirrored: always of one shape.

A row is made of what the replay buffer stores: its columns become an observation of the body, or
of its mirror image, by one selection with factors and offsets. So does the action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.augmentation import MirrorAugmentation
from sgrl.envs.columns import mirrored_restoration, restoration, varying_columns
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch, layout_of
from sgrl.morphology import Morphology, mirror_of


class EqualRows:
    """Rows of each body, body after body; with `mirror` the second half of each are images."""

    def __init__(
        self,
        bodies: Sequence[Morphology],
        rows: int | Sequence[int],
        *,
        mirror: bool,
        device: torch.device | str = "cpu",
    ) -> None:
        """`rows` of each body, or one number for each."""
        counts = [rows] * len(bodies) if isinstance(rows, int) else list(rows)
        self.bodies, image_index = tuple(bodies), np.arange(len(bodies))
        if mirror:
            augmentation = MirrorAugmentation(bodies)
            self.bodies, image_index = augmentation.bodies, augmentation.image_index
        halves = [(n - n // 2, n // 2) if mirror else (n, 0) for n in counts]
        own = np.arange(len(bodies))
        units = own if not mirror else augmentation.return_index
        body_index = np.repeat(np.stack((own, image_index), 1).ravel(), np.ravel(halves))
        unit_index = np.repeat(np.stack((own, units), 1).ravel(), np.ravel(halves))
        self.layout = layout_of(self.bodies, body_index, device)
        self.unit_index = torch.from_numpy(unit_index).to(device)
        """(rows,): the body given whose reward scale and entropy coefficient count in a row: the
        row's own or, if it is an image that is not among them, that of which it is the image."""

        self.num_columns = max(len(varying_columns(body)) for body in bodies)
        """Columns that are stored of an observation, of the body that has most."""
        self.num_actuated = max(int(body.actuated.sum()) for body in bodies)
        """Actuated motors of the body that has most."""

        restored, motors = [], []
        for body, (originals, images) in zip(bodies, halves, strict=True):
            restored += [restoration(body)] * originals + [mirrored_restoration(body)] * images
            motors += [_motors(body, image=False)] * originals
            motors += [_motors(body, image=True)] * images

        def table(rows: list[NDArray[Any]], *shape: int) -> Tensor:
            padded = np.zeros((len(rows), *shape), rows[0].dtype)
            for place, row in zip(padded, rows, strict=True):
                place[: len(row)] = row
            return torch.from_numpy(padded).to(device)

        limbs = self.layout.max_limbs
        self._columns = table([one.sources for one in restored], limbs * FEATURES)
        self._factors = table([one.factors for one in restored], limbs * FEATURES)
        self._offsets = table([one.offsets for one in restored], limbs * FEATURES)
        self._motors = self.layout.unpad(table([sources for sources, _ in motors], limbs, 3))
        self._signs = self.layout.unpad(table([signs for _, signs in motors], limbs, 3))

    def observations(self, columns: Tensor) -> Tensor:
        """Observations (rows, width), padded, of what is stored of them (rows, columns)."""
        return torch.addcmul(self._offsets, columns.gather(1, self._columns), self._factors)

    def batch(self, observations: Tensor) -> LimbBatch:
        """The limbs of observations (rows, width)."""
        return LimbBatch.from_rows(observations, self.layout)

    def actions(self, actions: Tensor) -> Tensor:
        """Actions (limbs, 3) of those of actuated motors (rows, actuated)."""
        return self.layout.to_limbs(actions).gather(1, self._motors) * self._signs

    def magnitudes(self, values: Tensor) -> Tensor:
        """Numbers (limbs, 3) of those of actuated motors (rows, actuated), which no mirror image
        changes the sign of."""
        return self.layout.to_limbs(values).gather(1, self._motors) * self._signs.abs()


def _motors(body: Morphology, *, image: bool) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """(limbs, 3) each: which of the body's actuated motors moves a hinge of the body, or of its
    image, and the sign of its action; 0 where none does."""
    rank, signs = np.maximum(np.cumsum(body.actuated) - 1, 0), body.actuated.astype(np.float32)
    if not image:
        return body.by_limb(rank), body.by_limb(signs)
    mirror = mirror_of(body)
    return mirror.body.by_limb(rank[mirror.hinge_sources]), mirror.body.by_limb(
        mirror.actions(signs)
    )
