"""Blocks of a transformer in few operations, each one function with its gradient written out.

A limb's numbers are few, so what a network of limbs costs on a CPU is to move them: each
product, bias, rectification and sum that is an operation of its own reads and writes them all
once more, and its gradient does so again. Here what can be done in place is, and gradients that
meet are added by the products that make them. Those that nobody asks for, as of a critic's weights
when an actor learns from it, are not made.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_rectify_gradient = torch.ops.aten.threshold_backward.grad_input
_norm_gradient = torch.ops.aten.native_layer_norm_backward


def embed(x: Tensor, weight: Tensor, place: Tensor) -> Tensor:
    """x W^T plus what a limb's place adds: (limbs, inputs) to (limbs, width).

    `place` (n, width) is for n limbs after n limbs: (1, width) is a plain bias.
    """
    embedded: Tensor = _Embed.apply(x, weight, place)  # type: ignore[no-untyped-call]
    return embedded


def rectify(
    x: Tensor, weight: Tensor, bias: Tensor, also: Tensor | None = None, by: Tensor | None = None
) -> Tensor:
    """relu(x W^T + b), (limbs, inputs) to (limbs, outputs); `also` and `by` add another product."""
    rectified: Tensor = _Rectify.apply(x, weight, bias, also, by)  # type: ignore[no-untyped-call]
    return rectified


def project(x: Tensor, weight: Tensor, parts: int, place: Tensor | None = None) -> Tensor:
    """x W^T in parts that lie one after the other: (limbs, inputs) to (parts, limbs, n).

    `weight` is (parts * n, inputs), and `place`, if there is any, as in `embed`.
    """
    if place is not None:
        place = place.view(len(place), parts, -1).transpose(0, 1).unsqueeze(1)
    projected: Tensor = _Project.apply(x, weight, parts, place)  # type: ignore[no-untyped-call]
    return projected


def renew(x: Tensor, heard: Tensor, weight: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(x + heard W^T), (limbs, width), where heard is in parts (parts, limbs, n)."""
    inputs = (x, heard, weight, norm.weight, norm.bias, norm.eps)
    renewed: Tensor = _Renew.apply(*inputs)  # type: ignore[no-untyped-call]
    return renewed


def feed_forward(
    x: Tensor, first: nn.Linear, second: Tensor, norm: nn.LayerNorm
) -> tuple[Tensor, Tensor | None]:
    """LayerNorm(x + W2 relu(W1 x + b)), (limbs, width), W2 (width, n) reading n hidden units.

    And the hidden units that are left, (limbs, units - n), if there are any.
    """
    inputs = (x, first.weight, first.bias, second, norm.weight, norm.bias, norm.eps)
    renewed, left = _FeedForward.apply(*inputs)  # type: ignore[no-untyped-call]
    return renewed, left


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, place: Tensor) -> Tensor:
        embedded = torch.mm(x, weight.t())
        embedded.view(-1, *place.shape).add_(place)
        ctx.save_for_backward(x, weight)
        ctx.shape = place.shape
        return embedded

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_place = ctx.needs_input_grad
        return (
            grad @ weight if of_x else None,
            grad.t() @ x if of_weight else None,
            grad.view(-1, *ctx.shape).sum_to_size(1, *ctx.shape)[0] if of_place else None,
        )


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
        of_x, of_weight, of_bias, of_also, of_by = ctx.needs_input_grad
        return (
            grad @ weight if of_x else None,
            grad.t() @ x if of_weight else None,
            grad.sum(dim=0) if of_bias else None,
            grad @ by if of_also else None,
            grad.t() @ also if of_by else None,
        )


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, parts: int, place: Tensor | None) -> Tensor:
        by_part = weight.view(parts, -1, x.shape[1])
        each = x.expand(parts, -1, -1)
        projected = torch.bmm(each, by_part.transpose(1, 2).contiguous())
        if place is not None:
            projected.view(parts, -1, *place.shape[2:]).add_(place)
        ctx.save_for_backward(x, weight)
        ctx.shape = None if place is None else place.shape
        return projected

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _, of_place = ctx.needs_input_grad
        grad_x = grad_weight = grad_place = None
        if of_x:
            first, *others = zip(grad, weight.chunk(len(grad)), strict=True)
            grad_x = torch.mm(*first)
            for pair in others:
                grad_x.addmm_(*pair)
        if of_weight:
            grad_weight = torch.bmm(grad.transpose(1, 2), x.expand(len(grad), -1, -1)).flatten(0, 1)
        if of_place:
            grad_place = grad.view(len(grad), -1, *ctx.shape[2:]).sum_to_size(ctx.shape)
        return grad_x, grad_weight, None, grad_place


class _Renew(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, heard: Tensor, weight: Tensor, gain: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        first, *others = zip(heard, weight.t().chunk(len(heard)), strict=True)
        total = torch.addmm(x, *first)
        for pair in others:
            total.addmm_(*pair)
        renewed, mean, spread = torch.native_layer_norm(total, gain.shape, gain, bias, eps)
        ctx.save_for_backward(total, heard, weight, gain, bias, mean, spread)
        return renewed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, heard, weight, gain, bias, mean, spread = ctx.saved_tensors
        _, _, of_weight, *of_norm, _ = ctx.needs_input_grad
        grad, grad_gain, grad_bias = _norm_gradient(
            grad, total, gain.shape, mean, spread, gain, bias, [True, *of_norm]
        )
        parts = len(heard)
        by_part = weight.view(len(weight), parts, -1).transpose(0, 1).contiguous()
        grad_heard = torch.bmm(grad.expand(parts, -1, -1), by_part)
        grad_weight = None
        if of_weight:
            grad_parts = torch.bmm(grad.t().expand(parts, -1, -1), heard)
            grad_weight = grad_parts.transpose(0, 1).flatten(1)
        return grad, grad_heard, grad_weight, grad_gain, grad_bias, None


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
        _, of_first, of_first_bias, of_second, *of_norm, _ = ctx.needs_input_grad
        grad, grad_gain, grad_bias = _norm_gradient(
            grad, total, gain.shape, mean, spread, gain, bias, [True, *of_norm]
        )
        grad_hidden = torch.empty_like(hidden)
        torch.mm(grad, second, out=grad_hidden[:, :units])
        if grad_left is not None:
            grad_hidden[:, units:] = grad_left
        _rectify_gradient(grad_hidden, hidden, 0, grad_input=grad_hidden)
        weights = (
            grad_hidden.t() @ x if of_first else None,
            grad_hidden.sum(dim=0) if of_first_bias else None,
            grad.t() @ hidden[:, :units] if of_second else None,
        )
        return grad.addmm_(grad_hidden, first), *weights, grad_gain, grad_bias, None
