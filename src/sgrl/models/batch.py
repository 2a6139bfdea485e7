"""One batch of limbs that every method reads; its rows may be of different bodies.

Rows lie limb after limb in one long list, so layers that work on a limb cost what the
limbs cost, whatever the bodies. Where limbs must meet, `BatchLayout.pad` brings them to
`(rows, max_limbs, ...)` and `unpad` takes them back; both are views when all rows have as
many limbs. A layout holds structure only. It is built once and found again.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from sgrl.morphology import Morphology
from sgrl.morphology.graph import graph_of

CACHED_LAYOUTS = 256
"""Layouts kept; the least recently used goes first. One of 100 rows is about 50 kB."""


class _BodySet:
    """The structure of some bodies, laid end to end; NumPy until a layout asks for it."""

    def __init__(self, bodies: tuple[Morphology, ...]) -> None:
        self.bodies = bodies
        self.counts = np.array([body.num_limbs for body in bodies])
        self.starts = np.cumsum(self.counts) - self.counts
        self._graphs = tuple(graph_of(body) for body in bodies)
        self._relations: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    @cached_property
    def per_limb(self) -> dict[str, NDArray[np.int64]]:
        """What a `Graph` says of each limb, (limbs of all bodies, ...)."""
        names = ("parents", "child_slots", "depths", "traversals")
        return {n: np.concatenate([getattr(g, n) for g in self._graphs]) for n in names}

    def relations(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """(bodies, limbs, limbs, 3), zero in the gaps."""
        key = (dtype, device)
        if key not in self._relations:
            size = self.counts.max()
            table = np.zeros((len(self.bodies), size, size, 3))
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
        return self._body_set.per_limb[name][start[self._limb_row] + self._limb_index]

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

    @cached_property
    def traversals(self) -> Tensor:
        """(limbs, 3): each limb's places in the traversals of its body."""
        return self._tensor(self._per_limb("traversals"))

    def relations(self, dtype: torch.dtype) -> Tensor:
        """(bodies, max_limbs, max_limbs, 3): relations in each body; 0 in the gaps.

        Per body, not per row: map them first, then `by_row`. Limbs beyond `max_limbs`, of
        bodies with no row here, are left out.
        """
        size = self.max_limbs
        return self._body_set.relations(dtype, self.device)[:, :size, :size]

    @cached_property
    def _places(self) -> Tensor:
        """(limbs,): where each limb goes in the padded list (rows * max_limbs)."""
        return self._tensor(self._limb_row * self.max_limbs + self._limb_index)

    def pad(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, max_limbs, ...), zero in the gaps; a view without gaps."""
        if not self.uniform:
            x = _Scatter.apply(x, self._places, self.num_rows * self.max_limbs)  # type: ignore[no-untyped-call]
        return x.view(self.num_rows, self.max_limbs, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """(rows, max_limbs, ...) to (limbs, ...): the inverse of `pad`."""
        x = x.reshape(self.num_rows * self.max_limbs, *x.shape[2:])
        if not self.uniform:
            x = _Gather.apply(x, self._places)  # type: ignore[no-untyped-call]
        return x

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

    def by_row(self, x: Tensor) -> Tensor:
        """(bodies, ...) to (rows, ...), or to (1, ...) if there is but one body."""
        return x if len(self.bodies) == 1 else x.index_select(0, self.row_body)

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


class _Scatter(torch.autograd.Function):
    """Rows to their places in a longer list of zeros; no two share a place.

    Its gradient is a plain selection, where PyTorch's own indexing would have to expect
    repeated places and add up row by row.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(places)
        return x.new_zeros(length, *x.shape[1:]).index_copy_(0, places, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return _Gather.apply(grad, places), None, None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """The inverse of `_Scatter`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.length = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return _Scatter.apply(grad, places, ctx.length), None  # type: ignore[no-untyped-call]


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
    rows = np.asarray(row_body, np.int64)
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"row_body must list a body for each row, not have shape {rows.shape}")
    if rows.min() < 0 or rows.max() >= len(bodies):
        raise ValueError(f"row_body must point into the {len(bodies)} bodies given")
    return _find(bodies, rows, rows.tobytes(), torch.device(device))


def _find(
    bodies: Sequence[Morphology],
    rows: NDArray[np.int64] | None,
    rows_key: bytes | int,
    device: torch.device,
) -> BatchLayout:
    """A layout by its rows; `rows=None` means `rows_key` rows of one body."""
    # To hash a body is to hash all its geoms: too slow for each call. So an object stands
    # for itself first. Its id is safe as a key because the value holds on to the object.
    given = tuple(bodies)
    _, body_set = _body_sets.find(
        tuple(map(id, given)),
        lambda: (given, _body_sets.find(given, lambda: _BodySet(given))),
    )
    layout: BatchLayout = _layouts.find(
        (id(body_set), rows_key, device),
        lambda: BatchLayout(
            body_set, np.zeros(rows_key, np.int64) if rows is None else rows, device
        ),
    )
    return layout


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
        """From flat observations (rows, limbs * 41) of one body."""
        if obs.dim() != 2 or obs.shape[1] != body.num_limbs * FEATURES:
            raise ValueError(
                f"{body.name} has {body.num_limbs} limbs and observes (rows, "
                f"{body.num_limbs * FEATURES}); got {tuple(obs.shape)}"
            )
        return cls._from_rows(obs, _find((body,), None, len(obs), obs.device))

    @classmethod
    def from_padded(
        cls, obs: Tensor, bodies: Sequence[Morphology], row_body: ArrayLike | Tensor
    ) -> LimbBatch:
        """From flat observations (rows, width), row r of body `bodies[row_body[r]]`.

        What a row holds beyond its body's `limbs * 41` numbers is never read.
        """
        layout = layout_of(bodies, row_body, obs.device)
        if obs.dim() != 2 or len(obs) != layout.num_rows:
            raise ValueError(f"{layout.num_rows} rows expected; got {tuple(obs.shape)}")
        width = layout.max_limbs * FEATURES
        if obs.shape[1] < width:
            raise ValueError(
                f"the largest body has {layout.max_limbs} limbs, {width} numbers; "
                f"got {tuple(obs.shape)}"
            )
        return cls._from_rows(obs[:, :width], layout)

    @classmethod
    def _from_rows(cls, obs: Tensor, layout: BatchLayout) -> LimbBatch:
        limbs = layout.unpad(obs.reshape(layout.num_rows, layout.max_limbs, FEATURES))
        vectors = torch.cat((limbs[:, POSITION], limbs[:, VELOCITIES.start : AXES.stop]), dim=1)
        return cls(
            vectors.view(-1, NUM_VECTORS, 3),
            limbs[:, SCALARS],
            obs[:, GRAVITY],
            obs[:, TARGET],
            layout,
        )

    def replace(self, **changes: Any) -> LimbBatch:
        """A batch with some parts changed."""
        return dataclasses.replace(self, **changes)
