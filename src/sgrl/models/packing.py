"""Limbs in bins of one size: what attention works on when rows are of different sizes.

Layers that work on a limb run over the limbs of a batch as they lie. Attention needs rows of one
size, and padding each to the largest body would nearly double the limbs of a usual mix. Here
several rows share a bin, and a mask keeps them apart. Attention packs what it reads and unpacks
what it says, so a gap costs a slot there and nowhere else. Rows that are all of one size are
bins as they lie, and nothing moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.models.bodies import BodySet

Indices = NDArray[np.int64]

MANY_SLOTS = 1.2
"""Slots for each limb above which another size of bins is tried."""
FREE_SIZE = 32
"""Limbs of a bin at which what grows with the square of its size costs about what the rest does."""


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


def choose_bins(counts: Indices) -> tuple[Indices, Indices, int, int]:
    """`fill_bins` with bins that leave few gaps, and their size.

    That of the largest row does for most mixes. If most rows are of another, which leaves their
    bins part empty, it is the next multiple of that. Larger bins cost more: logits and masks grow
    with the square, and every size that is tried takes its time.
    """
    size = int(counts.max())
    *filled, bins = fill_bins(counts, size)
    if bins * size > MANY_SLOTS * counts.sum():
        usual = int(np.bincount(counts).argmax())
        larger = -(-size // usual) * usual
        *others, fewer = fill_bins(counts, larger)
        if fewer * larger * (1 + larger / FREE_SIZE) < bins * size * (1 + size / FREE_SIZE):
            filled, bins, size = others, fewer, larger
    return filled[0], filled[1], bins, size


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
        self._relations: dict[tuple[torch.dtype, bool], Tensor] = {}
        self._alike = bool((rows == rows[0]).all())
        self._free = bool((counts == self.size).all())
        if self._free:
            self.bins = len(rows)
            self._bins, self._offsets = np.arange(len(rows)), np.zeros_like(rows)
        else:
            self._bins, self._offsets, self.bins, self.size = choose_bins(counts)
        starts = np.cumsum(counts) - counts
        limb_row = np.repeat(np.arange(len(rows)), counts)
        index = np.arange(len(limb_row)) - starts[limb_row]
        slots = (self._bins * self.size + self._offsets)[limb_row] + index
        self.mask: Tensor | None = None
        """(bins, 1, size, size): minus infinity between limbs of different rows; None if
        there are none in a bin."""
        if not self._free:
            # A gap holds a copy of the batch's first limb and hears only gaps. Those of a bin are
            # alike, so it makes no difference to which of them it listens: no gradient.
            sources = np.zeros(self.bins * self.size, np.int64)
            sources[slots] = np.arange(len(slots))
            self._sources, self._slots = self._tensor(sources), self._tensor(slots)
            row_of = np.full((self.bins, self.size), -1)
            row_of.flat[slots] = limb_row
            apart = row_of[:, :, None] != row_of[:, None, :]
            self.mask = self._tensor(np.where(apart, np.float32(-np.inf), np.float32(0.0))[:, None])
        # Where the limb in each slot is found in a list (bodies * largest body).
        self._places = np.zeros(self.bins * self.size, np.int64)
        self._places[slots] = rows[limb_row] * body_set.size + index

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def pack(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (bins, size, ...). Gaps are all alike."""
        x = x if self._free else x.index_select(0, self._sources)
        return x.view(self.bins, self.size, *x.shape[1:])

    def unpack(self, x: Tensor) -> Tensor:
        """(bins, size, ...) to (limbs, ...): the inverse of `pack`."""
        x = x.flatten(0, 1)
        return x if self._free else x.index_select(0, self._slots)

    def relations(self, dtype: torch.dtype, whole: bool) -> Tensor:
        """(bins, size, size, 3): in [bin, i, j] how limb j matters to limb i of a row, in the
        `whole` body or in the body itself.

        One bin, which stands for all, if all rows are of one body. Between rows anything.
        """
        key = (dtype, whole)
        if key not in self._relations:
            size = self._body_set.size
            places = self._places[: self.size] if self._alike else self._places
            limb = (places % size).reshape(-1, 1, self.size)
            start = (places * size).reshape(-1, self.size, 1)
            table = self._body_set.relations(dtype, self.device, whole)
            found = table.index_select(0, self._tensor((start + limb).ravel()))
            self._relations[key] = found.view(-1, self.size, self.size, table.shape[1])
        return self._relations[key]

    def by_row(self, x: Tensor) -> Tensor:
        """(bins, heads, size, size) to (rows, heads, n, n), n limbs in the largest row; zero
        beyond a row's limbs."""
        inside = np.arange(self._counts.max())
        is_limb = inside < self._counts[:, None]
        slot = np.where(is_limb, self._offsets[:, None] + inside, 0)
        bins = self._tensor(self._bins)[:, None, None]
        slots, real = self._tensor(slot), self._tensor(is_limb)
        found = x.transpose(0, 1)[:, bins, slots[:, :, None], slots[:, None, :]].transpose(0, 1)
        return found * (real[:, None, :, None] & real[:, None, None, :])
