"""Which limbs a batch has: its structure, worked out once and found again.

Rows lie limb after limb in one long list, so layers that work on a limb cost what the limbs cost,
whatever the bodies. `BatchLayout.pad` brings them to `(rows, max_limbs, ...)` and `unpad` takes
them back; both are views when all rows have as many limbs. Attention packs them more closely, see
`BatchLayout.packing`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sgrl.models.attention import Packing
from sgrl.morphology import Morphology
from sgrl.morphology.graph import (
    NUM_RELATIONS,
    NUM_TRAVERSALS,
    Graph,
    canonical_graph_of,
    graph_of,
)

if TYPE_CHECKING:
    from sgrl.models.mirrored import LayoutImage

CACHED_LAYOUTS = 256
"""Layouts kept; the least recently used goes first."""
CACHED_ROWS = 16_384
"""Rows of all kept layouts that mix bodies together, some 3 kB each; others are small."""


class BodyTables:
    """The structure of some bodies as tables that layouts look up, with room for the largest."""

    def __init__(self, bodies: tuple[Morphology, ...]) -> None:
        self.bodies = bodies
        self.counts = np.array([body.num_limbs for body in bodies])
        self.size = int(self.counts.max())
        """Limbs of the largest body."""
        self.parents = self._by_limb([graph_of(body).parents for body in bodies])
        self.depths = self._by_limb([graph_of(body).depths for body in bodies])
        self.hinges = self._by_limb([body.hinge_mask for body in bodies])
        """(bodies, size, 3) of bool: which of the hinges x, y and z each limb has."""
        self.actuated = self._by_limb([body.by_limb(body.actuated) for body in bodies])
        """(bodies, size, 3) of bool: which of them have a motor that moves something."""
        self._tensors: dict[tuple[str, torch.dtype, torch.device, bool], Tensor] = {}

    def _by_limb(self, of_bodies: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """(bodies, size, ...), zero in the gaps."""
        first = of_bodies[0]
        table = np.zeros((len(of_bodies), self.size, *first.shape[1:]), first.dtype)
        for row, values in zip(table, of_bodies, strict=True):
            row[: len(values)] = values
        return table

    def relations(self, dtype: torch.dtype, device: torch.device, canonical: bool) -> Tensor:
        """(bodies * size * size, 3), zero in the gaps: of the limb that comes first to the
        one that comes second; in the family's full body if `canonical`, or in the body itself."""
        return self._tensor("relations", dtype, device, canonical)

    def traversals(self, dtype: torch.dtype, device: torch.device, canonical: bool) -> Tensor:
        """(bodies * size, 3 * ranks), one-hot for each traversal: a limb's rank in it, in the
        family's full body if `canonical`, or in the body itself. Gaps are zero."""
        return self._tensor("traversals", dtype, device, canonical)

    def _tensor(
        self, name: str, dtype: torch.dtype, device: torch.device, canonical: bool
    ) -> Tensor:
        key = (name, dtype, device, canonical)
        if key not in self._tensors:
            make = {"relations": self._relations, "traversals": self._traversals}[name]
            graphs = [(canonical_graph_of if canonical else graph_of)(b) for b in self.bodies]
            self._tensors[key] = torch.from_numpy(make(graphs)).to(device, dtype)
        return self._tensors[key]

    def _relations(self, graphs: Sequence[Graph]) -> NDArray[np.float64]:
        table = np.zeros((len(graphs), self.size, self.size, NUM_RELATIONS))
        for body, graph, limbs in zip(table, graphs, self.counts, strict=True):
            body[:limbs, :limbs] = graph.relations
        return table.reshape(-1, NUM_RELATIONS)

    def _traversals(self, graphs: Sequence[Graph]) -> NDArray[np.float64]:
        ranks = 1 + max(int(graph.traversals.max()) for graph in graphs)
        table = np.zeros((len(graphs), self.size, NUM_TRAVERSALS, ranks))
        for body, graph, limbs in zip(table, graphs, self.counts, strict=True):
            np.put_along_axis(body[:limbs], graph.traversals[..., None], 1.0, axis=-1)
        return table.reshape(-1, NUM_TRAVERSALS * ranks)


