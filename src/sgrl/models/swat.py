"""SWAT (Hong et al. 2022): a transformer over limbs that knows the structure of the body.

A limb's observation is embedded together with its place in three traversals of the tree;
the first layer's attention is biased by three relations between limbs; the decoder sees
the limb's raw input beside what attention made of it. Without the structural information
it is Amorpheus (Kurin et al. 2021). Symmetry: none, vectors are read as plain numbers.

Traversals and relations are counted in the body itself or, with `canonical_positions`, in the full
body of its family (see `canonical_graph_of`), so that a limb has one position there, whichever
others are missing. SET reads them, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sgrl.models.attention import LOGIT_GAIN, attention_weights, weighted_values
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.network import (
    FLAT_FEATURES,
    OUTPUT_GAIN,
    RECTIFIED,
    LimbNetwork,
    Role,
    linear,
    std_layer,
)
from sgrl.morphology.graph import NUM_RELATIONS, NUM_TRAVERSALS

MAX_RANKS = 64
"""Ranks in a traversal that have an embedding of their own; later ones share the last."""


@dataclass(frozen=True)
class SWATConfig:
    """Sizes of SWAT; the defaults are the preset `fast`, of SET's widths and one layer more."""

    layers: int = 2
    """Rounds of attention."""
    heads: int = 2
    """Attention heads."""
    embedding: int = 32
    """Numbers per limb, and the width of queries, keys and values."""
    hidden: int = 64
    """Hidden units of the feed-forward blocks and of the decoder."""
    structure: bool = True
    """Traversal embeddings and relation biases; without them it is Amorpheus."""
    canonical_positions: bool = False
    """Whether these count in the family's full body, so that a limb keeps its position where
    others are missing, or in the body itself."""

    def __post_init__(self) -> None:
        if self.embedding % self.heads:
            raise ValueError(f"{self.heads} heads can't share {self.embedding} numbers evenly")


PRESETS = {
    "fast": SWATConfig(),
    "many": SWATConfig(embedding=64, hidden=128, canonical_positions=True),
    "paper": SWATConfig(layers=3, heads=2, embedding=128, hidden=256),
}


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


class SWATLayer(nn.Module):
    """One round of attention and a feed-forward block, each with its norm after it."""

    def __init__(self, config: SWATConfig, *, first: bool) -> None:
        super().__init__()
        width = config.embedding
        self.heads = config.heads
        # No biases: a key's never changes a softmax, a value's only adds to all limbs alike,
        # and those of `out` and `feed_forward` would stand beside the norms' own.
        self.qkv = linear(width, 3 * width, 1.0, bias=False)
        with torch.no_grad():
            self.qkv.weight[: 2 * width] *= LOGIT_GAIN
        related = config.structure and first
        self.relations = (
            RelationBias(config.heads, canonical_positions=config.canonical_positions)
            if related
            else None
        )
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.hidden = linear(width, config.hidden, RECTIFIED)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)

    def forward(self, h: Tensor, layout: BatchLayout) -> tuple[Tensor, Tensor]:
        """Scalars (limbs, embedding) and attention (bins, heads, size, size)."""
        q, k, v = self.qkv(h).view(len(h), 3, self.heads, -1).unbind(1)
        bias = None if self.relations is None else self.relations(layout)
        alpha = attention_weights(q, k, bias, layout.packing)
        h = self.norm(h + self.out(weighted_values(alpha, v, layout.packing).flatten(1)))
        h = self.feed_forward_norm(h + self.feed_forward(torch.relu(self.hidden(h))))
        return h, alpha


class SWAT(LimbNetwork):
    """SWAT, or Amorpheus, in any role."""

    has_attention = True

    def __init__(self, config: SWATConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        inputs, width = FLAT_FEATURES + role.action_inputs, config.embedding
        self.embed = linear(inputs, width, 1.0)
        traversals = (
            TraversalEmbedding(width, canonical_positions=config.canonical_positions)
            if config.structure
            else None
        )
        self.traversals = traversals
        self.layers = nn.ModuleList(
            SWATLayer(config, first=layer == 0) for layer in range(config.layers)
        )
        self.decoder = linear(width + inputs, config.hidden, RECTIFIED)
        self.read_out = linear(config.hidden, role.means, OUTPUT_GAIN)
        self.read_std = std_layer(config.hidden) if role.gives_std else None

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), not squashed."""
        raw, h, _ = self._run(batch, action)
        hidden = torch.relu(self.decoder(torch.cat((h, raw), dim=-1)))
        out: Tensor = self.read_out(hidden)
        return out if self.read_std is None else torch.cat((out, self.read_std(hidden)), dim=-1)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        *_, alphas = self._run(batch, action)
        return [batch.layout.packing.by_row(alpha) for alpha in alphas]

    def _run(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The raw input (limbs, 41 or 44), what all layers make of it (limbs, embedding), and
        the attention of each."""
        self.check_action(action)
        raw = batch.flat if action is None else torch.cat((batch.flat, action), dim=-1)
        h = self.embed(raw)
        if self.traversals is not None:
            h = h + self.traversals(batch.layout)
        alphas = []
        for layer in self.layers:
            h, alpha = layer(h, batch.layout)
            alphas.append(alpha)
        return raw, h, alphas
