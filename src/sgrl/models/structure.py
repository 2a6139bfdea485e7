"""What SWAT knows of the structure of a body: traversal embeddings and relation biases.

Both count in the body itself or, with `canonical_positions`, in the full body of its family (see
`canonical_graph_of`), so that a limb has one position there, whichever others are missing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sgrl.models.layout import BatchLayout
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS

MAX_RANKS = 64
"""Ranks in a traversal that have an embedding of their own; later ones share the last."""


class TraversalEmbedding(nn.Module):
    """Where a limb stands in its body: learned embeddings of three traversals side by side.

    There are `MAX_RANKS` for each traversal, and further ranks share the last, so a body of any
    size has its embeddings. Those of ranks that training never saw keep their small initial values
    and change little.
    """

    owner: Tensor

    def __init__(self, width: int, *, canonical_positions: bool = False) -> None:
        super().__init__()
        self.canonical_positions = canonical_positions
        if width < NUM_TRAVERSALS:
            raise ValueError(f"an embedding of {NUM_TRAVERSALS} traversals can't be {width} wide")
        self.table = nn.Parameter(0.1 * torch.randn(MAX_RANKS, width))
        # Column c belongs to traversal 3 c / width.
        column = torch.arange(width) * NUM_TRAVERSALS // width
        owner = column == torch.arange(NUM_TRAVERSALS).unsqueeze(1)
        self.register_buffer("owner", owner.unsqueeze(1), persistent=False)

    def forward(self, layout: BatchLayout) -> Tensor:
        """(limbs, width)."""
        one_hot = layout.traversals(self.table.dtype, self.canonical_positions)
        ranks = one_hot.shape[1] // NUM_TRAVERSALS
        table = self.table[:ranks]
        if ranks > MAX_RANKS:
            table = torch.cat((table, table[-1:].expand(ranks - MAX_RANKS, -1)))
        # A product with one-hot ranks of the bodies' limbs: there are fewer than in the batch.
        return layout.from_bodies(one_hot @ (table * self.owner).flatten(0, 1))


class RelationBias(nn.Module):
    """Bias of the attention logits: a linear map from three relations to heads.

    It has no constant term, which would move all logits of a softmax alike.
    """

    def __init__(self, heads: int, *, canonical_positions: bool = False) -> None:
        super().__init__()
        self.canonical_positions = canonical_positions
        self.map = nn.Linear(NUM_RELATIONS, heads, bias=False)

    def forward(self, layout: BatchLayout) -> Tensor:
        """(1 or bins, heads, size, size), of limb i to limb j."""
        relations = layout.relations(self.map.weight.dtype, self.canonical_positions)
        bias: Tensor = self.map(relations)
        return bias.permute(0, 3, 1, 2)
