"""SET, the subequivariant transformer: scalars and vectors of limbs that attend to limbs.

Each limb carries invariant scalars `h` (limbs, embedding) and equivariant vectors `Z`
(limbs, 3, channels), kept with the coordinate in the middle so that mixing channels is one
matrix product. Vectors meet scalars only through inner products, and scalars meet vectors
only as factors, so turning or mirroring all vectors about the vertical turns or mirrors
`Z` and leaves `h` alone. The ablations are settings of `SetConfig`, not other networks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.attention import (
    LOGIT_GAIN,
    attention_weights,
    weighted_values,
    weighted_vectors,
)
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.mlp import OUTPUT_GAIN, RECTIFIED, initialize, linear
from sgrl.models.network import LimbNetwork, Role, std_layer
from sgrl.models.structure import RelationBias, TraversalEmbedding

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
    canonical_positions: bool = False
    """Whether these count in the family's full body, so that a limb keeps its position where
    others are missing, or in the body itself as in SWAT."""
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
    "many": SetConfig(embedding=64, hidden=128, matrix_hidden=64, canonical_positions=True),
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


class GramLinear(nn.Linear):
    """A linear map of the inner products of m vectors, each pair once."""

    entries: Tensor

    def __init__(self, vectors: int, outputs: int, gain: float, *, bias: bool) -> None:
        super().__init__(vectors * (vectors + 1) // 2, outputs, bias)
        initialize(self, gain)
        # Each pair, half to each of its two entries of the symmetric matrix.
        first, second = torch.triu_indices(vectors, vectors)
        entries = torch.zeros(len(first), vectors, vectors)
        entries[torch.arange(len(first)), first, second] += 0.5
        self.register_buffer("entries", (entries + entries.mT).flatten(1), persistent=False)

    def forward(self, E: Tensor) -> Tensor:
        """From vectors (n, 3, m) to (n, outputs)."""
        gram = (E.unsqueeze(-1) * E.unsqueeze(-2)).sum(1)
        return functional.linear(gram.flatten(1), self.weight @ self.entries, self.bias)


class Invariants(nn.Module):
    """s = relu(W h + b + sigma([Z, g, d]^T [Z, g, d])): all of eq:M but its last linear map.

    The mixing m = Z W of the paper has no weights of its own: the inner products of [Z W, g, d]
    are a linear map of those of [Z, g, d], and sigma begins with one.
    """

    def __init__(self, config: SetConfig) -> None:
        super().__init__()
        width = config.embedding
        self.read = linear(width, width, 1.0)
        self.gram_in: GramLinear | None = None
        if config.geometry == "scalar":
            return
        if config.gram_hidden is None:
            self.gram_out: nn.Linear = GramLinear(config.matrix, width, 1.0, bias=False)
        else:
            self.gram_in = GramLinear(config.matrix, config.gram_hidden, RECTIFIED, bias=True)
            self.gram_out = linear(config.gram_hidden, width, 1.0, bias=False)

    def forward(self, h: Tensor, E: Tensor | None) -> Tensor:
        """From scalars (n, width) and [Z, g, d] (n, 3, m) to (n, width)."""
        if E is None:
            return torch.relu(self.read(h))
        gram = E if self.gram_in is None else torch.relu(self.gram_in(E))
        return torch.relu(self.read(h) + self.gram_out(gram))


def rms_norm(Z: Tensor) -> Tensor:
    """Z / sqrt(1 + the mean square length of its vectors): (n, 3, C).

    One number per limb, the same whichever way they point: short ones stay as they are, long ones
    come out with a mean square length of 1 and their proportions.
    """
    return Z * (1 + Z.square().sum((1, 2), keepdim=True) / Z.shape[-1]).rsqrt()


class SetLayer(nn.Module):
    """One round: limbs attend to limbs, then each works on its own; both on both streams."""

    def __init__(self, config: SetConfig, *, first: bool, last: bool) -> None:
        super().__init__()
        width = config.embedding
        self.heads, self.hidden_units = config.heads, config.hidden
        self.invariants = Invariants(config)
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
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)
        units = config.hidden
        has_vectors = config.geometry == "vector"
        if has_vectors:
            self.move = linear(config.heads * config.matrix, config.channels, 1.0, bias=False)
        # The last layer leaves this to the actor's read-out, which has a matrix of its own. Q and V
        # are read off inner products of the vectors as attention leaves them.
        self.matrix: nn.Linear | None = None
        if has_vectors and not last:
            # M adds up `matrix` vectors; their sum should be as long as one of them.
            entries, gain = config.matrix * config.channels, config.matrix**-0.5
            self.matrix = linear(config.matrix_hidden, entries, gain, bias=False)
            units += config.matrix_hidden
        # The first layers of both feed-forward blocks are one product.
        self.hidden = linear(width, units, RECTIFIED)

    def forward(
        self, h: Tensor, Z: Tensor | None, gd: Tensor, layout: BatchLayout
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Scalars (n, width), vectors (n, 3, C) and attention (bins, heads, size, size)."""
        E = None if Z is None else torch.cat((Z, gd), -1)  # [Z, g, d]
        s = self.invariants(h, E)  # eq:M
        q, k, v = self.qkv(s).view(len(h), 3, self.heads, -1).unbind(1)  # q_i, k_i, v_i
        bias = None if self.relations is None else self.relations(layout)
        alpha = attention_weights(q, k, bias, layout.packing)  # alpha_ij
        av = weighted_values(alpha, v, layout.packing)  # sum_j alpha_ij v_j
        h = self.norm(h + self.out(av.flatten(1)))  # eq:h
        hidden = torch.relu(self.hidden(h))
        h = self.feed_forward_norm(h + self.feed_forward(hidden[:, : self.hidden_units]))
        if Z is None or E is None:
            return h, None, alpha
        aE = weighted_vectors(alpha, E.flatten(1), layout.packing)  # sum_j alpha_ij [Z_j, g, d]
        aE = aE.view(len(h), self.heads, 3, -1).transpose(1, 2)
        Z = Z + self.move(aE.flatten(2))  # eq:mz
        if self.matrix is not None:
            M = self.matrix(hidden[:, self.hidden_units :]).view(len(h), E.shape[-1], -1)
            Z = Z + torch.cat((Z, gd), -1) @ M  # as eq:readout does
        return h, rms_norm(Z), alpha


