"""Attention between the limbs of a row, written for many short rows on a CPU.

Rows have 2 to some 40 limbs, so the products are small and PyTorch's own softmax over
such a short dimension would cost more than all of them together. `attend` is therefore one
function with its gradient written out. The same weights move the scalars (each head its
own) and the vectors (every head all of them).

Rows of different sizes are packed into bins here, and unpacked again (`packing`). Weights are
kept as (heads, bins, heard limb, hearing limb). Of batched products of small matrices those with
a transposed second factor take three times as long as others, and in this order only queries
and incoming gradients have to be transposed to avoid them. What each head works with lies
together (`blocks.project`), or every product would read the other heads' numbers too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sgrl.models.layout import BatchLayout
from sgrl.models.packing import Packing
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS

MAX_PLACES = 64
"""Places in a traversal that have an embedding of their own; later ones share the last."""
RECTIFIED = 2**0.5
"""Gain of a layer whose outputs are rectified, which halves their mean square."""
LOGIT_GAIN = 1.5
"""Of queries and keys at the start, so that attention is neither even nor on one limb."""


def attend(
    packing: Packing, qkv: Tensor, bias: Tensor | None = None, vectors: Tensor | None = None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Attention of each limb to all limbs of its row.

    `qkv` (3 * heads, limbs, width) holds the heads' queries, then their keys, then their values;
    `bias` (heads, 1 or bins, size, size) is added to the logits. Gives what each head hears of
    values, (heads, limbs, width), and of `vectors` (limbs, n), (limbs, n) each.
    """
    inputs = (qkv, _masked(packing, bias), vectors, packing)
    heard, *moved = _Attend.apply(*inputs)  # type: ignore[no-untyped-call]
    return heard, tuple(moved)


def attention_weights(packing: Packing, qkv: Tensor, bias: Tensor | None = None) -> Tensor:
    """(rows, heads, size, size): how much a limb (row) listens to each (column)."""
    heads = len(qkv) // 3
    queries, keys, _ = packing.pack(qkv, 1).view(3, heads, packing.bins, packing.size, -1)
    weights = _weights(queries, keys, _masked(packing, bias))
    return packing.by_row(weights.permute(1, 0, 3, 2))


def _masked(packing: Packing, bias: Tensor | None) -> Tensor | None:
    """The bias with that between rows which share a bin."""
    if bias is None or packing.mask is None:
        return packing.mask if bias is None else bias
    return bias + packing.mask.to(bias.dtype)