class BatchLayout:
    """Which limbs a batch has: structure only, shared by all batches that look alike.

    Make it with `layout_of`, which finds an equal one again. Index tensors live on
    `device`; limbs are row after row, each row in the order of its body tree. They are worked
    out when first asked for, so compiled code needs one call of the plain code before it.
    """

    def __init__(self, tables: BodyTables, rows: NDArray[np.int64], device: torch.device) -> None:
        self.bodies = tables.bodies
        self.device = device
        self.num_rows = len(rows)
        self._tables = tables
        self._rows = rows
        self._counts = tables.counts[rows]
        self.num_limbs = int(self._counts.sum())
        self.max_limbs = int(self._counts.max())
        self.uniform = self.num_limbs == self.num_rows * self.max_limbs
        """All rows have as many limbs: padding is free."""
        self.alike = bool((rows == rows[0]).all())
        """All rows are of one body."""
        self._starts = np.cumsum(self._counts) - self._counts
        self._limb_row = np.repeat(np.arange(self.num_rows), self._counts)
        self._limb_index = np.arange(self.num_limbs) - self._starts[self._limb_row]
        # Where each limb is found in a list (bodies * size), and the limbs of the first row.
        self._limb_of_body = rows[self._limb_row] * tables.size + self._limb_index
        start = int(self._limb_of_body[0])
        self._first_row = slice(start, start + self.max_limbs)
        self._hinges = self._per_limb(tables.hinges)
        self._action_dims = tables.hinges.sum((1, 2))[rows]
        self.action_dim = int(self._action_dims.max())
        """Motors of the row that has most."""
        self._three_each = self.uniform and bool(self._hinges[self._limb_index > 0].all())

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _per_limb(self, table: NDArray[Any]) -> NDArray[Any]:
        """A table (bodies, size, ...) looked up for each limb of the batch."""
        found: NDArray[Any] = table.reshape(-1, *table.shape[2:])[self._limb_of_body]
        return found

    @cached_property
    def body_index(self) -> Tensor:
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
        """(limbs,): the index of a limb within its body; 0 is the torso."""
        return self._tensor(self._limb_index)

    @cached_property
    def hinges(self) -> Tensor:
        """(limbs, 3) of bool: which of the hinges x, y and z each limb has; a torso has none."""
        return self._tensor(self._hinges)

    @cached_property
    def action_hinges(self) -> Tensor | None:
        """(rows, action_dim): which hinge, 0 to 2, each action moves; None if all limbs but torsos
        have three, so that actions are of x, y, z again and again."""
        if self._hinges[self._limb_index > 0].all():
            return None
        kinds = torch.arange(3, device=self.device).expand(self.num_limbs, 3)
        return self.actions_to_rows(kinds)

    @cached_property
    def is_torso(self) -> Tensor:
        """(limbs,) of bool."""
        return self._tensor(self._limb_index == 0)

    @cached_property
    def actuated(self) -> Tensor:
        """(limbs, 3) of bool: which motors move something."""
        return self._tensor(self._per_limb(self._tables.actuated))

    @cached_property
    def mask(self) -> Tensor:
        """(rows, max_limbs) of bool: where a padded slot holds a limb."""
        return self._tensor(np.arange(self.max_limbs) < self._counts[:, None])

    @cached_property
    def image(self) -> LayoutImage:
        """Rows of the mirror images of the bodies, and which of their limbs is whose image."""
        from sgrl.models.mirrored import LayoutImage  # here, because it stands on layouts

        return LayoutImage.make(self)

    @cached_property
    def torsos(self) -> Tensor:
        """(rows,): the index of each row's torso among the limbs."""
        return self._tensor(self._starts)

    @cached_property
    def parents(self) -> Tensor:
        """(limbs,): the index of a limb's parent among the limbs; a torso is its own."""
        parents = self._per_limb(self._tables.parents)
        return self._tensor(np.where(parents < 0, 0, parents) + self._starts[self._limb_row])

    @cached_property
    def levels(self) -> tuple[Tensor, ...]:
        """Limbs of the batch by their depth in the tree, the torsos first."""
        depths = self._per_limb(self._tables.depths)
        order = np.argsort(depths, kind="stable")
        ends = np.cumsum(np.bincount(depths))[:-1]
        return tuple(self._tensor(level) for level in np.split(order, ends))

    @cached_property
    def packing(self) -> Packing:
        """The limbs in bins of one size, for limbs that attend to each other."""
        return Packing(self._counts, self.device)

    def relations(self, dtype: torch.dtype, canonical: bool) -> Tensor:
        """(1 or bins, size, size, 3): how limb j of a bin is related to limb i.

        They are related as in the family's full body if `canonical`, or as in the body itself. One
        bin stands for all if all rows are of one body; between rows there is anything.
        """
        if (dtype, canonical) not in self._relations:
            table = self._tables.relations(dtype, self.device, canonical)
            size = self._tables.size
            limb = self.packing.slots_of(self._limb_of_body)
            limb = limb[:1] if self.alike else limb
            pairs = limb[:, :, None] * size + limb[:, None, :] % size
            found = table.index_select(0, self._tensor(pairs.ravel()))
            self._relations[dtype, canonical] = found.view(*pairs.shape, -1)
        return self._relations[dtype, canonical]

    @cached_property
    def _relations(self) -> dict[tuple[torch.dtype, bool], Tensor]:
        return {}

    def traversals(self, dtype: torch.dtype, canonical: bool) -> Tensor:
        """One-hot ranks of the limbs of all bodies (bodies * size, 3 * ranks), see `BodyTables`."""
        return self._tables.traversals(dtype, self.device, canonical)

    def from_bodies(self, x: Tensor) -> Tensor:
        """(bodies * size, ...), what each limb of each body has, to (limbs, ...)."""
        if not self.alike:
            return x.index_select(0, self._body_limbs)
        one_row = x[self._first_row]
        return one_row.expand(self.num_rows, *one_row.shape).flatten(0, 1)

    @cached_property
    def _body_limbs(self) -> Tensor:
        return self._tensor(self._limb_of_body)

    @cached_property
    def _padded_limbs(self) -> Tensor:
        """(limbs,): where each limb goes in the padded list (rows * max_limbs)."""
        return self._tensor(self._limb_row * self.max_limbs + self._limb_index)

    def pad(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, max_limbs, ...), zero in the gaps; a view without gaps."""
        if not self.uniform:
            gaps = x.new_zeros(self.num_rows * self.max_limbs, *x.shape[1:])
            x = gaps.index_copy(0, self._padded_limbs, x)
        return x.view(self.num_rows, self.max_limbs, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """(rows, max_limbs, ...) to (limbs, ...): the inverse of `pad`."""
        x = x.reshape(self.num_rows * self.max_limbs, *x.shape[2:])
        return x if self.uniform else x.index_select(0, self._padded_limbs)

    def row_sum(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, ...): over the limbs of a row."""
        return self.pad(x).sum(dim=1)

    def row_mean(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, ...): mean over the limbs of a row."""
        total = self.row_sum(x)
        if self.uniform:
            return total / self.max_limbs
        return total / self.counts.to(x.dtype).view(-1, *(1,) * (x.dim() - 1))

    def to_limbs(self, x: Tensor) -> Tensor:
        """(rows, ...) to (limbs, ...): a row's value to each of its limbs."""
        if self.uniform:
            shape = (self.num_rows, self.max_limbs, *x.shape[1:])
            return x.unsqueeze(1).expand(shape).reshape(self.num_limbs, *x.shape[1:])
        return x.index_select(0, self.limb_row)

    def actions_to_rows(self, per_limb: Tensor) -> Tensor:
        """(limbs, 3) to (rows, action_dim): hinges that there are, 0 behind them."""
        if self._three_each:
            return per_limb.view(self.num_rows, self.max_limbs, 3)[:, 1:].flatten(1)
        hinges, motors = self._motors
        gaps = per_limb.new_zeros(self.num_rows * self.action_dim)
        found = per_limb.flatten().index_select(0, hinges)
        return gaps.index_copy(0, motors, found).view(self.num_rows, -1)

    def actions_to_limbs(self, actions: Tensor) -> Tensor:
        """(rows, at least action_dim) to (limbs, 3): 0 for hinges that there are not."""
        if actions.shape[0] != self.num_rows or actions.shape[-1] < self.action_dim:
            raise ValueError(
                f"actions of this batch are ({self.num_rows}, {self.action_dim}), or wider with "
                f"padding; got {tuple(actions.shape)}"
            )
        actions = actions[:, : self.action_dim]
        if self._three_each:
            limbs = actions.reshape(self.num_rows, self.max_limbs - 1, 3)
            return torch.nn.functional.pad(limbs, (0, 0, 1, 0)).flatten(0, 1)
        hinges, motors = self._motors
        gaps = actions.new_zeros(3 * self.num_limbs)
        found = actions.flatten().index_select(0, motors)
        return gaps.index_copy(0, hinges, found).view(-1, 3)

    @cached_property
    def _motors(self) -> tuple[Tensor, Tensor]:
        """Where the hinge of each motor is among (limbs * 3), and it among (rows * action_dim)."""
        hinges = np.flatnonzero(self._hinges)
        counts = self._action_dims
        within = np.arange(len(hinges)) - np.repeat(np.cumsum(counts) - counts, counts)
        motors = np.repeat(np.arange(self.num_rows), counts) * self.action_dim + within
        return self._tensor(hinges), self._tensor(motors)

    def select(self, rows: NDArray[np.int64]) -> tuple[BatchLayout, Callable[[Tensor], Tensor]]:
        """The layout of some rows, and what takes their limbs (n, ...) from (limbs, ...)."""
        layout = layout_of(self.bodies, self._rows[rows], self.device)
        index = self._tensor(self._starts[rows][layout._limb_row] + layout._limb_index)
        return layout, lambda x: x.index_select(0, index)


