"""Operations on vectors (limbs, 3, channels) that keep the symmetry of SET.

Their gradients are written out: autograd's would do several times the work.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def inner_products(vectors: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products (n, k) of m vectors (n, 3, m), and weights (outputs, k) that map them.

    `weight` is (outputs, m * (m + 1) / 2): each pair once, those of the first vector first. If
    there are few outputs it is spread over the whole symmetric matrix of inner products, which
    doubles a product that is small; if there are many the pairs are picked out of the matrix,
    which moves numbers about for each limb.
    """
    few = 2 * weight.shape[0] < weight.shape[1]
    products: Tensor = _InnerProducts.apply(vectors, few)  # type: ignore[no-untyped-call]
    if few:
        weight = weight @ _spread_pairs(vectors.shape[-1], weight.dtype, weight.device)
    return products, weight


def shorten(vectors: Tensor, fields: Tensor) -> Tensor:
    """[Z, g, d] from [Z, 0, 0] (n, 3, channels + fields) and fields (n, 3, 0 to 2).

    Z is made tame: divided by sqrt(1 + the mean square length of its vectors). That is one
    number per limb, the same whichever way they point: short ones stay as they are, long ones
    come out with a mean square length of 1 and their proportions.
    """
    stacked: Tensor = _Shorten.apply(vectors, fields)  # type: ignore[no-untyped-call]
    return stacked


def combine(vectors: Tensor, factors: Tensor) -> Tensor:
    """The sum of vectors (n, 3, m), each times its factor of (n, m): (n, 3)."""
    combined: Tensor = _Combine.apply(vectors, factors)  # type: ignore[no-untyped-call]
    return combined


@lru_cache(maxsize=64)
def _spread_pairs(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(pairs, size * size): each pair once to both its places in a symmetric matrix."""
    rows, columns = torch.triu_indices(size, size)
    spread, pair = torch.zeros(len(rows), size, size), torch.arange(len(rows))
    spread[pair, rows, columns] += 0.5
    spread[pair, columns, rows] += 0.5
    return spread.flatten(1).to(device, dtype)


@lru_cache(maxsize=64)
def _pairs(size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Where the pairs i <= j lie in a flat matrix, the pair of each entry of the matrix, and
    how often a vector stands in a pair: 2 if with itself, else 1."""
    rows, columns = torch.triu_indices(size, size, device=device)
    pair_of = torch.empty(size, size, dtype=torch.long, device=device)
    pair_of[rows, columns] = pair_of[columns, rows] = torch.arange(len(rows), device=device)
    return rows * size + columns, pair_of.flatten(), 1 + (rows == columns).long()


class _InnerProducts(torch.autograd.Function):
    """The gradient of the whole matrix must be symmetric, as that of symmetric weights is."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, whole: bool) -> Tensor:
        products = torch.bmm(vectors.transpose(1, 2), vectors).flatten(1)
        ctx.save_for_backward(vectors)
        ctx.whole = whole
        upper, _, _ = _pairs(vectors.shape[-1], vectors.device)
        return products if whole else products.index_select(1, upper)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (vectors,) = ctx.saved_tensors
        size = vectors.shape[-1]
        if not ctx.whole:
            _, pair_of, often = _pairs(size, vectors.device)
            grad = (grad * often).index_select(1, pair_of)
        factor = 2.0 if ctx.whole else 1.0
        out = torch.empty_like(vectors)
        return out.baddbmm_(vectors, grad.view(-1, size, size), beta=0, alpha=factor), None


class _Shorten(torch.autograd.Function):
    """All three coordinates of all vectors of a limb in one row, so that numbers are found one
    after the other. What is worked out for the fields among them is thrown away."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, fields: Tensor) -> Tensor:
        flat = vectors.flatten(1)
        channels = vectors.shape[-1] - fields.shape[-1]
        square: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True).square_()
        scale = square.div_(channels).add_(1).rsqrt_()
        stacked = (flat * scale).view_as(vectors)
        stacked[..., channels:] = fields
        ctx.save_for_backward(stacked, scale)
        ctx.channels = channels
        return stacked

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        stacked, scale = ctx.saved_tensors
        channels, flat = ctx.channels, stacked.flatten(1)
        own = grad.new_zeros(stacked.shape[1:])
        own[:, :channels] = -1.0 / channels
        along = torch.mv(grad.flatten(1) * flat, own.flatten()).unsqueeze(1)
        grad_vectors = torch.addcmul(grad.flatten(1), flat, along).mul_(scale).view_as(grad)
        return grad_vectors, grad[..., channels:] if ctx.needs_input_grad[1] else None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, factors)
        return torch.bmm(vectors, factors.unsqueeze(2)).squeeze(2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        vectors, factors = ctx.saved_tensors
        # A coordinate after the other: sums over such a short dimension are slow.
        grad_factors = vectors[:, 0] * grad[:, :1]
        for i in (1, 2):
            grad_factors.addcmul_(vectors[:, i], grad[:, i : i + 1])
        return grad.unsqueeze(2) * factors.unsqueeze(1), grad_factors
