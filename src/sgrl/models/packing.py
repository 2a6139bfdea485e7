"""Limbs in bins of one size: what attention works on when rows are of different sizes.

Padding each row to the largest body would nearly double the limbs of a usual mix. Here
several small rows share a bin, and a mask keeps them apart. A network packs its inputs
once, works on bins throughout, and unpacks what it says. Rows that are all of one size are
bins as they lie, and nothing moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.models.bodies import BodySet
from sgrl.models.padding import Gather, Repeat

Indices = NDArray[np.int64]


def fill_bins(counts: Indices, size: int) -> tuple[Indices, Indices, int]:
    """A bin and a place in it for each of the rows of `counts` limbs; the number of bins.

    Large rows first, each into the bin that it fills best.
    """
    bins, offsets, used = [0] * len(counts), [0] * len(counts), 0
    limbs_of = counts.tolist()
    with_room: list[list[int]] = [[] for _ in range(size + 1)]
    for row in np.argsort(-counts, kind="stable").tolist():
        limbs = limbs_of[row]
        for room in range(limbs, size + 1):
            if with_room[room]:
                chosen = with_room[room].pop()
                break
        else:
            chosen, room, used = used, size, used + 1
        bins[row], offsets[row] = chosen, size - room
        with_room[room - limbs].append(chosen)
    return np.array(bins), np.array(offsets), used


class Packing:
    """The limbs of a batch in `bins` bins of `size`; a place in a bin is a slot."""

    def __init__(
        self, body_set: BodySet, rows: Indices, counts: Indices, device: torch.device
    ) -> None:
        """`rows` are the bodies of the batch's rows, `counts` their limbs."""
        self.size = int(counts.max())
        self.device = device
        self._body_set = body_set
        self._rows = rows
        self._counts = counts
        self._tables: dict[tuple[str, int, torch.dtype], Tensor] = {}
        self._alike = bool((rows == rows[0]).all())
        self._free = bool((counts == self.size).all())
        if self._free:
            self.bins = len(rows)
            self._bins, self._offsets = np.arange(len(rows)), np.zeros_like(rows)
        else:
            self._bins, self._offsets, self.bins = fill_bins(counts, self.size)
        starts = np.cumsum(counts) - counts
        limb_row = np.repeat(np.arange(len(rows)), counts)
        index = np.arange(len(limb_row)) - starts[limb_row]
        slots = (self._bins * self.size + self._offsets)[limb_row] + index
        self.mask: Tensor | None = None
        """(1, bins, size, size): minus infinity between limbs of different rows; None if
        there are none in a bin."""
        if not self._free:
            # A gap holds a copy of the first limb and hears only gaps.
            sources = np.zeros(self.bins * self.size, np.int64)
            sources[slots] = np.arange(len(slots))
            self._sources, self._slots = self._tensor(sources), self._tensor(slots)
            row_of = np.full((self.bins, self.size), -1)
            row_of.flat[slots] = limb_row
            apart = row_of[:, :, None] != row_of[:, None, :]
            self.mask = self._tensor(np.where(apart, np.float32(-np.inf), np.float32(0.0))[None])
        # Where the limb in each slot is found in a list (bodies * largest body).
        self._places = np.zeros(self.bins * self.size, np.int64)
        self._places[slots] = rows[limb_row] * body_set.size + index

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def pack(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (slots, ...). Gaps hold anything finite, and no gradient."""
        if self._free:
            return x
        packed: Tensor = Repeat.apply(x, self._sources, self._slots)  # type: ignore[no-untyped-call]
        return packed

    def unpack(self, x: Tensor) -> Tensor:
        """(slots, ...) to (limbs, ...): the inverse of `pack`."""
        if self._free:
            return x
        limbs: Tensor = Gather.apply(x, self._slots)  # type: ignore[no-untyped-call]
        return limbs

    def relations(self, dtype: torch.dtype) -> Tensor:
        """(3, bins, size, size): in [:, bin, i, j] how limb i matters to limb j of a row.

        One bin, which stands for all, if all rows are of one body. Between rows anything.
        """
        key = ("relations", 0, dtype)
        if key not in self._tables:
            size = self._body_set.size
            places = self._places[: self.size] if self._alike else self._places
            limb = (places % size).reshape(-1, self.size, 1)
            start = (places * size).reshape(-1, 1, self.size)
            table = self._body_set.relations(dtype, self.device)
            found = table.index_select(1, self._tensor((start + limb).ravel()))
            self._tables[key] = found.view(len(table), -1, self.size, self.size)
        return self._tables[key]

    def traversals(self, places: int, dtype: torch.dtype) -> Tensor:
        """(bins, size, 3 * places): one-hot, see `BodySet.traversals`; one bin for all if all
        rows are of one body."""
        key = ("traversals", places, dtype)
        if key not in self._tables:
            found = self._places[: self.size] if self._alike else self._places
            table = self._body_set.traversals(places, dtype, self.device)
            chosen = table.index_select(0, self._tensor(found))
            self._tables[key] = chosen.view(-1, self.size, chosen.shape[-1])
        return self._tables[key]

    def by_row(self, x: Tensor) -> Tensor:
        """(bins, heads, size, size) to (rows, heads, size, size), zero beyond a row's limbs."""
        inside = np.arange(self.size)
        is_limb = inside < self._counts[:, None]
        slot = np.where(is_limb, self._offsets[:, None] + inside, 0)
        bins = self._tensor(self._bins)[:, None, None]
        slots, real = self._tensor(slot), self._tensor(is_limb)
        found = x.transpose(0, 1)[:, bins, slots[:, :, None], slots[:, None, :]].transpose(0, 1)
        return found * (real[:, None, :, None] & real[:, None, None, :])
