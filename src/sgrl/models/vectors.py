"""Operations on vectors (limbs, 3, channels) that keep the symmetry of SET.

Their gradients are written out: autograd's would do several times the work.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def map_products(vectors: Tensor, weight: Tensor) -> Tensor:
    """A linear map of the inner products of m vectors: (n, 3, m) to (n, outputs).

    `weight` is (outputs, m * (m + 1) / 2): each pair once, those of the first vector first.
    """
    mapped: Tensor = _MapProducts.apply(vectors, weight)  # type: ignore[no-untyped-call]
    return mapped


def shorten(vectors: Tensor, fields: Tensor) -> Tensor:
    """[Z, g, d] from vectors Z (n, 3, channels) and fields (n, 3, 0 to 2), with Z made tame.

    Z is divided by sqrt(1 + the mean square length of its vectors). That is one number per
    limb, the same whichever way they point: short ones stay as they are, long ones come
    out with a mean square length of 1 and their proportions. (n, 3, channels + fields).
    """
    stacked: Tensor = _Shorten.apply(vectors, fields)  # type: ignore[no-untyped-call]
    return stacked


@lru_cache(maxsize=64)
def _pairs(size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Where the pairs i <= j lie in a flat matrix, the pair of each entry of the matrix, and
    how often a vector stands in a pair: 2 if with itself, else 1."""
    rows, columns = torch.triu_indices(size, size, device=device)
    pair_of = torch.empty(size, size, dtype=torch.long, device=device)
    pair_of[rows, columns] = pair_of[columns, rows] = torch.arange(len(rows), device=device)
    return rows * size + columns, pair_of.flatten(), 1 + (rows == columns).long()


class _MapProducts(torch.autograd.Function):
    """Either the weights are spread over the whole symmetric matrix of inner products, or its
    pairs are picked out for them. The first doubles a product that is small if there are few
    outputs, the second moves numbers about for each limb."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor) -> Tensor:
        size = vectors.shape[-1]
        upper, pair_of, often = _pairs(size, vectors.device)
        products = torch.bmm(vectors.transpose(1, 2), vectors).flatten(1)
        doubled = weight * often
        ctx.spread = weight.shape[0] < weight.shape[1] // 2
        if ctx.spread:
            doubled = doubled.index_select(1, pair_of)
            mapped = torch.mm(products, (doubled / 2).t())
        else:
            products = products.index_select(1, upper)
            mapped = torch.mm(products, weight.t())
        ctx.save_for_backward(vectors, products, doubled)
        return mapped

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        vectors, products, doubled = ctx.saved_tensors
        size = vectors.shape[-1]
        upper, pair_of, _ = _pairs(size, vectors.device)
        grad_vectors = grad_weight = None
        if ctx.needs_input_grad[0]:
            both = grad @ doubled
            if not ctx.spread:
                both = both.index_select(1, pair_of)
            grad_vectors = torch.bmm(vectors, both.view(-1, size, size))
        if ctx.needs_input_grad[1]:
            grad_weight = grad.t() @ products
            if ctx.spread:
                grad_weight = grad_weight.index_select(1, upper)
        return grad_vectors, grad_weight


class _Shorten(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, fields: Tensor) -> Tensor:
        limbs, _, channels = vectors.shape
        square = torch.linalg.vecdot(vectors.flatten(1), vectors.flatten(1))
        scale = (square / channels + 1).rsqrt_().view(limbs, 1, 1)
        stacked = vectors.new_empty(limbs, 3, channels + fields.shape[-1])
        torch.mul(vectors, scale, out=stacked[..., :channels])
        stacked[..., channels:] = fields
        ctx.save_for_backward(stacked, scale)
        ctx.channels = channels
        return stacked

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        stacked, scale = ctx.saved_tensors
        result, grad_result = stacked[..., : ctx.channels], grad[..., : ctx.channels]
        along = (grad_result * result).flatten(1).sum(dim=1) / -ctx.channels
        grad_vectors = torch.addcmul(grad_result, result, along.view(-1, 1, 1)).mul_(scale)
        return grad_vectors, grad[..., ctx.channels :] if ctx.needs_input_grad[1] else None
