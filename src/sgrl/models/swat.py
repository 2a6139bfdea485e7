"""SWAT (Hong et al. 2022): a transformer over limbs that knows the structure of the body.

A limb's observation is embedded together with its place in three traversals of the tree;
the first layer's attention is biased by three relations between limbs; the decoder sees
the limb's raw input beside what attention made of it. Without the structural information
it is Amorpheus (Kurin et al. 2021). Symmetry: none, vectors are read as plain numbers.
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
from sgrl.models.structure import RelationBias, TraversalEmbedding


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
