"""SWAT (Hong et al. 2022): a transformer over limbs that knows the structure of the body.

A limb's observation is embedded together with its place in three traversals of the tree;
the first layer's attention is biased by three relations between limbs; the decoder sees
the limb's raw input beside what attention made of it. Without the structural information
it is Amorpheus (Kurin et al. 2021). Symmetry: none, vectors are read as plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from sgrl.models.attention import (
    LOGIT_GAIN,
    RECTIFIED,
    RelationBias,
    TraversalEmbedding,
    add_by_bin,
    add_product,
    attend,
    attention_weights,
)
from sgrl.models.batch import LimbBatch
from sgrl.models.mlp import OUTPUT_GAIN, linear
from sgrl.models.network import FLAT_FEATURES, LimbNetwork, Role, flat_features
from sgrl.models.packing import Packing


@dataclass(frozen=True)
class SwatConfig:
    """Sizes of SWAT, those of SET; the defaults are SET's `fast`."""

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

    def __post_init__(self) -> None:
        if self.embedding % self.heads:
            raise ValueError(f"{self.heads} heads can't share {self.embedding} numbers evenly")


PRESETS = {
    "fast": SwatConfig(),
    "paper": SwatConfig(layers=3, heads=2, embedding=128, hidden=256),
}


class SwatLayer(nn.Module):
    """One round of attention and a feed-forward block, each with its norm after it."""

    def __init__(self, config: SwatConfig, *, with_relations: bool) -> None:
        super().__init__()
        width = config.embedding
        self.heads = config.heads
        # No biases: a key's never changes a softmax, a value's only adds to all limbs alike,
        # and those of `out` and `feed_forward` would stand beside the norms' own.
        self.qkv = linear(width, 3 * width, 1.0, bias=False)
        with torch.no_grad():
            self.qkv.weight[: 2 * width] *= LOGIT_GAIN
        self.relations = RelationBias(config.heads) if with_relations else None
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.hidden = linear(width, config.hidden, RECTIFIED)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)

    def forward(self, packing: Packing, h: Tensor) -> Tensor:
        """(slots, embedding) renewed."""
        bias = None if self.relations is None else self.relations(packing)
        heard, _ = attend(packing, self.qkv(h), self.heads, bias)
        h = self.norm(add_product(h, heard, self.out.weight))
        hidden = torch.relu_(self.hidden(h))
        renewed: Tensor = self.feed_forward_norm(add_product(h, hidden, self.feed_forward.weight))
        return renewed

    def weights(self, packing: Packing, h: Tensor) -> Tensor:
        """Attention (rows, heads, max_limbs, max_limbs) of this layer, to look at."""
        bias = None if self.relations is None else self.relations(packing)
        return attention_weights(packing, self.qkv(h), self.heads, bias)


class Swat(LimbNetwork):
    """SWAT, or Amorpheus, in any role."""

    def __init__(self, config: SwatConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        inputs, width = FLAT_FEATURES + role.action_inputs, config.embedding
        self.embed = linear(inputs, width, 1.0)
        self.traversals = TraversalEmbedding(width) if config.structure else None
        self.layers = nn.ModuleList(
            SwatLayer(config, with_relations=config.structure and layer == 0)
            for layer in range(config.layers)
        )
        self.decoder = linear(width + inputs, config.hidden, RECTIFIED)
        self.read_out = linear(config.hidden, role.outputs, OUTPUT_GAIN)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, 3) or (limbs, 1), not squashed."""
        packing = batch.layout.packing
        raw, h = self._inputs(batch, action)
        for layer in self.layers:
            h = layer(packing, h)
        out: Tensor = self.read_out(torch.relu_(self.decoder(torch.cat((h, raw), dim=-1))))
        return packing.unpack(out)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        _, h = self._inputs(batch, action)
        found = []
        for layer in cast(list[SwatLayer], self.layers):
            found.append(layer.weights(batch.layout.packing, h))
            h = layer(batch.layout.packing, h)
        return found

    def _inputs(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor]:
        """The raw input (slots, 41 or 44) and its embedding (slots, embedding)."""
        self.check_action(action)
        packing = batch.layout.packing
        raw = packing.pack(flat_features(batch))
        if action is not None:
            raw = torch.cat((raw, packing.pack(action)), dim=-1)
        h = self.embed(raw)
        return raw, h if self.traversals is None else add_by_bin(h, self.traversals(packing))
