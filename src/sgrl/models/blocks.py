"""Blocks of a transformer in few operations, each one function with its gradient written out.

A limb's numbers are few, so what a network of limbs costs on a CPU is to move them: each
product, bias, rectification and sum that is an operation of its own reads and writes them all
once more, and its gradient does so again. Here what can be done in place is, and gradients that
meet are added by the products that make them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_rectify_gradient = torch.ops.aten.threshold_backward.grad_input
_norm_gradient = torch.ops.aten.native_layer_norm_backward


def embed(x: Tensor, weight: Tensor, per_bin: Tensor) -> Tensor:
    """x W^T plus what each bin, or each alike, adds: (slots, inputs) to (slots, width).

    `per_bin` is (1 or bins, size, width), or (1, 1, width) for a plain bias.
    """
    embedded: Tensor = _Embed.apply(x, weight, per_bin)  # type: ignore[no-untyped-call]
    return embedded


def rectify(
    x: Tensor, weight: Tensor, bias: Tensor, also: Tensor | None = None, by: Tensor | None = None
) -> Tensor:
    """relu(x W^T + b), (slots, inputs) to (slots, outputs); `also` and `by` add another product."""
    rectified: Tensor = _Rectify.apply(x, weight, bias, also, by)  # type: ignore[no-untyped-call]
    return rectified


def renew(x: Tensor, heard: Tensor, weight: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(x + heard W^T), (slots, width)."""
    inputs = (x, heard, weight, norm.weight, norm.bias, norm.eps)
    renewed: Tensor = _Renew.apply(*inputs)  # type: ignore[no-untyped-call]
    return renewed


def feed_forward(
    x: Tensor, first: nn.Linear, second: Tensor, norm: nn.LayerNorm
) -> tuple[Tensor, Tensor | None]:
    """LayerNorm(x + W2 relu(W1 x + b)), (slots, width), W2 (width, n) reading n hidden units.

    And the hidden units that are left, (slots, units - n), if there are any.
    """
    inputs = (x, first.weight, first.bias, second, norm.weight, norm.bias, norm.eps)
    renewed, left = _FeedForward.apply(*inputs)  # type: ignore[no-untyped-call]
    return renewed, left


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, per_bin: Tensor) -> Tensor:
        embedded = torch.mm(x, weight.t())
        embedded.view(-1, *per_bin.shape[1:]).add_(per_bin)
        ctx.save_for_backward(x, weight)
        ctx.shape = per_bin.shape
        return embedded

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        by_bin = grad.view(-1, *ctx.shape[1:]).sum_to_size(ctx.shape)
        return grad_x, grad.t() @ x, by_bin


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, also: Tensor | None, by: Tensor | None
    ) -> Tensor:
        rectified = torch.mm(x, weight.t())
        if also is not None and by is not None:
            rectified.addmm_(also, by.t())
        rectified.add_(bias).relu_()
        ctx.save_for_backward(x, weight, also, by, rectified)
        return rectified

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, also, by, rectified = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward(grad, rectified, 0)
        grad_also = grad_by = None
        if also is not None:
            grad_also, grad_by = grad @ by, grad.t() @ also
        return grad @ weight, grad.t() @ x, grad.sum(dim=0), grad_also, grad_by


class _Renew(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, heard: Tensor, weight: Tensor, gain: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        total = torch.mm(heard, weight.t()).add_(x)
        renewed, mean, spread = torch.native_layer_norm(total, gain.shape, gain, bias, eps)
        ctx.save_for_backward(total, heard, weight, gain, bias, mean, spread)
        return renewed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, heard, weight, gain, bias, mean, spread = ctx.saved_tensors
        grad, grad_gain, grad_bias = _norm_gradient(
            grad, total, gain.shape, mean, spread, gain, bias, [True] * 3
        )
        return grad, grad @ weight, grad.t() @ heard, grad_gain, grad_bias, None


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        first_bias: Tensor,
        second: Tensor,
        gain: Tensor,
        bias: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor | None]:
        units = second.shape[1]
        hidden = torch.mm(x, first.t()).add_(first_bias).relu_()
        total = torch.mm(hidden[:, :units], second.t()).add_(x)
        renewed, mean, spread = torch.native_layer_norm(total, gain.shape, gain, bias, eps)
        ctx.save_for_backward(x, first, hidden, second, total, gain, bias, mean, spread)
        return renewed, hidden[:, units:] if units < len(first) else None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_left: Tensor | None) -> tuple[Tensor | None, ...]:
        x, first, hidden, second, total, gain, bias, mean, spread = ctx.saved_tensors
        units = second.shape[1]
        grad, grad_gain, grad_bias = _norm_gradient(
            grad, total, gain.shape, mean, spread, gain, bias, [True] * 3
        )
        grad_hidden = torch.empty_like(hidden)
        torch.mm(grad, second, out=grad_hidden[:, :units])
        if grad_left is not None:
            grad_hidden[:, units:] = grad_left
        _rectify_gradient(grad_hidden, hidden, 0, grad_input=grad_hidden)
        weights = grad_hidden.t() @ x, grad_hidden.sum(dim=0), grad.t() @ hidden[:, :units]
        return grad.addmm_(grad_hidden, first), *weights, grad_gain, grad_bias, None
