"""SET, the subequivariant transformer: scalars and vectors of limbs that attend to limbs.

Each of n limbs carries scalars h (n, width), which no rotation of the world changes, and C vectors
Z (n, 3, C), which rotate with it, as gravity g and the target direction d do, gd (n, 3, 2). Vectors
meet scalars only in inner products, scalars meet vectors only as factors, and O^T O = 1: so every h
is invariant and every Z equivariant under rotations and reflections that leave g alone.

Beside each line stands the label of its equation in the paper; docs/explanation/set.md lists them
and says where code and text differ. The ablations are settings of `SETConfig`, not other networks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.attention import LOGIT_GAIN, attention_weights, weighted_values, weighted_vectors
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.network import (
    OUTPUT_GAIN,
    RECTIFIED,
    LimbNetwork,
    Role,
    initialize,
    linear,
    std_layer,
)
from sgrl.models.swat import RelationBias, TraversalEmbedding

AXES = slice(3, 6)
"""The hinge axes x, y and z among the six vectors of a limb."""


@dataclass(frozen=True)
class SETConfig:
    """Sizes and ablations of SET; the defaults are the preset `fast`."""

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
    def has_vectors(self) -> bool:
        """Whether limbs carry vectors at all."""
        return self.geometry == "vector"

    @property
    def num_fields(self) -> int:
        """Vectors that all limbs share: gravity, target, both or none."""
        return self.has_vectors * ((self.gravity == "vector") + (self.target == "vector"))

    @property
    def channels(self) -> int:
        """C, the vectors that a limb carries."""
        return self.matrix - self.num_fields

    @property
    def scalar_inputs(self) -> int:
        """Numbers among a limb's scalars at the input, without the action."""
        fields = 3 * ((self.gravity == "scalar") + (self.target == "scalar"))
        return NUM_SCALARS - (not self.height) + fields + 3 * NUM_VECTORS * (not self.has_vectors)


