"""Which limbs a batch has: its structure, worked out once and found again.

Rows lie limb after limb in one long list, so layers that work on a limb cost what the
limbs cost, whatever the bodies. Where limbs must meet, `BatchLayout.pad` brings them to
`(rows, max_limbs, ...)` and `unpad` takes them back; both are views when all rows have as
many limbs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import embedding

from sgrl.models.padding import Gather, Repeat, Scatter
from sgrl.morphology import Morphology
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS, graph_of

CACHED_LAYOUTS = 256
"""Layouts kept; the least recently used goes first. One of 100 rows is about 50 kB."""


def _shares(width: int, parts: int) -> NDArray[np.int64]:
    """(width,): the part that each column belongs to, as evenly as can be."""
    return np.arange(width) * parts // width


class _BodySet:
    """The structure of some bodies, laid end to end; NumPy until a layout asks for it."""

    def __init__(self, bodies: tuple[Morphology, ...]) -> None:
        self.bodies = bodies
        self.counts = np.array([body.num_limbs for body in bodies])
        self.starts = np.cumsum(self.counts) - self.counts
        self._graphs = tuple(graph_of(body) for body in bodies)
        self._relations: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self._places: dict[tuple[int, int, int, torch.device], Tensor] = {}

    @cached_property
    def per_limb(self) -> dict[str, NDArray[np.int64]]:
        """What a `Graph` says of each limb, (limbs of all bodies,)."""
        names = ("parents", "child_slots", "depths")
        return {n: np.concatenate([getattr(g, n) for g in self._graphs]) for n in names}

    def places(self, limbs: int, width: int, places: int, device: torch.device) -> Tensor:
        """(bodies * limbs, width): see `BatchLayout.body_places`."""
        key = (limbs, width, places, device)
        if key not in self._places:
            table = np.zeros((len(self.bodies), self.counts.max(), NUM_TRAVERSALS), np.int64)
            for body, graph, count in zip(table, self._graphs, self.counts, strict=True):
                body[:count] = graph.traversals
            columns = np.minimum(table, places - 1)[:, :limbs, _shares(width, NUM_TRAVERSALS)]
            self._places[key] = torch.from_numpy(columns.reshape(-1, width)).to(device)
        return self._places[key]

    def relations(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """(bodies, limbs, limbs, 3), zero in the gaps."""
        key = (dtype, device)
        if key not in self._relations:
            size = self.counts.max()
            table = np.zeros((len(self.bodies), size, size, NUM_RELATIONS))
            for body, graph, limbs in zip(table, self._graphs, self.counts, strict=True):
                body[:limbs, :limbs] = graph.relations
            self._relations[key] = torch.from_numpy(table).to(device, dtype)
        return self._relations[key]


class BatchLayout:
    """Which limbs a batch has: structure only, shared by all batches that look alike.

    Make it with `layout_of`, which finds an equal one again. Index tensors live on
    `device`; limbs are row after row, each row in the order of its body tree.
    """

    def __init__(self, body_set: _BodySet, rows: NDArray[np.int64], device: torch.device) -> None:
        self.bodies = body_set.bodies
        self.device = device
        self.num_rows = len(rows)
        self._body_set = body_set
        self._rows = rows
        self._counts = body_set.counts[rows]
        self.num_limbs = int(self._counts.sum())
        self.max_limbs = int(self._counts.max())
        self.uniform = self.num_limbs == self.num_rows * self.max_limbs
        """All rows have as many limbs: padding is free."""
        self._starts = np.cumsum(self._counts) - self._counts
        self._limb_row = np.repeat(np.arange(self.num_rows), self._counts)
        self._limb_index = np.arange(self.num_limbs) - self._starts[self._limb_row]

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _per_limb(self, name: str) -> NDArray[np.int64]:
        """What a `Graph` says of each limb, for the limbs of the batch."""
        start = self._body_set.starts[self._rows]
        found: NDArray[np.int64] = self._body_set.per_limb[name][
            start[self._limb_row] + self._limb_index
        ]
        return found

    @cached_property
    def row_body(self) -> Tensor:
        """(rows,): index into `bodies`."""
        return self._tensor(self._rows)

    @cached_property
    def counts(self) -> Tensor:
        """(rows,): limbs of each row."""
        return self._tensor(self._counts)

    @cached_property
    def limb_row(self) -> Tensor:
        """(limbs,): the row of each limb."""
        return self._tensor(self._limb_row)

    @cached_property
    def limb_index(self) -> Tensor:
        """(limbs,): the place of a limb within its body; 0 is the torso."""
        return self._tensor(self._limb_index)

    @cached_property
    def is_torso(self) -> Tensor:
        """(limbs,) of bool."""
        return self._tensor(self._limb_index == 0)

    @cached_property
    def mask(self) -> Tensor:
        """(rows, max_limbs) of bool: where a padded place holds a limb."""
        return self._tensor(np.arange(self.max_limbs) < self._counts[:, None])

    @cached_property
    def torsos(self) -> Tensor:
        """(rows,): where each row's torso lies among the limbs."""
        return self._tensor(self._starts)

    @cached_property
    def parents(self) -> Tensor:
        """(limbs,): where a limb's parent lies among the limbs; a torso is its own."""
        parents = self._per_limb("parents")
        parents = np.where(parents < 0, 0, parents)
        return self._tensor(parents + self._starts[self._limb_row])

    @cached_property
    def child_slots(self) -> Tensor:
        """(limbs,): how many siblings come before a limb."""
        return self._tensor(self._per_limb("child_slots"))

    @cached_property
    def levels(self) -> tuple[Tensor, ...]:
        """Limbs of the batch by their depth in the tree, the torsos first."""
        depths = self._per_limb("depths")
        order = np.argsort(depths, kind="stable")
        ends = np.cumsum(np.bincount(depths))[:-1]
        return tuple(self._tensor(level) for level in np.split(order, ends))

    def body_places(self, width: int, places: int) -> Tensor:
        """(bodies * max_limbs, width): the place of a limb in the traversals, the columns
        shared out evenly among them; places from `places` on are the last one's.

        Per body, not per row: look them up first, then `by_limb`.
        """
        return self._body_set.places(self.max_limbs, width, places, self.device)

    def relations(self, dtype: torch.dtype) -> Tensor:
        """(bodies, max_limbs, max_limbs, 3): relations in each body; 0 in the gaps.

        Per body, not per row: map them first, then give each row its body's. Limbs beyond
        `max_limbs`, of bodies with no row here, are left out.
        """
        size = self.max_limbs
        return self._body_set.relations(dtype, self.device)[:, :size, :size]

    @cached_property
    def _places(self) -> Tensor:
        """(limbs,): where each limb goes in the padded list (rows * max_limbs)."""
        return self._tensor(self._limb_row * self.max_limbs + self._limb_index)

    @cached_property
    def _body_places(self) -> Tensor:
        """(limbs,): where each limb is found in a list (bodies * max_limbs)."""
        return self._tensor(self._rows[self._limb_row] * self.max_limbs + self._limb_index)

    def pad(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, max_limbs, ...), zero in the gaps; a view without gaps."""
        if not self.uniform:
            x = Scatter.apply(x, self._places, self.num_rows * self.max_limbs)  # type: ignore[no-untyped-call]
        return x.view(self.num_rows, self.max_limbs, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """(rows, max_limbs, ...) to (limbs, ...): the inverse of `pad`."""
        x = x.reshape(self.num_rows * self.max_limbs, *x.shape[2:])
        if not self.uniform:
            x = Gather.apply(x, self._places)  # type: ignore[no-untyped-call]
        return x

    @cached_property
    def together(self) -> Grouping:
        """All rows padded to the largest body."""
        return Grouping(self, (np.arange(self.num_rows),))

    @cached_property
    def by_size(self) -> Grouping:
        """Rows of small and of large bodies apart, so that the small are padded less."""
        if self.uniform:
            return self.together
        # Attention costs the square of the padded size.
        sizes = np.unique(self._counts)
        small = self._counts <= sizes[:, None]
        cost = small.sum(axis=1) * sizes**2 + (~small).sum(axis=1) * self.max_limbs**2
        best = small[np.argmin(cost)]
        return Grouping(self, (np.flatnonzero(best), np.flatnonzero(~best)))

    def row_sum(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, ...): over the limbs of a row."""
        return self.pad(x).sum(dim=1)

    def row_mean(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, ...): mean over the limbs of a row."""
        total = self.row_sum(x)
        if self.uniform:
            return total / self.max_limbs
        return total / self.counts.to(x.dtype).view(-1, *(1,) * (x.dim() - 1))

    def spread(self, x: Tensor) -> Tensor:
        """(rows, ...) to (limbs, ...): a row's value to each of its limbs."""
        if self.uniform:
            shape = (self.num_rows, self.max_limbs, *x.shape[1:])
            return x.unsqueeze(1).expand(shape).reshape(self.num_limbs, *x.shape[1:])
        return x.index_select(0, self.limb_row)

    def by_limb(self, x: Tensor) -> Tensor:
        """(bodies, max_limbs, width) to (limbs, width): a body's values to all its rows."""
        if len(self.bodies) == 1:
            return x.expand(self.num_rows, -1, -1).flatten(0, 1)
        return embedding(self._body_places, x.flatten(0, 1))

    def actions_to_rows(self, per_limb: Tensor) -> Tensor:
        """(limbs, 3) to (rows, 3 * (max_limbs - 1)): the torso left out, 0 in the gaps."""
        return self.pad(per_limb)[:, 1:].flatten(1)

    def actions_to_limbs(self, actions: Tensor) -> Tensor:
        """(rows, at least 3 * (max_limbs - 1)) to (limbs, 3): 0 for the torso."""
        width = 3 * (self.max_limbs - 1)
        if actions.shape[0] != self.num_rows or actions.shape[-1] < width:
            raise ValueError(
                f"actions of this batch are ({self.num_rows}, {width}), or wider with "
                f"padding; got {tuple(actions.shape)}"
            )
        limbs = actions[:, :width].reshape(self.num_rows, self.max_limbs - 1, 3)
        return self.unpad(torch.nn.functional.pad(limbs, (0, 0, 1, 0)))


