"""Operations on vectors (limbs, 3, channels) that keep the symmetry of SET.

Their gradients are written out: autograd's would do several times the work.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def gram(vectors: Tensor) -> Tensor:
    """All inner products of m vectors, each pair once: (n, 3, m) to (n, m * (m + 1) / 2)."""
    products: Tensor = _Gram.apply(vectors)  # type: ignore[no-untyped-call]
    return products


def shorten(vectors: Tensor, fields: Tensor) -> Tensor:
    """[Z, g, d] from vectors Z (n, 3, channels) and fields (n, 3, 0 to 2), with Z made tame.

    Z is divided by sqrt(1 + the mean square length of its vectors). That is one number per
    limb, the same whichever way they point: short ones stay as they are, long ones come
    out with a mean square length of 1 and their proportions. (n, 3, channels + fields).
    """
    stacked: Tensor = _Shorten.apply(vectors, fields)  # type: ignore[no-untyped-call]
    return stacked


@lru_cache(maxsize=64)
def _pairs(size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where the pairs i <= j lie in a flat matrix, and the pair of each entry of the matrix."""
    rows, columns = torch.triu_indices(size, size, device=device)
    pair_of = torch.empty(size, size, dtype=torch.long, device=device)
    pair_of[rows, columns] = pair_of[columns, rows] = torch.arange(len(rows), device=device)
    return rows * size + columns, pair_of.flatten()


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(vectors)
        size = vectors.shape[-1]
        upper, _ = _pairs(size, vectors.device)
        products = torch.bmm(vectors.transpose(1, 2), vectors)
        return products.view(-1, size * size).index_select(1, upper)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (vectors,) = ctx.saved_tensors
        size = vectors.shape[-1]
        _, pair_of = _pairs(size, vectors.device)
        both = grad.index_select(1, pair_of).view(-1, size, size)
        # A vector is on both sides of its product with itself.
        both.diagonal(dim1=1, dim2=2).mul_(2)
        return torch.bmm(vectors, both)


class _Shorten(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, fields: Tensor) -> Tensor:
        limbs, _, channels = vectors.shape
        square = vectors.square().sum(dim=(1, 2))
        scale = (square / channels + 1).rsqrt_().view(limbs, 1, 1)
        stacked = vectors.new_empty(limbs, 3, channels + fields.shape[-1])
        torch.mul(vectors, scale, out=stacked[..., :channels])
        stacked[..., channels:] = fields
        ctx.save_for_backward(stacked, scale)
        ctx.channels = channels
        return stacked

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        stacked, scale = ctx.saved_tensors
        result, grad_result = stacked[..., : ctx.channels], grad[..., : ctx.channels]
        along = (grad_result * result).sum(dim=(1, 2)) / ctx.channels
        grad_vectors = torch.addcmul(grad_result, result, along.view(-1, 1, 1), value=-1)
        return grad_vectors.mul_(scale), grad[..., ctx.channels :]