class Set(LimbNetwork):
    """The subequivariant transformer in any role."""

    def __init__(self, config: SetConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        width = config.embedding
        self.embed = linear(config.scalar_inputs + role.action_inputs, width, 1.0)
        traversals = (
            TraversalEmbedding(width, canonical_positions=config.canonical_positions)
            if config.structure
            else None
        )
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
        h, Z, gd, _ = self._run(batch, action)
        E = None if Z is None else torch.cat((Z, gd), -1)
        hidden = torch.relu(self.hidden(self.invariants(h, E)))
        out: Tensor = self.read_out(hidden)  # of a critic Q
        if self.projects and E is not None:
            T = (E * out.unsqueeze(1)).sum(-1)  # eq:readout, where sigma_M and W_T end in one map
            out = (batch.vectors[:, AXES] * T.unsqueeze(1)).sum(-1)  # eq:action
        if self.read_std is None:
            return out
        # Of the hidden units, which are invariant, so the standard deviation is too.
        return torch.cat((out, self.read_std(hidden)), dim=-1)

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        *_, alphas = self._run(batch, action)
        return [batch.layout.packing.by_row(alpha) for alpha in alphas]

    def _run(
        self, batch: LimbBatch, action: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor, list[Tensor]]:
        """Scalars, vectors and [g, d] after all layers, and the attention of each."""
        h, Z, gd = self._inputs(batch, action)
        alphas = []
        for layer in self.layers:
            h, Z, alpha = layer(h, Z, gd, batch.layout)
            alphas.append(alpha)
        return h, Z, gd, alphas

    def _inputs(
        self, batch: LimbBatch, action: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Scalars (limbs, width), vectors (limbs, 3, C) and fields (limbs, 3, 0 to 2)."""
        self.check_action(action)
        config = self.config
        scalars = [batch.scalars if config.height else batch.scalars[:, :-1]]  # eq:z
        fields: list[Tensor] = []
        for i, kind in enumerate((config.gravity, config.target)):
            (fields if kind == "vector" else scalars).append(batch.fields[..., i])
        Z = None
        if self.has_vectors:
            Z = rms_norm(self.embed_vectors(batch.squashed.mT))
        else:
            scalars.append(batch.squashed.flatten(1))
        if action is not None:
            scalars.append(action)
        h = self.embed(torch.cat(scalars, dim=-1))
        if self.traversals is not None:
            h = h + self.traversals(batch.layout)
        gd = torch.stack(fields, -1) if fields else batch.fields[..., :0]
        return h, Z, gd