class RowGroup:
    """Some rows of a batch, padded to the largest of them."""

    def __init__(self, layout: BatchLayout, rows: NDArray[np.int64]) -> None:
        counts = layout._counts[rows]
        self.rows = rows
        """Numbers of the rows in the batch."""
        self.max_limbs = int(counts.max())
        places = np.arange(self.max_limbs)
        self.is_limb = places < counts[:, None]
        """(rows, max_limbs) of bool: where a place holds a limb."""
        inside = np.minimum(places, counts[:, None] - 1)
        self.sources = (layout._starts[rows, None] + inside).ravel()
        """(rows * max_limbs,): the limb at each place; the row's last one for a gap."""
        self.row_body = layout._tensor(layout._rows[rows])
        """(rows,): index into the batch's bodies."""
        self.gap_bias: Tensor | None = None
        """(rows, 1, 1, max_limbs): minus infinity in the gaps, for attention logits."""
        if not self.is_limb.all():
            bias = np.where(self.is_limb, 0.0, -np.inf).astype(np.float32)
            self.gap_bias = layout._tensor(bias[:, None, None])


class Grouping:
    """The rows of a batch in groups, each padded by itself."""

    def __init__(self, layout: BatchLayout, groups: Sequence[NDArray[np.int64]]) -> None:
        self.groups = tuple(RowGroup(layout, rows) for rows in groups if rows.size)
        self._sizes = [group.sources.size for group in self.groups]
        self._free = layout.uniform
        if not self._free:
            sources = np.concatenate([group.sources for group in self.groups])
            is_limb = np.concatenate([group.is_limb.ravel() for group in self.groups])
            places = np.empty(layout.num_limbs, np.int64)
            places[sources[is_limb]] = np.flatnonzero(is_limb)
            self._sources, self._places = layout._tensor(sources), layout._tensor(places)

    def pad(self, x: Tensor) -> list[Tensor]:
        """(limbs, ...) to (group's rows, group's max_limbs, ...) for each group.

        Gaps hold anything finite. What depends on them must not be used: no gradient goes
        through them.
        """
        if not self._free:
            x = Repeat.apply(x, self._sources, self._places)  # type: ignore[no-untyped-call]
        parts = torch.split(x, self._sizes)
        return [
            part.view(len(group.rows), group.max_limbs, *x.shape[1:])
            for group, part in zip(self.groups, parts, strict=True)
        ]

    def unpad(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `pad`."""
        flat = [part.flatten(0, 1) for part in parts]
        x = flat[0] if len(flat) == 1 else torch.cat(flat)
        if not self._free:
            x = Gather.apply(x, self._places)  # type: ignore[no-untyped-call]
        return x


class _Cache(OrderedDict[Any, Any]):
    """The most recently used things, found by a key that may hold ids of their bodies."""

    def find(self, key: Any, make: Callable[[], Any]) -> Any:
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
            if len(self) > CACHED_LAYOUTS:
                self.popitem(last=False)
        return self[key]


_layouts = _Cache()
_body_sets = _Cache()


def layout_of(
    bodies: Sequence[Morphology],
    row_body: ArrayLike | Tensor,
    device: torch.device | str = "cpu",
) -> BatchLayout:
    """The layout of rows whose bodies are `bodies[row_body]`; equal ones are one object."""
    if isinstance(row_body, Tensor):
        row_body = row_body.detach().cpu().numpy()
    rows = np.array(row_body, np.int64)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"row_body must list a body for each row, not have shape {rows.shape}")
    if rows.min() < 0 or rows.max() >= len(bodies):
        raise ValueError(f"row_body must point into the {len(bodies)} bodies given")
    # To hash a body is to hash all its geoms: too slow for each call. So an object stands
    # for itself first. Its id is safe as a key because the value holds on to the object.
    given, where = tuple(bodies), torch.device(device)
    _, body_set = _body_sets.find(
        tuple(map(id, given)),
        lambda: (given, _body_sets.find(given, lambda: _BodySet(given))),
    )
    layout: BatchLayout = _layouts.find(
        (id(body_set), rows.tobytes(), where), lambda: BatchLayout(body_set, rows, where)
    )
    return layout
