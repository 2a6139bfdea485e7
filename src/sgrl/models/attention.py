"""Attention between the limbs of a row, written for many short rows on a CPU.

Rows have 2 to some 40 limbs, so the products are small and PyTorch's own softmax over
such a short dimension would cost more than all of them together. `attend` is therefore one
function with its gradient written out. The same weights move the scalars (each head its
own) and the vectors (every head all of them).

Weights are kept as (heads, bins, heard limb, hearing limb). Of batched products of small
matrices those with a transposed second factor take three times as long as others, and in
this order only queries and incoming gradients, once for all heads, have to be transposed
to avoid them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sgrl.models.packing import Packing
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS

MAX_PLACES = 64
"""Places in a traversal that have an embedding of their own; later ones share the last."""
RECTIFIED = 2**0.5
"""Gain of a layer whose outputs are rectified, which halves their mean square."""
LOGIT_GAIN = 1.5
"""Of queries and keys at the start, so that attention is neither even nor on one limb."""


def attend(
    packing: Packing,
    qkv: Tensor,
    heads: int,
    bias: Tensor | None = None,
    vectors: Tensor | None = None,
    move: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention of each limb to all limbs of its row; all tensors are packed.

    `qkv` (slots, 3 * width) holds queries, keys and values, each head by head; `bias`
    (heads, 1 or bins, size, size) is added to the logits. Gives scalars (slots, width), and
    of `vectors` (slots, 3, channels) what the heads hear of them, mixed by the weights
    `move` (outputs, heads * channels): (slots, 3, outputs).
    """
    bias = _masked(packing, bias)
    flat = None if vectors is None else vectors.view(packing.bins, packing.size, -1)
    inputs = (qkv.view(packing.bins, packing.size, -1), bias, flat, move, heads)
    heard, moved = _Attend.apply(*inputs)  # type: ignore[no-untyped-call]
    return heard.flatten(0, 1), None if moved is None else moved.view(len(qkv), 3, -1)


def attention_weights(
    packing: Packing, qkv: Tensor, heads: int, bias: Tensor | None = None
) -> Tensor:
    """(rows, heads, size, size): how much a limb (row) listens to each (column)."""
    queries, keys, _ = qkv.view(packing.bins, packing.size, -1).chunk(3, dim=-1)
    weights = _weights(queries, keys, _masked(packing, bias), heads)
    return packing.by_row(weights.permute(1, 0, 3, 2))


def add_product(x: Tensor, factors: Tensor, weight: Tensor) -> Tensor:
    """x + factors @ weight^T over the last dimension, in one product."""
    added = torch.addmm(x.flatten(0, -2), factors.flatten(0, -2), weight.t())
    return added.view_as(x)


def add_by_bin(x: Tensor, per_bin: Tensor) -> Tensor:
    """(slots, width) plus (1 or bins, size, width): what each bin, or each alike, adds."""
    return (x.view(-1, *per_bin.shape[1:]) + per_bin).flatten(0, 1)


def _masked(packing: Packing, bias: Tensor | None) -> Tensor | None:
    """The bias with that between rows which share a bin."""
    if bias is None or packing.mask is None:
        return packing.mask if bias is None else bias
    return bias + packing.mask.to(bias.dtype)


