"""Which limbs a batch has: its structure, worked out once and found again.

Rows lie limb after limb in one long list, so layers that work on a limb cost what the
limbs cost, whatever the bodies. `BatchLayout.pad` brings them to `(rows, max_limbs, ...)`
and `unpad` takes them back; both are views when all rows have as many limbs. Attention packs
them more closely: `BatchLayout.packing`.
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

from sgrl.models.bodies import BodySet
from sgrl.models.packing import Packing
from sgrl.morphology import Morphology

CACHED_LAYOUTS = 256
"""Layouts kept; the least recently used goes first."""
CACHED_ROWS = 16_384
"""Rows of all kept layouts that mix bodies together, some 3 kB each; others are small."""


class BatchLayout:
    """Which limbs a batch has: structure only, shared by all batches that look alike.

    Make it with `layout_of`, which finds an equal one again. Index tensors live on
    `device`; limbs are row after row, each row in the order of its body tree.
    """

    def __init__(self, body_set: BodySet, rows: NDArray[np.int64], device: torch.device) -> None:
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
        self.alike = bool((rows == rows[0]).all())
        """All rows are of one body."""
        start = int(rows[0]) * body_set.size
        self._first_row = slice(start, start + self.max_limbs)
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
    def actuated(self) -> Tensor:
        """(limbs, 3) of bool: which motors move something."""
        limbs = self._body_set.starts[self._rows][self._limb_row] + self._limb_index
        return self._tensor(self._body_set.actuated[limbs])

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
    def levels(self) -> tuple[Tensor, ...]:
        """Limbs of the batch by their depth in the tree, the torsos first."""
        depths = self._per_limb("depths")
        order = np.argsort(depths, kind="stable")
        ends = np.cumsum(np.bincount(depths))[:-1]
        return tuple(self._tensor(level) for level in np.split(order, ends))

    @cached_property
    def _places(self) -> Tensor:
        """(limbs,): where each limb goes in the padded list (rows * max_limbs)."""
        return self._tensor(self._limb_row * self.max_limbs + self._limb_index)

    def pad(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (rows, max_limbs, ...), zero in the gaps; a view without gaps."""
        if not self.uniform:
            gaps = x.new_zeros(self.num_rows * self.max_limbs, *x.shape[1:])
            x = gaps.index_copy(0, self._places, x)
        return x.view(self.num_rows, self.max_limbs, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """(rows, max_limbs, ...) to (limbs, ...): the inverse of `pad`."""
        x = x.reshape(self.num_rows * self.max_limbs, *x.shape[2:])
        if not self.uniform:
            x = x.index_select(0, self._places)
        return x

    def select(self, rows: NDArray[np.int64]) -> tuple[BatchLayout, Callable[[Tensor], Tensor]]:
        """The layout of some rows, and what takes their limbs (n, ...) from (limbs, ...)."""
        layout = layout_of(self.bodies, self._rows[rows], self.device)
        if self.uniform:
            index, count = self._tensor(rows), self.num_rows

            def take(x: Tensor) -> Tensor:
                by_row = x.reshape(count, -1)
                return by_row.index_select(0, index).view(-1, *x.shape[1:])

            return layout, take
        limbs = self._starts[rows][layout._limb_row] + layout._limb_index
        index = self._tensor(limbs)
        return layout, lambda x: x.index_select(0, index)

    @cached_property
    def packing(self) -> Packing:
        """The limbs in bins of one size, for limbs that attend to each other."""
        return Packing(self._body_set, self._rows, self._counts, self.device)

    def traversals(self, most: int, dtype: torch.dtype, whole: bool) -> Tensor:
        """One-hot rows (bodies * size, 3 * places), see `BodySet.traversals`."""
        return self._body_set.traversals(most, dtype, self.device, whole)

    def from_bodies(self, x: Tensor) -> Tensor:
        """(bodies * size, ...), what each limb of each body has, to (limbs, ...)."""
        if not self.alike:
            return x.index_select(0, self._kinds)
        one_row = x[self._first_row]
        return one_row.expand(self.num_rows, *one_row.shape).flatten(0, 1)

    @cached_property
    def _kinds(self) -> Tensor:
        """(limbs,): where each limb is found in a list (bodies * largest body)."""
        return self._tensor(self._rows[self._limb_row] * self._body_set.size + self._limb_index)

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
_body_sets = _Cache(lambda body_set: 0)


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
        lambda: (given, _body_sets.find(given, lambda: BodySet(given))),
    )
    layout: BatchLayout = _layouts.find(
        (id(body_set), rows.tobytes(), where), lambda: BatchLayout(body_set, rows, where)
    )
    return layout
