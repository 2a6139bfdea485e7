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
    attend,
    attention_weights,
)
from sgrl.models.batch import LimbBatch
from sgrl.models.blocks import embed, feed_forward, project, rectify, renew
from sgrl.models.mlp import OUTPUT_GAIN, linear
from sgrl.models.network import FLAT_FEATURES, LimbNetwork, Role, std_layer
from sgrl.models.packing import Packing


@dataclass(frozen=True)
class SwatConfig:
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
    whole: bool = False
    """Whether these are of the family's full body, so that a limb keeps its place where others
    are missing, or of the body itself."""

    def __post_init__(self) -> None:
        if self.embedding % self.heads:
            raise ValueError(f"{self.heads} heads can't share {self.embedding} numbers evenly")


PRESETS = {
    "fast": SwatConfig(),
    "many": SwatConfig(embedding=64, hidden=128, whole=True),
    "paper": SwatConfig(layers=3, heads=2, embedding=128, hidden=256),
}


class SwatLayer(nn.Module):
    """One round of attention and a feed-forward block, each with its norm after it."""

    def __init__(self, config: SwatConfig, *, first: bool) -> None:
        super().__init__()
        width = config.embedding
        self.heads = config.heads
        # No biases: a key's never changes a softmax, a value's only adds to all limbs alike,
        # and those of `out` and `feed_forward` would stand beside the norms' own.
        self.qkv = linear(width, 3 * width, 1.0, bias=False)
        with torch.no_grad():
            self.qkv.weight[: 2 * width] *= LOGIT_GAIN
        related = config.structure and first
        self.relations = RelationBias(config.heads, whole=config.whole) if related else None
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.hidden = linear(width, config.hidden, RECTIFIED)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)

    def forward(self, packing: Packing, h: Tensor, qkv: Tensor) -> Tensor:
        """(limbs, embedding) renewed by queries, keys and values as `attend` takes them."""
        heard, _ = attend(packing, qkv, self._bias(packing))
        h = renew(h, heard, self.out.weight, self.norm)
        h, _ = feed_forward(h, self.hidden, self.feed_forward.weight, self.feed_forward_norm)
        return h

    def weights(self, packing: Packing, qkv: Tensor) -> Tensor:
        """Attention (rows, heads, max_limbs, max_limbs) of this layer, to look at."""
        return attention_weights(packing, qkv, self._bias(packing))

    def _bias(self, packing: Packing) -> Tensor | None:
        return None if self.relations is None else self.relations(packing)


class Swat(LimbNetwork):
    """SWAT, or Amorpheus, in any role."""

    def __init__(self, config: SwatConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        inputs, width = FLAT_FEATURES + role.action_inputs, config.embedding
        self.embed = linear(inputs, width, 1.0)
        traversals = TraversalEmbedding(width, whole=config.whole) if config.structure else None
        self.traversals = traversals
        self.layers = nn.ModuleList(
            SwatLayer(config, first=layer == 0) for layer in range(config.layers)
        )
        self.decoder = linear(width + inputs, config.hidden, RECTIFIED)
        self.read_out = linear(config.hidden, role.means, OUTPUT_GAIN)
        self.read_std = std_layer(config.hidden) if role.gives_std else None

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), not squashed."""
        raw, h, _ = self._run(batch, action)
        of_h, of_raw = self.decoder.weight.tensor_split((h.shape[-1],), dim=-1)
        hidden = rectify(h, of_h, self.decoder.bias, raw, of_raw)
        out: Tensor = self.read_out(hidden)
        return out if self.read_std is None else torch.cat((out, self.read_std(hidden)), dim=-1)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        *_, qkvs = self._run(batch, action)
        layers = zip(cast(list[SwatLayer], self.layers), qkvs, strict=True)
        return [layer.weights(batch.layout.packing, qkv) for layer, qkv in layers]

    def _run(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The raw input (limbs, 41 or 44), what all layers make of it (limbs, embedding), and
        the queries, keys and values of each."""
        packing = batch.layout.packing
        raw, h, qkv = self._inputs(batch, action)
        first, *others = cast(list[SwatLayer], self.layers)
        h, qkvs = first(packing, h, qkv), [qkv]
        for layer in others:
            qkvs.append(project(h, layer.qkv.weight, 3 * layer.heads))
            h = layer(packing, h, qkvs[-1])
        return raw, h, qkvs

    def _inputs(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The raw input, its embedding, and the first layer's queries, keys and values.

        Nothing but linear maps lead from the input to these. The product of the maps is a third
        as wide as the embedding that it leaves out.
        """
        self.check_action(action)
        raw = batch.flat
        if action is not None:
            raw = torch.cat((raw, action), dim=-1)
        first = cast(SwatLayer, self.layers[0])
        to_qkv, parts = first.qkv.weight, 3 * first.heads
        place, place_qkv = self.embed.bias.view(1, -1), (to_qkv @ self.embed.bias).view(1, -1)
        if self.traversals is not None:
            place = place + self.traversals(batch.layout)
            place_qkv = place_qkv + self.traversals(batch.layout, to_qkv)
        h = embed(raw, self.embed.weight, place)
        return raw, h, project(raw, to_qkv @ self.embed.weight, parts, place_qkv)