def _weights(queries: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """(heads, bins, size, size): softmax over the limbs that are heard.

    Queries and keys are (heads, bins, size, n).
    """
    weights = queries.new_empty(*queries.shape[:-1], queries.shape[-2])
    if bias is not None:
        weights.copy_(bias)
    alpha, beta = queries.shape[-1] ** -0.5, 0 if bias is None else 1
    transposed = queries.flatten(0, 1).transpose(1, 2).contiguous()
    weights.flatten(0, 1).baddbmm_(keys.flatten(0, 1), transposed, beta=beta, alpha=alpha)
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
        packing: Packing,
    ) -> tuple[Tensor, ...]:
        shape = packing.bins, packing.size
        qkv = packing.pack(qkv, 1)
        heads, slots = len(qkv) // 3, qkv.shape[1]
        queries, keys, values = qkv.view(3, heads, *shape, -1)
        weights = _weights(queries, keys, bias)
        hearing = weights.transpose(2, 3)
        heard = hearing.flatten(0, 1).bmm(values.flatten(0, 1)).view(heads, slots, -1)
        moved = []
        if vectors is not None:
            vectors = packing.pack(vectors)
            bins = vectors.view(*shape, -1)
            moved = [packing.unpack(one.bmm(bins).view_as(vectors)) for one in hearing]
        ctx.save_for_backward(qkv, vectors, weights)
        ctx.bias_shape, ctx.packing = None if bias is None else bias.shape, packing
        return packing.unpack(heard, 1), *moved

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_heard: Tensor, *grad_moved: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        qkv, vectors, weights = ctx.saved_tensors
        packing: Packing = ctx.packing
        bins, size = packing.bins, packing.size
        flat = weights.flatten(0, 1)
        queries, keys, values = qkv.view(3, len(flat), size, -1)
        by_hearer = packing.pack(grad_heard, 1).view_as(values)
        grads = torch.empty_like(qkv)
        grad_queries, grad_keys, grad_values = grads.view(3, len(flat), size, -1)
        grad = values.bmm(by_hearer.transpose(1, 2).contiguous())
        torch.bmm(flat, by_hearer, out=grad_values)
        grad_vectors = None
        if grad_moved:
            said = vectors.view(bins, size, -1)
            grad_said = torch.zeros_like(said)
            for grad_weight, w, moved in zip(
                grad.view_as(weights), weights, grad_moved, strict=True
            ):
                by_bin = packing.pack(moved).view_as(said)
                grad_weight.baddbmm_(said, by_bin.transpose(1, 2).contiguous())
                grad_said.baddbmm_(w, by_bin)
            grad_vectors = packing.unpack(grad_said.view_as(vectors))
        # Through the softmax: p * (g - sum(p * g)).
        grad *= flat
        grad -= flat * grad.sum(dim=-2, keepdim=True)
        grad_bias = None
        if ctx.needs_input_grad[1]:
            grad_bias = grad.view_as(weights).sum_to_size(ctx.bias_shape)
        grad_logits = grad * queries.shape[-1] ** -0.5
        torch.bmm(grad_logits.transpose(1, 2), keys, out=grad_queries)
        torch.bmm(grad_logits, queries, out=grad_keys)
        return packing.unpack(grads, 1), grad_bias, grad_vectors, None


class TraversalEmbedding(nn.Module):
    """Where a limb stands in its body: learned embeddings of three traversals side by side.

    There are `MAX_PLACES` for each traversal, and further places share the last, so a body
    of any size has its embeddings. Those of places that training never saw keep their
    small initial values and change little. `whole` counts in the full body of the family, see
    `canonical_graph_of`.
    """

    def __init__(self, width: int, *, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole
        if width < NUM_TRAVERSALS:
            raise ValueError(f"an embedding of {NUM_TRAVERSALS} traversals can't be {width} wide")
        self.table = nn.Parameter(0.1 * torch.randn(MAX_PLACES, width))
        # Column c belongs to traversal 3 c / width.
        owner = torch.arange(width) * NUM_TRAVERSALS // width
        own = owner == torch.arange(NUM_TRAVERSALS).unsqueeze(1)
        self.register_buffer("own", own.unsqueeze(1), persistent=False)

    def forward(self, layout: BatchLayout, weight: Tensor | None = None) -> Tensor:
        """(limbs, width), or (limbs of one row, width) if all rows are of one body; or what a
        linear map (outputs, width) makes of it."""
        traversals, limbs = layout.traversals(MAX_PLACES, self.table.dtype, self.whole)
        places = traversals.shape[1] // NUM_TRAVERSALS
        table = (self.table[:places] * self.get_buffer("own")).flatten(0, 1)
        if weight is not None:
            table = table @ weight.t()
        # A product with one-hot rows of the bodies' limbs: there are fewer than in the batch.
        embedded = traversals @ table
        return embedded if limbs is None else embedded.index_select(0, limbs)


class RelationBias(nn.Module):
    """Bias of the attention logits: a linear map from three relations to heads.

    It has no constant term, which would move all logits of a softmax alike. `whole` relates
    limbs as in the full body of the family.
    """

    def __init__(self, heads: int, *, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole
        self.map = nn.Linear(NUM_RELATIONS, heads, bias=False)

    def forward(self, packing: Packing) -> Tensor:
        """(heads, 1 or bins, size, size): of the limb that is heard to the hearing one."""
        relations = packing.relations(self.map.weight.dtype, self.whole)
        return (self.map.weight @ relations.flatten(1)).view(-1, *relations.shape[1:])
