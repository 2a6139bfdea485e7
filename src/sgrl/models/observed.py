"""The vectors of SET's first layer, without making them.

They are channels Z = s A v: mixtures A (channels, 6) of the six observed vectors v of a limb,
divided by a number that is invariant (`vectors.shorten`). All that a layer does with vectors
until they are shortened again is linear in them, and their inner products are linear in those
of the observed ones. So it can work with six vectors instead of its channels, and with the inner
products of what was observed, which depend on no weight: every network that reads a batch shares
them, and no gradient goes through them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Observed(NamedTuple):
    """The vectors that the limbs of a batch observe."""

    vectors: Tensor
    """(limbs, 3, 6), of a limb's own."""
    fields: Tensor
    """(limbs, 3, 0 to 2), shared by all limbs of a row."""
    products: Tensor
    """(limbs, pairs), see `observed_products`."""


def observed_products(vectors: Tensor, fields: Tensor) -> Tensor:
    """Inner products of vectors (n, 3, v) and fields (n, 3, f), each pair once: (n, pairs).

    First of vectors with vectors, then of vectors with fields, then of fields with fields.
    """
    first, second = _pairs(vectors.shape[-1], fields.shape[-1], vectors.device)
    # With the limb last, sums over coordinates run along long rows.
    both = torch.cat((vectors, fields), dim=-1).permute(1, 2, 0).contiguous()
    products = both.index_select(1, first) * both.index_select(1, second)
    return products.sum(dim=0).t().contiguous()


def weights_of_products(weight: Tensor, mixture: Tensor, fields: int) -> tuple[Tensor, Tensor]:
    """A map of inner products of [Z, g, d] as one of observed products, as if s were 1.

    `weight` (outputs, pairs) maps those of the channels that `mixture` (channels, v) makes of
    observed vectors, and of `fields` fields, as in `vectors.inner_products`. Gives (outputs,
    pairs of observed vectors and fields), and the map (pairs of observed vectors,) to the mean
    square length of the channels, on which s depends.
    """
    channels, v = mixture.shape
    tables = _tables(channels, v, fields, mixture.dtype, mixture.device)
    corner, rows, columns, gather, square = tables
    whole = functional.pad(mixture, (0, fields, 0, fields)) + corner
    first, second = whole.index_select(0, rows), whole.index_select(0, columns)
    pairs = (first.unsqueeze(2) * second.unsqueeze(1)).flatten(1) @ gather
    mapped = torch.cat((weight, square)) @ pairs
    return mapped[:-1], mapped[-1, : v * (v + 1) // 2]


def shorten_products(
    products: Tensor, square: Tensor, vectors: int, fields: int
) -> tuple[Tensor, Tensor]:
    """Inner products (n, pairs) after the vectors are divided by 1/s, and s (n, 1).

    `square` (pairs of vectors,) is the map to their mean square length.
    """
    inputs = (products, square, vectors, fields)
    shortened, scale = _ShortenProducts.apply(*inputs)  # type: ignore[no-untyped-call]
    return shortened, scale


def mix(blocks: tuple[Tensor, ...], weights: tuple[Tensor, ...], room: int) -> Tensor:
    """Vectors mixed from blocks of them, (n, 3 * size) each by weights (outputs, size).

    (n, 3, outputs + room), 0 in the room.
    """
    sizes = tuple(weight.shape[1] for weight in weights)
    together = functional.pad(torch.cat(weights, dim=1), (0, 0, 0, room))
    columns, same = _coordinates(sizes, together.dtype, together.device)
    # One product for all coordinates, most of its weights 0, is faster than three of few columns.
    weight = ((together @ columns) * same).flatten(0, 1)
    return (torch.cat(blocks, dim=1) @ weight.t()).view(len(blocks[0]), 3, -1)


@lru_cache(maxsize=64)
def _pairs(vectors: int, fields: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """First and second of each pair, (pairs,) each, in the order of `observed_products`."""
    v, f = range(vectors), range(vectors, vectors + fields)
    pairs = [(i, j) for i in v for j in v if i <= j]
    pairs += [(i, j) for j in f for i in v] + [(i, j) for i in f for j in f if i <= j]
    first, second = torch.tensor(pairs, device=device).t().contiguous()
    return first, second


@lru_cache(maxsize=64)
def _tables(
    channels: int, vectors: int, fields: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """The mixture (m, k) that makes fields of fields; first and second of the pairs of m; which
    pair each of (k * k) products is; the mean square length of channels as a map of pairs of m.
    """
    size, seen = channels + fields, vectors + fields
    corner = torch.zeros(size, seen, dtype=dtype, device=device)
    corner[channels:, vectors:].fill_diagonal_(1.0)
    rows, columns = torch.triu_indices(size, size, device=device)
    first, second = _pairs(vectors, fields, device)
    gather = torch.zeros(seen, seen, len(first), dtype=dtype, device=device)
    pair = torch.arange(len(first), device=device)
    gather[first, second, pair] = gather[second, first, pair] = 1.0
    square = ((rows == columns) & (rows < channels)).to(dtype) / channels
    return corner, rows, columns, gather.flatten(0, 1), square.unsqueeze(0)


@lru_cache(maxsize=64)
def _coordinates(
    sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Of vectors in blocks, 3 coordinates x size each: which column of the weights each number
    is for, one-hot (columns, numbers), and which coordinate it is, (3, 1, numbers)."""
    column, coordinate, start = [], [], 0
    for size in sizes:
        column += [start + i for _ in range(3) for i in range(size)]
        coordinate += [x for x in range(3) for _ in range(size)]
        start += size
    columns = functional.one_hot(torch.tensor(column), start).t()
    same = functional.one_hot(torch.tensor(coordinate), 3).t().unsqueeze(1)
    return columns.to(device, dtype), same.to(device, dtype)


class _ShortenProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, products: Tensor, square: Tensor, vectors: int, fields: int
    ) -> tuple[Tensor, Tensor]:
        twice, once = len(square), len(square) + vectors * fields
        squared = torch.mv(products[:, :twice], square).add_(1).reciprocal_().unsqueeze(1)
        scale = squared.sqrt()
        shortened = torch.empty_like(products)
        torch.mul(products[:, :twice], squared, out=shortened[:, :twice])
        torch.mul(products[:, twice:once], scale, out=shortened[:, twice:once])
        shortened[:, once:] = products[:, once:]
        ctx.save_for_backward(products, square, shortened, scale)
        ctx.ends = twice, once
        return shortened, scale

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad: Tensor, grad_scale: Tensor
    ) -> tuple[Tensor | None, Tensor, None, None]:
        products, square, shortened, scale = ctx.saved_tensors
        twice, once = ctx.ends
        # A product goes with s to a power: its slope by the logarithm of s is that times itself.
        power = grad.new_zeros(grad.shape[1])
        power[:once] += 1.0
        power[:twice] += 1.0
        along = torch.mv(grad * shortened, power).unsqueeze(1).addcmul_(grad_scale, scale)
        grad_mean = along.mul_(scale.square()).mul_(-0.5)
        grad_products = None
        if ctx.needs_input_grad[0]:
            grad_products = grad.clone()
            grad_products[:, :once] *= scale
            grad_products[:, :twice] *= scale
            grad_products[:, :twice] += grad_mean * square
        return grad_products, torch.mv(products[:, :twice].t(), grad_mean.squeeze(1)), None, None
