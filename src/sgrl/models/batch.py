"""One batch of limbs that every method reads; its rows may be of different bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sgrl.envs.observation import (
    AXES,
    FEATURES,
    GRAVITY,
    NUM_VECTORS,
    POSITION,
    SCALARS,
    TARGET,
    VELOCITIES,
)
from sgrl.models.layout import BatchLayout, layout_of
from sgrl.morphology import Morphology
from sgrl.vector_math import make_first_calls

__all__ = ["BatchLayout", "LimbBatch", "layout_of"]

make_first_calls()


@dataclass(frozen=True, eq=False)
class LimbBatch:
    """What the limbs of a batch observe: the input of every method."""

    vectors: Tensor
    """(limbs, 6, 3), world frame, in the order of `observation.VECTOR_NAMES`."""
    scalars: Tensor
    """(limbs, 17)."""
    gravity: Tensor
    """(rows, 3), unit."""
    target: Tensor
    """(rows, 3), unit, from torso to target."""
    layout: BatchLayout

    @classmethod
    def from_flat(cls, obs: Tensor, body: Morphology) -> LimbBatch:
        """The batch of flat observations (rows, limbs * 41) of one body."""
        if obs.dim() != 2 or obs.shape[1] != body.num_limbs * FEATURES:
            raise ValueError(
                f"{body.name} has {body.num_limbs} limbs and observes (rows, "
                f"{body.num_limbs * FEATURES}); got {tuple(obs.shape)}"
            )
        return cls.from_rows(obs, layout_of((body,), np.zeros(len(obs), np.int64), obs.device))

    @classmethod
    def from_padded(
        cls, obs: Tensor, bodies: Sequence[Morphology], body_index: ArrayLike | Tensor
    ) -> LimbBatch:
        """The batch of flat observations (rows, width), row r of body `bodies[body_index[r]]`.

        What a row holds beyond its body's `limbs * 41` numbers is never read.
        """
        layout = layout_of(bodies, body_index, obs.device)
        if obs.dim() != 2 or len(obs) != layout.num_rows:
            raise ValueError(f"{layout.num_rows} rows expected; got {tuple(obs.shape)}")
        width = layout.max_limbs * FEATURES
        if obs.shape[1] < width:
            raise ValueError(
                f"the largest body has {layout.max_limbs} limbs, {width} numbers; "
                f"got {tuple(obs.shape)}"
            )
        return cls.from_rows(obs[:, :width], layout)

    @classmethod
    def from_rows(cls, obs: Tensor, layout: BatchLayout) -> LimbBatch:
        """The batch of flat observations (rows, max_limbs * 41), padded, of a layout."""
        limbs = layout.unpad(obs.reshape(layout.num_rows, layout.max_limbs, FEATURES))
        vectors = torch.cat((limbs[:, POSITION], limbs[:, VELOCITIES.start : AXES.stop]), dim=1)
        return cls(
            vectors.view(-1, NUM_VECTORS, 3),
            limbs[:, SCALARS].contiguous(),
            obs[:, GRAVITY],
            obs[:, TARGET],
            layout,
        )

    @property
    def squashed(self) -> Tensor:
        """(limbs, 6, 3): the vectors with long ones squashed, from length s to about sqrt(s).

        Velocities reach 10 while positions stay near 1. The factor depends on the length
        alone, so rotating or mirroring before or after is the same, and no two lengths
        become one.
        """
        square_length = self.vectors.square().sum(dim=-1, keepdim=True)
        return self.vectors * (square_length + 1).rsqrt().sqrt()

    @property
    def flat(self) -> Tensor:
        """(limbs, 41): all that a limb observes side by side, for methods without symmetry."""
        shared = self.fields.transpose(1, 2).flatten(1)
        return torch.cat((self.squashed.flatten(1), shared, self.scalars), dim=-1)

    @property
    def fields(self) -> Tensor:
        """(limbs, 3, 2): gravity and target direction, for each limb."""
        return self.layout.to_limbs(torch.stack((self.gravity, self.target), dim=-1))

    def select(self, rows: NDArray[np.int64]) -> LimbBatch:
        """Some of its rows, in the order given."""
        layout, take = self.layout.select(rows)
        index = torch.from_numpy(rows).to(self.vectors.device)
        return LimbBatch(
            take(self.vectors),
            take(self.scalars),
            self.gravity.index_select(0, index),
            self.target.index_select(0, index),
            layout,
        )

    def replace(self, **changes: Any) -> LimbBatch:
        """A batch with some parts changed."""
        return dataclasses.replace(self, **changes)