PRESETS = {
    "fast": SETConfig(),
    "many": SETConfig(embedding=64, hidden=128, matrix_hidden=64, canonical_positions=True),
    "paper": SETConfig(
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


def ablate(config: SETConfig, name: str) -> SETConfig:
    """The config with one of the paper's ablations."""
    return replace(config, **ABLATIONS[name])


class GramLinear(nn.Linear):
    """A linear map of E^T E, each pair of the m vectors E (n, 3, m) once: (n, outputs)."""

    pairs: Tensor

    def __init__(self, vectors: int, outputs: int, gain: float, *, bias: bool) -> None:
        super().__init__(vectors * (vectors + 1) // 2, outputs, bias)
        initialize(self, gain)
        first, second = torch.triu_indices(vectors, vectors)
        self.register_buffer("pairs", first * vectors + second, persistent=False)

    def forward(self, E: Tensor) -> Tensor:
        gram = (E.mT @ E).flatten(1)  # [Z, g, d]^T [Z, g, d]
        return functional.linear(gram.index_select(1, self.pairs), self.weight, self.bias)


class Invariants(nn.Module):
    """s = relu(W h + b + sigma_m([Z, g, d]^T [Z, g, d])): eq:M up to its last linear map."""

    def __init__(self, config: SETConfig) -> None:
        super().__init__()
        width, vectors, hidden = config.embedding, config.matrix, config.gram_hidden
        self.read = linear(width, width, 1.0)
        self.gram_in: nn.Linear | None = None
        self.gram_out: nn.Linear | None = None
        if config.has_vectors and hidden is None:
            self.gram_out = GramLinear(vectors, width, 1.0, bias=False)
        elif config.has_vectors and hidden is not None:
            self.gram_in = GramLinear(vectors, hidden, RECTIFIED, bias=True)
            self.gram_out = linear(hidden, width, 1.0, bias=False)

    def forward(self, h: Tensor, E: Tensor) -> Tensor:
        """(n, width) from scalars (n, width) and [Z, g, d] (n, 3, m)."""
        if self.gram_out is None:
            return torch.relu(self.read(h))
        gram = E if self.gram_in is None else torch.relu(self.gram_in(E))
        return torch.relu(self.read(h) + self.gram_out(gram))


def rms_norm(Z: Tensor) -> Tensor:
    """Z / sqrt(1 + mean square length of its vectors): one invariant number for each limb."""
    return Z * (1 + Z.square().sum((1, 2), keepdim=True) / Z.shape[-1]).rsqrt()


class SETLayer(nn.Module):
    """One round: limbs attend to limbs, then each works on its own; both on both streams."""

    def __init__(self, config: SETConfig, *, first: bool, last: bool) -> None:
        super().__init__()
        width, matrix, channels = config.embedding, config.matrix, config.channels
        self.heads, self.hidden_units = config.heads, config.hidden
        self.invariants = Invariants(config)
        # No biases: a key's never changes a softmax, a value's only adds to all limbs alike,
        # and those of `out` and `feed_forward` would stand beside the norms' own.
        self.qkv = linear(width, 3 * width, 1.0, bias=False)
        with torch.no_grad():
            self.qkv.weight[: 2 * width] *= LOGIT_GAIN
        self.relations: RelationBias | None = None
        if config.structure and first:
            positions = config.canonical_positions
            self.relations = RelationBias(config.heads, canonical_positions=positions)
        self.out = linear(width, width, 1.0, bias=False)
        self.norm = nn.LayerNorm(width)
        self.feed_forward = linear(config.hidden, width, 1.0, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.move: nn.Linear | None = None
        self.matrix: nn.Linear | None = None
        units = config.hidden
        if config.has_vectors:
            self.move = linear(config.heads * matrix, channels, 1.0, bias=False)
        # The last layer leaves M to the actor's read-out, which has one of its own. Q and V are
        # read off inner products of the vectors as attention leaves them.
        if config.has_vectors and not last:
            # M adds up `matrix` vectors; their sum should be as long as one of them.
            entries, gain = matrix * channels, matrix**-0.5
            self.matrix = linear(config.matrix_hidden, entries, gain, bias=False)
            units += config.matrix_hidden
        self.hidden = linear(width, units, RECTIFIED)  # the first layers of both blocks

    def forward(
        self, h: Tensor, Z: Tensor, gd: Tensor, layout: BatchLayout
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scalars h, vectors Z and attention alpha (bins, heads, size, size)."""
        E = torch.cat((Z, gd), -1)  # [Z, g, d]: (n, 3, m)
        s = self.invariants(h, E)  # eq:M up to its last linear map
        q, k, v = self.qkv(s).view(len(h), 3, self.heads, -1).unbind(1)  # q_i, k_i, v_i
        bias = None if self.relations is None else self.relations(layout)
        alpha = attention_weights(q, k, bias, layout.packing)  # alpha_ij
        av = weighted_values(alpha, v, layout.packing)  # sum_j alpha_ij v_j
        h = self.norm(h + self.out(av.flatten(1)))  # eq:h
        hidden = torch.relu(self.hidden(h))
        h = self.feed_forward_norm(h + self.feed_forward(hidden[:, : self.hidden_units]))
        if self.move is None:
            return h, Z, alpha
        aE = weighted_vectors(alpha, E, layout.packing)  # sum_j alpha_ij [Z_j, g, d]
        Z = Z + self.move(aE.transpose(1, 2).flatten(2))  # eq:mz
        if self.matrix is not None:
            M = self.matrix(hidden[:, self.hidden_units :]).view(len(h), E.shape[-1], -1)  # eq:M
            Z = Z + torch.cat((Z, gd), -1) @ M  # eq:subGMN
        return h, rms_norm(Z), alpha


class SET(LimbNetwork):
    """The subequivariant transformer in any role."""

    has_attention = True

    def __init__(self, config: SETConfig, role: Role) -> None:
        super().__init__(role)
        self.config = config
        width, matrix, positions = config.embedding, config.matrix, config.canonical_positions
        self.embed = linear(config.scalar_inputs + role.action_inputs, width, 1.0)
        self.traversals: TraversalEmbedding | None = None
        if config.structure:
            self.traversals = TraversalEmbedding(width, canonical_positions=positions)
        if config.has_vectors:
            self.embed_vectors = linear(NUM_VECTORS, config.channels, 1.0, bias=False)
        self.layers = nn.ModuleList(
            SETLayer(config, first=layer == 0, last=layer == config.layers - 1)
            for layer in range(config.layers)
        )
        self.invariants = Invariants(config)
        self.projects = role.gives_action and config.output == "projected"
        # A torque adds up `matrix` vectors; it should be no longer for more of them.
        outputs, gain = (matrix, 2 * matrix**-0.5) if self.projects else (role.means, 1.0)
        self.hidden = linear(width, config.matrix_hidden, RECTIFIED)
        self.read_out = linear(config.matrix_hidden, outputs, gain * OUTPUT_GAIN)
        self.read_std = std_layer(config.matrix_hidden) if role.gives_std else None

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), before tanh."""
        h, Z, gd, _ = self._run(batch, action)
        E = torch.cat((Z, gd), -1)  # [Z, g, d]
        hidden = torch.relu(self.hidden(self.invariants(h, E)))
        out: Tensor = self.read_out(hidden)  # of a critic Q
        if self.projects:
            T = (E * out.unsqueeze(1)).sum(-1)  # eq:readout, its M W_T one linear map
            out = (batch.vectors[:, AXES] * T.unsqueeze(1)).sum(-1)  # eq:action
        if self.read_std is None:
            return out
        return torch.cat((out, self.read_std(hidden)), dim=-1)  # invariant, as hidden is

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        *_, alphas = self._run(batch, action)
        return [batch.layout.packing.by_row(alpha) for alpha in alphas]

    def _run(
        self, batch: LimbBatch, action: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """h, Z and [g, d] after all layers, and the attention of each."""
        h, Z, gd = self._inputs(batch, action)
        alphas = []
        for layer in self.layers:
            h, Z, alpha = layer(h, Z, gd, batch.layout)
            alphas.append(alpha)
        return h, Z, gd, alphas

    def _inputs(self, batch: LimbBatch, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """h, Z and [g, d] before all layers."""
        self.check_action(action)
        config = self.config
        scalars = [batch.scalars if config.height else batch.scalars[:, :-1]]  # eq:z, height last
        fields: list[Tensor] = []
        for i, kind in enumerate((config.gravity, config.target)):
            (fields if kind == "vector" else scalars).append(batch.fields[..., i])
        gd = torch.stack(fields, -1) if fields else batch.fields[..., :0]
        Z = batch.squashed.mT  # Z^(0) of eq:z, positions relative to the torso: (n, 3, 6)
        if config.has_vectors:
            Z = rms_norm(self.embed_vectors(Z))
        else:
            scalars.append(batch.squashed.flatten(1))
            Z = Z[..., :0]
        if action is not None:
            scalars.append(action)
        h = self.embed(torch.cat(scalars, dim=-1))
        return h if self.traversals is None else h + self.traversals(batch.layout), Z, gd
