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
    attend,
    attention_weights,
)
from sgrl.models.batch import LimbBatch
from sgrl.models.blocks import embed, feed_forward, project, rectify, renew
from sgrl.models.mlp import OUTPUT_GAIN, linear
from sgrl.models.network import LimbNetwork, Role, std_layer
from sgrl.models.observed import (
    Observed,
    mix,
    observed_products,
    shorten_products,
    weights_of_products,
)
from sgrl.models.packing import Packing
from sgrl.models.vectors import combine, inner_products, shorten

AXES = slice(3, 6)
"""The hinge axes among the six vectors of a limb."""


@dataclass(frozen=True)
class SetConfig:
    """Sizes and ablations of SET.

    The sizes of `fast`, the default, are chosen for a CPU by what learns per second and by the
    cost of an update (docs/results/curves.md). Four fifths of the cost of `paper` are products with
    the 512 hidden units of the MLPs around its matrices of 32 x 32, which grow with the square of
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
    whole: bool = False
    """Whether these are of the family's full body, so that a limb keeps its place where others
    are missing, or of the body itself as in SWAT."""
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
    "many": SetConfig(embedding=64, hidden=128, matrix_hidden=64, whole=True),
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
        """From scalars and [Z, g, d] (limbs, 3, matrix)."""
        if not self.has_vectors or stacked is None:
            return rectify(h, self.read.weight, self.read.bias)
        return self._embedding(h, *inner_products(stacked, self._inner.weight))

    def at_first(self, h: Tensor, seen: Observed, mixture: Tensor) -> tuple[Tensor, Tensor]:
        """From scalars and what was observed, of which `mixture` (channels, 6) makes Z.

        Also the factor (limbs, 1) that shortens Z.
        """
        fields = seen.fields.shape[-1]
        weight, square = weights_of_products(self._inner.weight, mixture, fields)
        products, factor = shorten_products(seen.products, square, mixture.shape[1], fields)
        return self._embedding(h, products, weight), factor

    @property
    def _inner(self) -> nn.Linear:
        """What reads the inner products."""
        return self.gram_out if self.gram_in is None else self.gram_in

    def _embedding(self, h: Tensor, products: Tensor, weight: Tensor) -> Tensor:
        """`weight` maps products as `gram_in` does, or `gram_out` if there is none."""
        also, by = products, weight
        if self.gram_in is not None:
            also, by = rectify(products, weight, self.gram_in.bias), self.gram_out.weight
        return rectify(h, self.read.weight, self.read.bias, also, by)


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
        related = config.structure and first
        self.relations = RelationBias(config.heads, whole=config.whole) if related else None
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.channels, self.num_fields = config.channels, config.num_fields
        self.has_vectors = config.geometry == "vector"
        units = config.hidden
        if self.has_vectors:
            self.move = linear(config.heads * config.matrix, config.channels, 1.0, bias=False)
        # The last layer leaves this to the actor's read-out, which has a matrix of its own. Q and V
        # are read off inner products of the vectors as attention leaves them.
        if self.has_vectors and not last:
            # M adds up `matrix` vectors; their sum should be as long as one of them.
            entries, gain = config.matrix * config.channels, config.matrix**-0.5
            self.matrix = linear(config.matrix_hidden, entries, gain, bias=False)
            units += config.matrix_hidden
        # The first layers of both feed-forward blocks are one product.
        self.hidden = linear(width, units, RECTIFIED)

    def forward(
        self, packing: Packing, h: Tensor, stacked: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Scalars (limbs, embedding) and [Z, g, d] (limbs, 3, matrix), both renewed.

        Also the invariant embedding that limbs attended by, for `weights`.
        """
        embedding = self.invariants(h, stacked)
        heard, moved = self._attend(packing, embedding, stacked)
        h, left = self._renew(h, heard)
        if stacked is None:
            return h, None, embedding
        vectors, fields = stacked[..., : self.channels], stacked[..., self.channels :]
        for one, part in zip(moved, self.move.weight.chunk(self.heads, -1), strict=True):
            vectors = vectors + one.view(len(h), 3, -1) @ part.t()
        vectors = functional.pad(vectors, (0, self.num_fields))
        return h, self._finish(vectors, fields, left), embedding

    def at_first(
        self, packing: Packing, h: Tensor, seen: Observed, mixture: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for a first layer whose Z is a `mixture` (channels, 6) of what was observed."""
        embedding, factor = self.invariants.at_first(h, seen, mixture)
        own = seen.vectors.flatten(1) * factor
        heard, moved = self._attend(packing, embedding, own)
        h, left = self._renew(h, heard)
        move = self.move.weight.view(self.channels, self.heads, -1)
        weights = (
            mixture,
            *(move[..., : self.channels] @ mixture).unbind(1),
            # Weights of a limb's attention sum to 1: each head hears g and d as they are.
            move[..., self.channels :].sum(dim=1),
        )
        vectors = mix((own, *moved, seen.fields.flatten(1)), weights, self.num_fields)
        return h, self._finish(vectors, seen.fields, left), embedding

    def weights(self, packing: Packing, embedding: Tensor) -> Tensor:
        """Attention (rows, heads, max_limbs, max_limbs) of this layer, to look at."""
        return attention_weights(packing, self._qkv(embedding), self._bias(packing))

    def _qkv(self, embedding: Tensor) -> Tensor:
        return project(embedding, self.qkv.weight, 3 * self.heads)

    def _bias(self, packing: Packing) -> Tensor | None:
        return None if self.relations is None else self.relations(packing)

    def _attend(
        self, packing: Packing, embedding: Tensor, vectors: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What each head hears of scalars, and of vectors."""
        flat = None if vectors is None else vectors.flatten(1)
        return attend(packing, self._qkv(embedding), self._bias(packing), flat)

    def _renew(self, h: Tensor, heard: Tensor) -> tuple[Tensor, Tensor | None]:
        """The scalars, and the hidden units that the matrix is made of."""
        h = renew(h, heard, self.out.weight, self.norm)
        return feed_forward(h, self.hidden, self.feed_forward.weight, self.feed_forward_norm)

    def _finish(self, vectors: Tensor, fields: Tensor, left: Tensor | None) -> Tensor:
        """[Z, g, d] from [Z, 0, 0]: mixed by the matrix if this layer has one, and shortened."""
        if left is not None:
            stacked = torch.cat((vectors[..., : self.channels], fields), dim=-1)
            matrix = self.matrix(left).view(len(left), -1, self.channels)
            vectors = vectors + functional.pad(stacked @ matrix, (0, self.num_fields))
        return shorten(vectors, fields)


class Set(LimbNetwork):
    """The subequivariant transformer in any role."""

    def __init__(self, config: SetConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        width = config.embedding
        self.embed = linear(config.scalar_inputs + role.action_inputs, width, 1.0)
        traversals = TraversalEmbedding(width, whole=config.whole) if config.structure else None
        self.traversals = traversals
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
            (config.matrix, 2 * config.matrix**-0.5) if self.projects else (role.means, 1.0)
        )
        self.hidden = linear(width, config.matrix_hidden, RECTIFIED)
        self.read_out = linear(config.matrix_hidden, outputs, gain * OUTPUT_GAIN)
        self.read_std = std_layer(config.matrix_hidden) if role.gives_std else None

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), not squashed."""
        h, stacked, _ = self._run(batch, action)
        hidden = rectify(self.invariants(h, stacked), self.hidden.weight, self.hidden.bias)
        out: Tensor = self.read_out(hidden)
        if self.projects and stacked is not None:
            # eq:readout. The last layer of its MLP and W_T are one linear map.
            torque = combine(stacked, out)
            out = torch.bmm(batch.vectors[:, AXES], torque.unsqueeze(2)).squeeze(2)
        if self.read_std is None:
            return out
        # Of the hidden units, which are invariant, so the standard deviation is too.
        return torch.cat((out, self.read_std(hidden)), dim=-1)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        *_, embeddings = self._run(batch, action)
        layers = zip(cast(list[SetLayer], self.layers), embeddings, strict=True)
        return [layer.weights(batch.layout.packing, embedding) for layer, embedding in layers]

    def _run(
        self, batch: LimbBatch, action: Tensor | None
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Scalars and [Z, g, d] after all layers, and the embedding that each attended by."""
        packing = batch.layout.packing
        h, seen = self._inputs(batch, action)
        first, *others = cast(list[SetLayer], self.layers)
        stacked: Tensor | None
        if seen is None:
            h, stacked, embedding = first(packing, h, None)
        else:
            h, stacked, embedding = first.at_first(packing, h, seen, self.embed_vectors.weight)
        embeddings = [embedding]
        for layer in others:
            h, stacked, embedding = layer(packing, h, stacked)
            embeddings.append(embedding)
        return h, stacked, embeddings

    def _inputs(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Observed | None]:
        """Scalars (limbs, embedding) and what was observed as vectors."""
        self.check_action(action)
        config = self.config
        scalars = [batch.scalars if config.height else batch.scalars[:, :-1]]
        as_vectors = (config.gravity == "vector", config.target == "vector")
        scalars += [batch.fields[..., i] for i in range(2) if not as_vectors[i]]
        seen = None
        if self.has_vectors:
            seen = Observed(batch.channels, batch.fields, batch.products)
            if not all(as_vectors):
                fields = batch.fields[..., [i for i in range(2) if as_vectors[i]]]
                seen = Observed(seen.vectors, fields, observed_products(seen.vectors, fields))
        else:
            scalars.append(batch.channels.transpose(1, 2).flatten(1))
        if action is not None:
            scalars.append(action)
        place = self.embed.bias.view(1, -1)
        if self.traversals is not None:
            place = place + self.traversals(batch.layout)
        together = torch.cat(scalars, dim=-1) if len(scalars) > 1 else scalars[0]
        return embed(together, self.embed.weight, place), seen
