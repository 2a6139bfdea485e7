"""Attention between the limbs of a row, written for many short rows on a CPU.

Rows have 2 to some 40 limbs, so the products are small and PyTorch's own softmax over
such a short last dimension would cost more than all of them together. `attend` is
therefore one function with its gradient written out. The same weights move the scalars
(each head its own) and the vectors (every head all of them).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from sgrl.models.layout import BatchLayout, RowGroup
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS

MAX_PLACES = 64
"""Places in a traversal that have an embedding of their own; later ones share the last."""
WIDE = 256
"""From this width of queries, keys and values on, padding costs more than a second call."""
RECTIFIED = 2**0.5
"""Gain of a layer whose outputs are rectified, which halves their mean square."""
LOGIT_GAIN = 1.5
"""Of queries and keys at the start, so that attention is neither even nor on one limb."""


def attend(
    layout: BatchLayout,
    qkv: Tensor,
    heads: int,
    vectors: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention of each limb to all limbs of its row.

    `qkv` (limbs, 3 * width) holds queries, keys and values, each head by head; `vectors`
    are (limbs, 3, channels) or absent; `bias` (bodies or 1, heads, max_limbs, max_limbs) is
    added to the logits. Gives scalars (limbs, width) and vectors (limbs, 3, heads * channels).
    """
    grouping = layout.by_size if qkv.shape[-1] >= WIDE else layout.together
    parts = grouping.pad(qkv)
    vector_parts = [None] * len(parts) if vectors is None else grouping.pad(vectors)
    heard, moved = [], []
    for group, part, vector_part in zip(grouping.groups, parts, vector_parts, strict=True):
        inputs = (part, vector_part, _bias_of(group, bias), heads)
        scalars, moved_part = _Attend.apply(*inputs)  # type: ignore[no-untyped-call]
        heard.append(scalars)
        moved.append(moved_part)
    return grouping.unpad(heard), None if vectors is None else grouping.unpad(moved)


def attention_weights(
    layout: BatchLayout, qkv: Tensor, heads: int, bias: Tensor | None = None
) -> Tensor:
    """(rows, heads, max_limbs, max_limbs): how much a limb (row) listens to each (column)."""
    (group,) = layout.together.groups
    (part,) = layout.together.pad(qkv)
    queries, keys, _ = _by_head(part, heads)
    return _weights(queries, keys, _bias_of(group, bias)).transpose(0, 1)


def add_product(x: Tensor, factors: Tensor, weight: Tensor) -> Tensor:
    """x + factors @ weight^T over the last dimension, in one product."""
    added = torch.addmm(x.flatten(0, -2), factors.flatten(0, -2), weight.t())
    return added.view_as(x)


def _bias_of(group: RowGroup, bias: Tensor | None) -> Tensor | None:
    """(rows or 1, heads, limbs, limbs): the bias of a group's rows, and that of its gaps."""
    if bias is None:
        return group.gap_bias
    limbs = group.max_limbs
    bias = bias[..., :limbs, :limbs]
    if len(bias) > 1:
        bias = embedding(group.row_body, bias.flatten(1)).view(-1, *bias.shape[1:])
    return bias if group.gap_bias is None else bias + group.gap_bias.to(bias.dtype)


Heads = tuple[Tensor, ...]
"""A tensor for each head, (rows, limbs, ...): slices of a larger one where they are read.

Matrix products read slices as fast as whole tensors, but write them far more slowly.
"""


def _by_head(qkv: Tensor, heads: int) -> tuple[Heads, Heads, Heads]:
    """Queries, keys and values (rows, limbs, width / heads) of (rows, limbs, 3 * width)."""
    parts = qkv.chunk(3 * heads, dim=-1)
    return parts[:heads], parts[heads : 2 * heads], parts[2 * heads :]


