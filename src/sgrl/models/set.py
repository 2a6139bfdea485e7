"""SET, the subequivariant transformer: scalars and vectors of limbs that attend to limbs.

Each limb carries invariant scalars `h` (limbs, embedding) and equivariant vectors `Z`
(limbs, 3, channels), kept with the coordinate in the middle so that mixing channels is one
matrix product. Vectors meet scalars only through inner products, and scalars meet vectors
only as factors, so turning or mirroring all vectors about the vertical turns or mirrors
`Z` and leaves `h` alone. The ablations are settings of `SetConfig`, not other networks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
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
from sgrl.models.network import LimbNetwork, Role
from sgrl.models.packing import Packing
from sgrl.models.vectors import map_products, shorten

AXES = slice(3, 6)
"""The hinge axes among the six vectors of a limb."""


@dataclass(frozen=True)
class SetConfig:
    """Sizes and ablations of SET.

    The sizes of `fast`, the default, are chosen for a CPU by what learns per second and by the
    cost of an update (docs/methods.md). Four fifths of the cost of `paper` are products with the
    512 hidden units of the MLPs around its matrices of 32 x 32, which grow with the square of
    the channels. A small network pays for the number of its operations instead: a second layer
    costs as much as the first, twice the width half as much again. So `fast` has one layer, no
    hidden layer between inner products and embedding, and 12 channels (with fewer, PyTorch
    would multiply the small matrices by a slow path).
    """

    layers: int = 1
    """Rounds of attention."""
    heads: int = 2
    """Attention heads."""
    embedding: int = 32
    """Invariant scalars per limb, and the width of queries, keys and values."""
    hidden: int = 64
    """Hidden units of the scalars' feed-forward block."""
    matrix: int = 14
    """Vectors that meet in a limb, by inner products and in the invariant matrix that mixes
    them: its channels, gravity and target."""
    matrix_hidden: int = 48
    """Hidden units of the MLPs that write matrices and read out."""
    gram_hidden: int | None = None
    """Hidden units between the inner products and the embedding; None for a linear map."""
    structure: bool = True
    """SWAT's traversal embeddings and relation biases."""
    gravity: Literal["vector", "scalar"] = "vector"
    """Gravity among the vectors, or its coordinates among the scalars (ablation \\g)."""
    target: Literal["vector", "scalar"] = "vector"
    """Target direction among the vectors, or its coordinates among the scalars (\\gd)."""
    height: bool = True
    """Whether a limb sees its height above the ground (not in ablation \\z)."""
    geometry: Literal["vector", "scalar"] = "vector"
    """The limb's vectors as vectors, or their coordinates as scalars (in_invar)."""
    output: Literal["projected", "direct"] = "projected"
    """Actions: a torque vector on the hinge axes, or read off the scalars (out_invar)."""

    def __post_init__(self) -> None:
        if self.embedding % self.heads:
            raise ValueError(f"{self.heads} heads can't share {self.embedding} numbers evenly")
        if self.matrix <= self.num_fields:
            raise ValueError("matrix needs room for a channel beside gravity and target")
        if self.geometry == "scalar" and self.output == "projected":
            raise ValueError("without vectors there is no torque to project; set output='direct'")

    @property
    def num_fields(self) -> int:
        """Vectors that all limbs share: gravity, target, both or none."""
        if self.geometry == "scalar":
            return 0
        return (self.gravity == "vector") + (self.target == "vector")

    @property
    def channels(self) -> int:
        """Vectors that a limb carries."""
        return self.matrix - self.num_fields

    @property
    def scalar_inputs(self) -> int:
        """Numbers among a limb's scalars at the input, without the action."""
        geometry = 3 * NUM_VECTORS * (self.geometry == "scalar")
        fields = 3 * (self.gravity == "scalar") + 3 * (self.target == "scalar")
        return NUM_SCALARS - (not self.height) + geometry + fields


