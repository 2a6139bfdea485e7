"""Rows of a tensor to other places and back, with gradients that know no two share a place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Scatter(torch.autograd.Function):
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
        return Gather.apply(grad, places), None, None  # type: ignore[no-untyped-call]


class Gather(torch.autograd.Function):
    """The inverse of `Scatter`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.length = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return Scatter.apply(grad, places, ctx.length), None  # type: ignore[no-untyped-call]
