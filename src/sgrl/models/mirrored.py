"""The physical mirror in networks: what a body observes as its image would, and `+mirror`.

The mirror is that of `morphology.mirror`, in the plane y = 0: limbs swap sides, angular velocities
and hinge axes are axial. It is not the reflection of the paper's group (see `sgrl.symmetry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.envs.observation import (
    AXES,
    FEATURES,
    NUM_VECTORS,
    POSITION,
    SCALARS,
    VELOCITIES,
    mirrored,
)
from sgrl.models.batch import LimbBatch
from sgrl.models.layout import BatchLayout, layout_of
from sgrl.models.network import Role
from sgrl.morphology import Morphology, mirror_of
from sgrl.morphology.mirror import POLAR
from sgrl.symmetry import relative_error


@dataclass(frozen=True, eq=False)
class LayoutImage:
    """The images of the rows of a layout: limb i of them is the image of limb `sources[i]`."""

    layout: BatchLayout
    """Rows of the mirror images of the bodies."""
    sources: Tensor
    """(limbs,)."""
    images: Tensor
    """(limbs,): its inverse, of each limb its image."""
    signs: Tensor
    """(limbs, 3): -1 where a hinge of the image turns the other way."""
    vector_factors: Tensor
    """(limbs, 6, 3)."""
    scalar_factors: Tensor
    """(limbs, 17)."""
    scalar_offsets: Tensor
    """(limbs, 17)."""

    @classmethod
    def make(cls, layout: BatchLayout) -> LayoutImage:
        """The image of a layout, worked out once: see `BatchLayout.image`."""
        bodies = tuple(mirror_of(body).body for body in layout.bodies)
        rows, starts = layout.body_index.tolist(), layout.torsos.tolist()
        maps = {index: _maps(layout.bodies[index]) for index in set(rows)}
        sources = [
            start + mirror_of(layout.bodies[body]).sources
            for body, start in zip(rows, starts, strict=True)
        ]
        tables = [
            np.concatenate(parts) for parts in zip(*(maps[body] for body in rows), strict=True)
        ]
        source = np.concatenate(sources)

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(layout.device)

        return cls(
            layout_of(bodies, np.array(rows), layout.device),
            tensor(source),
            tensor(np.argsort(source)),
            *map(tensor, tables),
        )


def _maps(body: Morphology) -> tuple[NDArray[np.float32], ...]:
    """Signs, factors of vectors, factors and offsets of scalars of the limbs of a body's image."""
    mirror = mirror_of(body)
    shape = (body.num_limbs, FEATURES)
    offsets = mirrored(np.zeros(body.num_limbs * FEATURES, np.float32), mirror)
    factors = mirrored(np.ones(body.num_limbs * FEATURES, np.float32), mirror) - offsets
    offsets, factors = offsets.reshape(shape), factors.reshape(shape)
    vectors = np.hstack((factors[:, POSITION], factors[:, VELOCITIES.start : AXES.stop]))
    return (
        mirror.signs.astype(np.float32),
        vectors.reshape(-1, NUM_VECTORS, 3),
        factors[:, SCALARS].copy(),
        offsets[:, SCALARS].copy(),
    )


def mirror_batch(batch: LimbBatch) -> LimbBatch:
    """What the mirror images of a batch's bodies observe in the images of their states."""
    image = batch.layout.image
    dtype = batch.vectors.dtype
    vectors, scalars = (x.index_select(0, image.sources) for x in (batch.vectors, batch.scalars))
    return LimbBatch(
        vectors * image.vector_factors.to(dtype),
        torch.addcmul(image.scalar_offsets.to(dtype), scalars, image.scalar_factors.to(dtype)),
        batch.gravity,
        batch.target * batch.target.new_tensor(POLAR),
        image.layout,
    )


def mirror_actions(actions: Tensor, layout: BatchLayout) -> Tensor:
    """The images (limbs, 3) of actions (limbs, 3) of a layout's bodies."""
    image = layout.image
    return actions.index_select(0, image.sources) * image.signs.to(actions.dtype)


def unmirror_actions(actions: Tensor, layout: BatchLayout) -> Tensor:
    """The actions of a layout's bodies of which those given are the images."""
    image = layout.image
    return (actions * image.signs.to(actions.dtype)).index_select(0, image.images)


class MirrorAveraged(nn.Module):
    """f'(x) = (f(x) + M f(M x)) / 2, M the mirror: exactly symmetric, whatever f is.

    Raw log-stds and values are mirrored as they are. Reads observations as they are: a
    normalization that centers them would not commute with the mirror.
    """

    reads_raw = True
    """See `normalizer.reads_raw`."""

    def __init__(self, network: nn.Module, role: Role) -> None:
        super().__init__()
        self.network = network
        self.role = role

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs)."""
        layout = batch.layout
        there = mirror_batch(batch)
        if action is None:
            here, image = self.network(batch), self.network(there)
        else:
            here = self.network(batch, action)
            image = self.network(there, mirror_actions(action, layout))
        if not self.role.gives_action:
            back = image.index_select(0, layout.image.images)
        else:
            mean, rest = image.split((self.role.means, self.role.outputs - self.role.means), 1)
            rest = rest.index_select(0, layout.image.images)
            back = torch.cat((unmirror_actions(mean, layout), rest), dim=1)
        result: Tensor = 0.5 * (here + back)
        return result


def mirror_error(
    actor: Callable[[LimbBatch], Tensor | tuple[Tensor, ...]], batch: LimbBatch
) -> float:
    """How far what an actor does for the images is from the image of what it does, relative to the
    largest action (limbs, 3)."""
    here, there = (actor(one) for one in (batch, mirror_batch(batch)))
    if isinstance(here, tuple) or isinstance(there, tuple):
        raise TypeError("an actor gives actions alone")
    return relative_error(mirror_actions(here, batch.layout), there)