PRESETS = {
    "fast": SetConfig(),
    "paper": SetConfig(
        layers=3,
        heads=2,
        embedding=128,
        hidden=256,
        matrix=32,
        matrix_hidden=512,
        gram_hidden=512,
    ),
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "g": {"gravity": "scalar"},
    "gd": {"gravity": "scalar", "target": "scalar"},
    "z": {"height": False},
    "in_invar": {
        "gravity": "scalar",
        "target": "scalar",
        "geometry": "scalar",
        "output": "direct",
    },
    "out_invar": {"output": "direct"},
}
"""What the paper's ablations change."""


def ablate(config: SetConfig, name: str) -> SetConfig:
    """The config with one of the paper's ablations."""
    return replace(config, **ABLATIONS[name])


class Invariants(nn.Module):
    """The invariant embedding of a limb, from which its matrix M and all else is made.

    Equation eq:M up to the last layer of its outer MLP: `mlp([m, g, d]^T [m, g, d])` and
    `h`, each mapped to the embedding, added, rectified. (limbs, embedding). The mixing
    m = Z W has no weights of its own: the inner products of [Z W, g, d] are a linear map
    of those of [Z, g, d], and the MLP begins with one.
    """

    def __init__(self, config: SetConfig) -> None:
        super().__init__()
        width = config.embedding
        self.read = linear(width, width, 1.0)
        self.has_vectors = config.geometry == "vector"
        self.gram_in: nn.Linear | None = None
        if self.has_vectors:
            products = config.matrix * (config.matrix + 1) // 2
            if config.gram_hidden is not None:
                self.gram_in = linear(products, config.gram_hidden, RECTIFIED)
                products = config.gram_hidden
            self.gram_out = linear(products, width, 1.0, bias=False)

    def forward(self, h: Tensor, stacked: Tensor | None) -> Tensor:
        embedding: Tensor = self.read(h)
        if self.has_vectors and stacked is not None:
            if self.gram_in is None:
                embedding = embedding + map_products(stacked, self.gram_out.weight)
            else:
                inner = map_products(stacked, self.gram_in.weight).add_(self.gram_in.bias)
                embedding = add_product(embedding, torch.relu_(inner), self.gram_out.weight)
        return torch.relu_(embedding)


