"""Mini-batches of a rollout, in which every body has its share, and mirrored samples if wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.augmentation import MirrorAugmentation, MirroredRows, with_images
from sgrl.models.batch import LimbBatch

MIRRORED = ("actions", "means", "actuated")
"""Columns that a mirror changes; rewards and what follows from them stay."""


@dataclass(frozen=True)
class Batch:
    """Rows of a rollout to learn from."""

    rows: LimbBatch
    actions: Tensor
    """(rows, action_dim)."""
    means: Tensor
    """(rows, action_dim), of the policy that drew them; of mirrored rows their images."""
    log_std: Tensor
    """(3,), of that policy."""
    advantages: Tensor
    """(rows,), normalized."""
    returns: Tensor
    """(rows,), normalized."""
    actuated: Tensor
    """(rows, action_dim): 1 for motors that move something, 0 for others and in the padding."""
    mirrored: MirroredRows | None = None
    """With symmetry augmentation: which rows are images, and of what."""
    first: bool = False
    """Whether it is the first of a rollout: the policy has not changed yet."""


@dataclass(frozen=True)
class Transitions:
    """The collected transitions of a rollout, a step after the other."""

    observed: LimbBatch
    """(transitions + num_envs) rows, with what comes after the last step; then, with symmetry
    augmentation, the images of all but those."""
    columns: Mapping[str, NDArray[np.float32]]
    """(transitions, ...) each, by the names in `Batch`; followed by those of the images."""
    body_index: NDArray[np.intp]
    """(transitions,)."""
    num_envs: int
    log_std: Tensor
    """(3,), of the policy that collected them."""

    def minibatches(
        self,
        batch_size: int,
        n_epochs: int,
        rng: np.random.Generator,
        device: torch.device,
        augmentation: MirrorAugmentation | None = None,
    ) -> Iterator[Batch]:
        """Mini-batches in so many passes; with augmentation half of their rows are images."""
        total = len(self.body_index)
        of_bodies = [
            np.flatnonzero(self.body_index == body) for body in range(self.body_index.max() + 1)
        ]
        count = max(1, round(total / batch_size))
        count = min(count, *map(len, of_bodies))  # every batch has a row of every body
        first = True
        for _ in range(n_epochs):
            # Bodies in the same order and shares in every batch, which so have one layout.
            shares = [np.array_split(rng.permutation(rows), count) for rows in of_bodies]
            for parts in zip(*shares, strict=True):
                mirrored = None
                if augmentation is not None:
                    parts = [with_images(total, part) for part in parts]
                    mirrored = augmentation.find(np.concatenate(parts), self.body_index, device)
                rows = np.concatenate(parts)
                where = np.where(rows < total, rows, rows + self.num_envs)  # among the observed
                chosen = {
                    name: torch.from_numpy(column[rows]).to(device)
                    for name, column in self.columns.items()
                }
                yield Batch(
                    rows=self.observed.select(where),
                    log_std=self.log_std,
                    mirrored=mirrored,
                    first=first,
                    **chosen,
                )
                first = False
