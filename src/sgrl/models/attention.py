"""Attention between the limbs of a row.

Layers that work on a limb run over the limbs of a batch as they lie, in one list. Attention needs
rows of one size, and padding each to the largest body would nearly double the limbs of a usual
mix. Here several rows share a bin, and a mask keeps them apart: attention packs what it reads into
bins and unpacks what it makes, so a gap costs a slot there and nowhere else. Rows that are all of
one size are bins as they lie, and nothing moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]

LOGIT_GAIN = 1.5
"""Gain of queries and keys at the start, so that attention is neither even nor on one limb."""
MANY_SLOTS = 1.2
"""Slots for each limb above which another size of bins is tried."""
FREE_SIZE = 32
"""Limbs of a bin at which what grows with the square of its size costs about what the rest does."""


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None, packing: Packing) -> Tensor:
    """alpha_ij = softmax_j(q_i . k_j / sqrt(e) + bias_ij): (bins, heads, size, size).

    Queries and keys are (limbs, heads, e); `bias` is (1 or bins, heads, size, size).
    """
    q, k = packing.pack(q).transpose(1, 2), packing.pack(k).transpose(1, 2)
    logits = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if bias is not None:
        logits = logits + bias
    if packing.mask is not None:
        logits = logits + packing.mask.to(logits.dtype)
    return torch.softmax(logits, dim=-1)


def weighted_values(alpha: Tensor, v: Tensor, packing: Packing) -> Tensor:
    """sum_j alpha_ij v_j, each head of its own values: (limbs, heads, e)."""
    return packing.unpack((alpha @ packing.pack(v).transpose(1, 2)).transpose(1, 2))


def weighted_vectors(alpha: Tensor, x: Tensor, packing: Packing) -> Tensor:
    """sum_j alpha_ij x_j, each head of all vectors (limbs, 3, m): (limbs, heads, 3, m)."""
    bins, heads, size, _ = alpha.shape
    found = alpha.flatten(1, 2) @ packing.pack(x.flatten(1))
    return packing.unpack(found.view(bins, heads, size, *x.shape[1:]).transpose(1, 2))


class Packing:
    """The limbs of a batch in `bins` bins of `size` slots."""

    def __init__(self, counts: Indices, device: torch.device) -> None:
        """`counts` are the limbs of each row."""
        self.size = int(counts.max())
        self.bins = len(counts)
        self.device = device
        self.mask: Tensor | None = None
        """(bins, 1, size, size): minus infinity between limbs of different rows; None if
        there are none in a bin."""
        self._counts = counts
        self._bins, self._offsets = np.arange(len(counts)), np.zeros_like(counts)
        self._free = bool((counts == self.size).all())
        if self._free:
            return
        self._bins, self._offsets, self.bins, self.size = choose_bins(counts)
        limb_row = np.repeat(np.arange(len(counts)), counts)
        index = np.arange(len(limb_row)) - (np.cumsum(counts) - counts)[limb_row]
        slots = (self._bins * self.size + self._offsets)[limb_row] + index
        # A gap holds a copy of the batch's first limb and attends to gaps alone. Those of a bin
        # are alike, so it makes no difference to which of them: no gradient.
        self._limb_in_slot = np.zeros(self.bins * self.size, np.int64)
        self._limb_in_slot[slots] = np.arange(len(slots))
        self._limbs, self._slots = self._tensor(self._limb_in_slot), self._tensor(slots)
        row_of = np.full((self.bins, self.size), -1)
        row_of.flat[slots] = limb_row
        apart = row_of[:, :, None] != row_of[:, None, :]
        self.mask = self._tensor(np.where(apart, np.float32(-np.inf), np.float32(0.0))[:, None])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def pack(self, x: Tensor) -> Tensor:
        """(limbs, ...) to (bins, size, ...). Gaps are all alike."""
        x = x if self._free else x.index_select(0, self._limbs)
        return x.view(self.bins, self.size, *x.shape[1:])

    def unpack(self, x: Tensor) -> Tensor:
        """(bins, size, ...) to (limbs, ...): the inverse of `pack`."""
        x = x.flatten(0, 1)
        return x if self._free else x.index_select(0, self._slots)

    def slots_of(self, x: Indices) -> Indices:
        """Numbers of limbs (limbs,) as (bins, size); in gaps those of the first limb."""
        x = x if self._free else x[self._limb_in_slot]
        return x.reshape(self.bins, self.size)

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


def fill_bins(counts: Indices, size: int) -> tuple[Indices, Indices, int]:
    """The bin of each row of `counts` limbs, its first slot there, and the number of bins.

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