class _Cache(OrderedDict[Any, Any]):
    """The most recently used things, found by a key that may hold ids of their bodies."""

    def __init__(self, rows_of: Callable[[Any], int]) -> None:
        """`rows_of` tells how many of the `CACHED_ROWS` a thing takes."""
        super().__init__()
        self._rows_of = rows_of
        self._rows = 0

    def find(self, key: Any, make: Callable[[], Any]) -> Any:
        if key in self:
            self.move_to_end(key)
            return self[key]
        self[key] = made = make()
        self._rows += self._rows_of(made)
        while len(self) > 1 and (len(self) > CACHED_LAYOUTS or self._rows > CACHED_ROWS):
            _, oldest = self.popitem(last=False)
            self._rows -= self._rows_of(oldest)
        return made


_layouts = _Cache(lambda layout: 0 if layout.alike else layout.num_rows)
_tables = _Cache(lambda tables: 0)


def layout_of(
    bodies: Sequence[Morphology],
    body_index: ArrayLike | Tensor,
    device: torch.device | str = "cpu",
) -> BatchLayout:
    """The layout of rows whose bodies are `bodies[body_index]`; equal ones are one object."""
    if isinstance(body_index, Tensor):
        body_index = body_index.detach().cpu().numpy()
    rows = np.array(body_index, np.int64)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"body_index must list a body for each row, not have shape {rows.shape}")
    if rows.min() < 0 or rows.max() >= len(bodies):
        raise ValueError(f"body_index must point into the {len(bodies)} bodies given")
    # To hash a body is to hash all its geoms: too slow for each call. So an object stands
    # for itself first. Its id is safe as a key because the value holds on to the object.
    key, where = tuple(bodies), torch.device(device)
    _, tables = _tables.find(
        tuple(map(id, key)),
        lambda: (key, _tables.find(key, lambda: BodyTables(key))),
    )
    layout: BatchLayout = _layouts.find(
        (id(tables), rows.tobytes(), where), lambda: BatchLayout(tables, rows, where)
    )
    return layout
