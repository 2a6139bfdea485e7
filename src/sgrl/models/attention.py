"""Attention between the limbs of a row, and what it knows of the structure of a body.

Limbs of a batch lie in one list. Attention alone needs rows of one size: it packs several rows
into a bin (`packing`), works on bins and unpacks what it has made.
"""

from __future__ import annotations

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


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None, packing: Packing) -> Tensor:
    """alpha_ij = softmax_j(q_i . k_j / sqrt(e) + bias_ij): (bins, heads, size, size).

    Queries and keys are (limbs, heads, e); `bias` is (1 or bins, heads, size, size).
    """
    q, k = packing.pack(q).transpose(1, 2), packing.pack(k).transpose(1, 2)
    logits = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if bias is not None:
        logits = logits + bias
    if packing.mask is not None:
        logits = logits + packing.mask.to(logits.dtype)
    return torch.softmax(logits, dim=-1)


def weighted_values(alpha: Tensor, v: Tensor, packing: Packing) -> Tensor:
    """sum_j alpha_ij v_j, each head of its own values: (limbs, heads, e)."""
    return packing.unpack((alpha @ packing.pack(v).transpose(1, 2)).transpose(1, 2))


def weighted_vectors(alpha: Tensor, x: Tensor, packing: Packing) -> Tensor:
    """sum_j alpha_ij x_j, each head of all numbers (limbs, n): (limbs, heads, n)."""
    bins, heads, size, _ = alpha.shape
    found = alpha.flatten(1, 2) @ packing.pack(x)
    return packing.unpack(found.view(bins, heads, size, -1).transpose(1, 2))


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

    def forward(self, layout: BatchLayout) -> Tensor:
        """(limbs, width)."""
        traversals = layout.traversals(MAX_PLACES, self.table.dtype, self.whole)
        places = traversals.shape[1] // NUM_TRAVERSALS
        table = (self.table[:places] * self.get_buffer("own")).flatten(0, 1)
        # A product with one-hot rows of the bodies' limbs: there are fewer than in the batch.
        return layout.from_bodies(traversals @ table)


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
        """(1 or bins, heads, size, size), of limb i to limb j."""
        relations = packing.relations(self.map.weight.dtype, self.whole)
        bias: Tensor = self.map(relations)
        return bias.permute(0, 3, 1, 2)