def _weights(queries: Heads, keys: Heads, bias: Tensor | None) -> Tensor:
    """(heads, rows, limbs, limbs): softmax over the last."""
    rows, limbs, width = queries[0].shape
    weights = queries[0].new_empty(len(queries), rows, limbs, limbs)
    if bias is not None:
        weights.copy_(bias.transpose(0, 1))
    for logits, query, key in zip(weights, queries, keys, strict=True):
        beta = 0 if bias is None else 1
        logits.baddbmm_(query, key.transpose(1, 2), beta=beta, alpha=width**-0.5)
    weights -= weights.amax(dim=-1, keepdim=True)
    # What is below, the gaps among it, would be 1e-26 of a limb's attention at most. Of much
    # smaller numbers `exp` is some hundred times slower.
    weights.clamp_min_(-60.0).exp_()
    weights /= weights.sum(dim=-1, keepdim=True)
    return weights


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, vectors: Tensor | None, bias: Tensor | None, heads: int
    ) -> tuple[Tensor, Tensor | None]:
        """(rows, limbs, 3 * width), (rows, limbs, 3, channels) to (rows, limbs, width) and
        (rows, limbs, 3, heads * channels)."""
        queries, keys, values = _by_head(qkv, heads)
        weights = _weights(queries, keys, bias)
        scalars = torch.cat([w.bmm(v) for w, v in zip(weights, values, strict=True)], dim=-1)
        moved = None
        if vectors is not None:
            flat = vectors.flatten(2)
            moved = torch.cat([w.bmm(flat).view_as(vectors) for w in weights], dim=-1)
        ctx.save_for_backward(qkv, vectors, weights)
        ctx.bias_shape = None if bias is None else bias.shape
        return scalars, moved

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_scalars: Tensor, grad_moved: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        qkv, vectors, weights = ctx.saved_tensors
        heads = len(weights)
        queries, keys, values = _by_head(qkv, heads)
        grad = torch.empty_like(weights)
        grad_values = []
        parts = zip(weights, values, grad, grad_scalars.chunk(heads, dim=-1), strict=True)
        for weight, value, grad_weight, grad_head in parts:
            grad_values.append(weight.transpose(1, 2).bmm(grad_head))
            torch.bmm(grad_head, value.transpose(1, 2), out=grad_weight)
        grad_vectors = None
        if vectors is not None and grad_moved is not None:
            flat = vectors.flatten(2)
            grad_flat = torch.zeros_like(flat)
            vector_parts = zip(weights, grad, grad_moved.chunk(heads, dim=-1), strict=True)
            for weight, grad_weight, grad_head in vector_parts:
                grad_head = grad_head.flatten(2)
                grad_flat.baddbmm_(weight.transpose(1, 2), grad_head)
                grad_weight.baddbmm_(grad_head, flat.transpose(1, 2))
            grad_vectors = grad_flat.view_as(vectors)
        # Through the softmax: p * (g - sum(p * g)).
        grad *= weights
        grad -= weights * grad.sum(dim=-1, keepdim=True)
        grad_bias = None
        if ctx.needs_input_grad[2]:
            grad_bias = grad.transpose(0, 1).sum_to_size(ctx.bias_shape)
        grad_logits = grad * queries[0].shape[-1] ** -0.5
        grad_queries = [g.bmm(key) for g, key in zip(grad_logits, keys, strict=True)]
        grad_keys = [
            g.transpose(1, 2).bmm(query) for g, query in zip(grad_logits, queries, strict=True)
        ]
        grad_qkv = torch.cat(grad_queries + grad_keys + grad_values, dim=-1)
        return grad_qkv, grad_vectors, grad_bias, None


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
        self.width = width
        self.table = nn.Parameter(0.1 * torch.randn(MAX_PLACES, width))

    def forward(self, layout: BatchLayout) -> Tensor:
        """(limbs, width)."""
        # Looked up for each body, not for each limb of the batch. Column c belongs to
        # traversal 3 c / width.
        places = layout.body_places(self.width, MAX_PLACES)
        found = self.table.gather(0, places)
        return layout.by_limb(found.view(len(layout.bodies), layout.max_limbs, self.width))


class RelationBias(nn.Module):
    """Bias of the attention logits: a linear map from three relations to heads.

    It has no constant term, which would move all logits of a softmax alike.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.map = nn.Linear(NUM_RELATIONS, heads, bias=False)

    def forward(self, layout: BatchLayout) -> Tensor:
        """(bodies, heads, max_limbs, max_limbs)."""
        bias: Tensor = self.map(layout.relations(self.map.weight.dtype))
        return bias.permute(0, 3, 1, 2)