class SetLayer(nn.Module):
    """One round: limbs attend to limbs, then each works on its own; both on both streams."""

    def __init__(self, config: SetConfig, *, first: bool, last: bool) -> None:
        super().__init__()
        width = config.embedding
        self.heads = config.heads
        self.invariants = Invariants(config)
        # No biases: a key's never changes a softmax, a value's only adds to all limbs alike,
        # and those of `out` and `feed_forward` would stand beside the norms' own.
        self.qkv = linear(width, 3 * width, 1.0, bias=False)
        with torch.no_grad():
            self.qkv.weight[: 2 * width] *= LOGIT_GAIN
        self.relations = RelationBias(config.heads) if config.structure and first else None
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.channels, self.num_fields = config.channels, config.num_fields
        self.has_vectors = config.geometry == "vector"
        self.split = [config.hidden]
        if self.has_vectors:
            self.move = linear(config.heads * config.matrix, config.channels, 1.0, bias=False)
        # In the last layer this is left to the read-out, which has a matrix of its own.
        self.has_matrix = self.has_vectors and not last
        if self.has_matrix:
            # M adds up `matrix` vectors; their sum should be as long as one of them.
            entries, gain = config.matrix * config.channels, config.matrix**-0.5
            self.matrix = linear(config.matrix_hidden, entries, gain, bias=False)
            self.split.append(config.matrix_hidden)
        # The first layers of both feed-forward blocks are one product.
        self.hidden = linear(width, sum(self.split), RECTIFIED)

    def forward(
        self, packing: Packing, h: Tensor, stacked: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Scalars (slots, embedding) and [Z, g, d] (slots, 3, matrix), both renewed."""
        qkv, bias = self._logits(packing, h, stacked)
        move = None
        if self.has_vectors:
            # g and d stay as they are; what comes of them is not needed in the last layer.
            rows_for_fields = self.num_fields if self.has_matrix else 0
            move = functional.pad(self.move.weight, (0, 0, 0, rows_for_fields))
        heard, moved = attend(packing, qkv, self.heads, bias, stacked, move)
        h = self.norm(add_product(h, heard, self.out.weight))
        hidden = torch.split(torch.relu_(self.hidden(h)), self.split, dim=-1)
        h = self.feed_forward_norm(add_product(h, hidden[0], self.feed_forward.weight))
        if stacked is not None and moved is not None:
            # Weights of a limb's attention sum to 1, so each head hears [u, g, d] with g and
            # d as they are (eq:mz).
            vectors, fields = stacked[..., : self.channels], stacked[..., self.channels :]
            if self.has_matrix:
                stacked = stacked + moved
                matrix = self.matrix(hidden[1]).view(len(h), -1, self.channels)
                vectors = torch.baddbmm(stacked[..., : self.channels], stacked, matrix)
            else:
                vectors = vectors + moved
            stacked = shorten(vectors, fields)
        return h, stacked

    def weights(self, packing: Packing, h: Tensor, stacked: Tensor | None) -> Tensor:
        """Attention (rows, heads, max_limbs, max_limbs) of this layer, to look at."""
        qkv, bias = self._logits(packing, h, stacked)
        return attention_weights(packing, qkv, self.heads, bias)

    def _logits(
        self, packing: Packing, h: Tensor, stacked: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        qkv = self.qkv(self.invariants(h, stacked))
        return qkv, None if self.relations is None else self.relations(packing)


class Set(LimbNetwork):
    """The subequivariant transformer in any role."""

    def __init__(self, config: SetConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        width = config.embedding
        self.embed = linear(config.scalar_inputs + role.action_inputs, width, 1.0)
        self.traversals = TraversalEmbedding(width) if config.structure else None
        self.has_vectors = config.geometry == "vector"
        if self.has_vectors:
            self.embed_vectors = linear(NUM_VECTORS, config.channels, 1.0, bias=False)
        self.layers = nn.ModuleList(
            SetLayer(config, first=layer == 0, last=layer == config.layers - 1)
            for layer in range(config.layers)
        )
        self.invariants = Invariants(config)
        self.projects = role.gives_action and config.output == "projected"
        # A torque adds up `matrix` vectors; it should be no longer for more of them.
        outputs, gain = (
            (config.matrix, 2 * config.matrix**-0.5) if self.projects else (role.outputs, 1.0)
        )
        self.hidden = linear(width, config.matrix_hidden, RECTIFIED)
        self.read_out = linear(config.matrix_hidden, outputs, gain * OUTPUT_GAIN)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, 3) or (limbs, 1), not squashed."""
        packing = batch.layout.packing
        h, stacked = self._inputs(batch, action)
        for layer in self.layers:
            h, stacked = layer(packing, h, stacked)
        out: Tensor = self.read_out(torch.relu_(self.hidden(self.invariants(h, stacked))))
        if not self.projects or stacked is None:
            return packing.unpack(out)
        # eq:readout. The last layer of its MLP and W_T are one linear map.
        torque = packing.unpack((stacked * out.unsqueeze(1)).sum(dim=-1))
        return (batch.vectors[:, AXES] * torque.unsqueeze(1)).sum(dim=-1)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        packing = batch.layout.packing
        h, stacked = self._inputs(batch, action)
        found = []
        for layer in cast(list[SetLayer], self.layers):
            found.append(layer.weights(packing, h, stacked))
            h, stacked = layer(packing, h, stacked)
        return found

    def _inputs(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Scalars (slots, embedding) and [Z, g, d] (slots, 3, matrix)."""
        self.check_action(action)
        config = self.config
        scalars = [batch.packed_scalars if config.height else batch.packed_scalars[:, :-1]]
        as_vectors = (config.gravity == "vector", config.target == "vector")
        scalars += [batch.packed_fields[..., i] for i in range(2) if not as_vectors[i]]
        stacked = None
        if self.has_vectors:
            fields = batch.packed_fields[..., [i for i in range(2) if as_vectors[i]]]
            stacked = shorten(self.embed_vectors(batch.packed_channels), fields)
        else:
            scalars.append(batch.packed_channels.transpose(1, 2).flatten(1))
        if action is not None:
            scalars.append(batch.layout.packing.pack(action))
        h = self.embed(torch.cat(scalars, dim=-1))
        if self.traversals is not None:
            h = add_by_bin(h, self.traversals(batch.layout.packing))
        return h, stacked