def _weights(queries: Tensor, keys: Tensor, bias: Tensor | None, heads: int) -> Tensor:
    """(heads, bins, size, size): softmax over the limbs that are heard."""
    bins, size, width = queries.shape
    transposed = queries.transpose(1, 2).contiguous()
    weights = queries.new_empty(heads, bins, size, size)
    if bias is not None:
        weights.copy_(bias)
    alpha, beta = (width / heads) ** -0.5, 0 if bias is None else 1
    parts = zip(weights, keys.chunk(heads, -1), transposed.chunk(heads, 1), strict=True)
    for logits, key, query in parts:
        logits.baddbmm_(key, query, beta=beta, alpha=alpha)
    weights -= weights.amax(dim=-2, keepdim=True)
    # What is below, other rows among it, would be 1e-26 of a limb's attention at most. Of
    # much smaller numbers `exp` is some hundred times slower.
    weights.clamp_min_(-60.0).exp_()
    weights /= weights.sum(dim=-2, keepdim=True)
    return weights


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        bias: Tensor | None,
        vectors: Tensor | None,
        move: Tensor | None,
        heads: int,
    ) -> tuple[Tensor, Tensor | None]:
        """(bins, size, 3 * width), (bins, size, 3 * channels) to (bins, size, width) and
        (bins, size, 3 * outputs)."""
        queries, keys, values = qkv.chunk(3, dim=-1)
        weights = _weights(queries, keys, bias, heads)
        hearing = weights.transpose(2, 3)
        parts = zip(hearing, values.chunk(heads, -1), strict=True)
        heard = torch.cat([w.bmm(v) for w, v in parts], dim=-1)
        moved = mixed = None
        if vectors is not None and move is not None:
            # Mixed before they are heard: heads then add up in place.
            bins, size, _ = vectors.shape
            mixed = vectors.new_empty(heads, bins, size, 3 * len(move))
            for to_hear, part in zip(mixed, move.chunk(heads, -1), strict=True):
                torch.mm(vectors.view(-1, part.shape[1]), part.t(), out=to_hear.view(-1, len(move)))
            moved = hearing[0].bmm(mixed[0])
            for w, to_hear in zip(hearing[1:], mixed[1:], strict=True):
                moved.baddbmm_(w, to_hear)
        ctx.save_for_backward(qkv, vectors, move, weights, mixed)
        ctx.bias_shape = None if bias is None else bias.shape
        return heard, moved

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_heard: Tensor, grad_moved: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, None]:
        qkv, vectors, move, weights, mixed = ctx.saved_tensors
        heads = len(weights)
        queries, keys, values = (part.chunk(heads, -1) for part in qkv.chunk(3, dim=-1))
        grad = torch.empty_like(weights)
        by_head = grad_heard.transpose(1, 2).contiguous().chunk(heads, 1)
        for grad_weight, value, grad_head in zip(grad, values, by_head, strict=True):
            torch.bmm(value, grad_head, out=grad_weight)
        grad_values = [w.bmm(g) for w, g in zip(weights, grad_heard.chunk(heads, -1), strict=True)]
        grad_vectors = grad_move = None
        if vectors is not None and grad_moved is not None:
            transposed = grad_moved.transpose(1, 2).contiguous()
            for grad_weight, to_hear in zip(grad, mixed, strict=True):
                grad_weight.baddbmm_(to_hear, transposed)
            grad_mixed = [w.bmm(grad_moved).view(-1, len(move)) for w in weights]
            flat, parts = vectors.view(-1, move.shape[1] // heads), move.chunk(heads, -1)
            if ctx.needs_input_grad[2]:
                grad_flat = grad_mixed[0] @ parts[0]
                for g, part in zip(grad_mixed[1:], parts[1:], strict=True):
                    grad_flat.addmm_(g, part)
                grad_vectors = grad_flat.view_as(vectors)
            if ctx.needs_input_grad[3]:
                grad_move = torch.cat([g.t() @ flat for g in grad_mixed], dim=-1)
        # Through the softmax: p * (g - sum(p * g)).
        grad *= weights
        grad -= weights * grad.sum(dim=-2, keepdim=True)
        grad_bias = grad.sum_to_size(ctx.bias_shape) if ctx.needs_input_grad[1] else None
        grad_logits = grad * queries[0].shape[-1] ** -0.5
        grad_queries = [
            g.transpose(1, 2).bmm(key) for g, key in zip(grad_logits, keys, strict=True)
        ]
        grad_keys = [g.bmm(query) for g, query in zip(grad_logits, queries, strict=True)]
        grad_qkv = torch.cat(grad_queries + grad_keys + grad_values, dim=-1)
        return grad_qkv, grad_bias, grad_vectors, grad_move, None


class TraversalEmbedding(nn.Module):
    """Where a limb stands in its body: learned embeddings of three traversals side by side.

    There are `MAX_PLACES` for each traversal, and further places share the last, so a body
    of any size has its embeddings. Those of places that training never saw keep their
    small initial values and change little.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width < NUM_TRAVERSALS:
            raise ValueError(f"an embedding of {NUM_TRAVERSALS} traversals can't be {width} wide")
        self.table = nn.Parameter(0.1 * torch.randn(MAX_PLACES, width))
        # Column c belongs to traversal 3 c / width.
        owner = torch.arange(width) * NUM_TRAVERSALS // width
        own = owner == torch.arange(NUM_TRAVERSALS).unsqueeze(1)
        self.register_buffer("own", own.unsqueeze(1), persistent=False)

    def forward(self, packing: Packing) -> Tensor:
        """(1 or bins, size, width)."""
        places = min(MAX_PLACES, packing.size)
        # A product with one-hot rows: its gradient, unlike that of a look-up, is one too.
        table = (self.table[:places] * self.get_buffer("own")).flatten(0, 1)
        return packing.traversals(places, table.dtype) @ table


class RelationBias(nn.Module):
    """Bias of the attention logits: a linear map from three relations to heads.

    It has no constant term, which would move all logits of a softmax alike.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.map = nn.Linear(NUM_RELATIONS, heads, bias=False)

    def forward(self, packing: Packing) -> Tensor:
        """(heads, 1 or bins, size, size): of the limb that is heard to the hearing one."""
        relations = packing.relations(self.map.weight.dtype)
        return (self.map.weight @ relations.flatten(1)).view(-1, *relations.shape[1:])
