"""The structure of some bodies as tables that layouts look up, worked out once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.morphology import Morphology
from sgrl.morphology.graph import (
    NUM_RELATIONS,
    NUM_TRAVERSALS,
    Graph,
    canonical_graph_of,
    graph_of,
)


class BodySet:
    """Some bodies, laid end to end; tables by body have room for the largest."""

    def __init__(self, bodies: tuple[Morphology, ...]) -> None:
        self.bodies = bodies
        self.counts = np.array([body.num_limbs for body in bodies])
        self.starts = np.cumsum(self.counts) - self.counts
        self.size = int(self.counts.max())
        """Limbs of the largest body."""
        self._tables: dict[tuple[int, torch.dtype, torch.device, bool], Tensor] = {}

    @cached_property
    def per_limb(self) -> dict[str, NDArray[np.int64]]:
        """What a `Graph` says of each limb, (limbs of all bodies,)."""
        graphs, names = self._graphs(whole=False), ("parents", "depths")
        return {n: np.concatenate([getattr(g, n) for g in graphs]) for n in names}

    @cached_property
    def actuated(self) -> NDArray[np.bool_]:
        """(limbs of all bodies, 3): which motors of each limb move something."""
        torso = np.zeros((1, 3), np.bool_)
        return np.concatenate(
            [part for body in self.bodies for part in (torso, body.actuated.reshape(-1, 3))]
        )

    def _graphs(self, *, whole: bool) -> list[Graph]:
        return [(canonical_graph_of if whole else graph_of)(body) for body in self.bodies]

    def relations(self, dtype: torch.dtype, device: torch.device, whole: bool) -> Tensor:
        """(bodies * size * size, 3), zero in the gaps: of the limb that comes first to the
        one that comes second; in the `whole` body or in the body itself."""
        key = (0, dtype, device, whole)
        if key not in self._tables:
            table = np.zeros((len(self.bodies), self.size, self.size, NUM_RELATIONS))
            graphs = self._graphs(whole=whole)
            for body, graph, limbs in zip(table, graphs, self.counts, strict=True):
                body[:limbs, :limbs] = graph.relations
            flat = table.reshape(-1, NUM_RELATIONS)
            self._tables[key] = torch.from_numpy(flat).to(device, dtype)
        return self._tables[key]

    def traversals(
        self, most: int, dtype: torch.dtype, device: torch.device, whole: bool
    ) -> Tensor:
        """(bodies * size, 3 * places), one-hot for each traversal: a limb's place in it, in the
        `whole` body or in the body itself.

        There are as many places as needed, but `most` at most: further limbs have the last one.
        Gaps are zero.
        """
        key = (most, dtype, device, whole)
        if key not in self._tables:
            graphs = self._graphs(whole=whole)
            places = min(most, 1 + max(int(graph.traversals.max()) for graph in graphs))
            table = np.zeros((len(self.bodies), self.size, NUM_TRAVERSALS, places))
            for body, graph, limbs in zip(table, graphs, self.counts, strict=True):
                found = np.minimum(graph.traversals, places - 1)[..., None]
                np.put_along_axis(body[:limbs], found, 1.0, axis=-1)
            flat = table.reshape(-1, NUM_TRAVERSALS * places)
            self._tables[key] = torch.from_numpy(flat).to(device, dtype)
        return self._tables[key]
