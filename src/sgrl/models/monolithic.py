"""Monolithic: TD3's plain network on one body, blind to what a limb is.

All that the limbs of a body observe goes side by side into an MLP that gives all actions,
or one value, at once. It is made for one body and refuses any other.

Symmetry: none. Vectors are read as plain numbers.

For SAC it reads only the numbers that vary, each normalized by running statistics, and normalizes
hidden layers. In the target frame (+tn) that keeps the symmetry of rotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.batch import LimbBatch
from sgrl.models.network import FLAT_FEATURES, NUM_HINGES, LimbNetwork, Role, mlp, std_layer
from sgrl.models.normalizer import ColumnStatistics
from sgrl.morphology import Morphology


@dataclass(frozen=True)
class MonolithicConfig:
    """Sizes of Monolithic; the defaults are TD3's."""

    hidden: tuple[int, ...] = (256, 256)
    """Units in each hidden layer."""
    columns: Literal["all", "varying"] = "all"
    """All 41 numbers of a limb, vectors squashed; or those that vary, normalized by statistics."""
    layer_norm: bool = False
    """Whether hidden layers are normalized."""


PRESETS = {
    "fast": MonolithicConfig(columns="varying", layer_norm=True),
    "paper": MonolithicConfig(),
}
_ANGLES = slice(0, 3)
"""The scalars that vary: scaled angles follow from them, limits and type never change."""
_VARYING = 3 * NUM_VECTORS + 3 + 1
"""Numbers of a limb that vary: vectors, angles, height."""
_TORSO_CONSTANTS = (*range(3), *range(9, 21))
"""Numbers among these that never change: the torso's position, axes and angles, first in a row."""


class Monolithic(LimbNetwork):
    """One MLP for the whole body."""

    def __init__(self, config: MonolithicConfig, role: Role, body: Morphology) -> None:
        super().__init__(role)
        self.body = body
        self.statistics: ColumnStatistics | None = None
        observed = body.num_limbs * FLAT_FEATURES
        if config.columns == "varying":
            observed = body.num_limbs * _VARYING - len(_TORSO_CONSTANTS) + 2
            self.statistics = ColumnStatistics(observed)
        # The torso has no motors: no inputs or outputs are wasted on it.
        inputs = observed + role.reads_action * body.action_dim
        outputs = body.action_dim if role.gives_action else 1
        self.layers = mlp(inputs, config.hidden, outputs, layer_norm=config.layer_norm)
        if role.gives_std:
            self.read_std = std_layer(config.hidden[-1], outputs)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs); a value is of the whole body, the same for all its limbs."""
        self.check_action(action)
        self._check_bodies(batch.layout.bodies)
        layout = batch.layout
        rows = self._observed(batch)
        if action is not None:
            rows = torch.cat((rows, layout.actions_to_rows(action)), dim=-1)
        hidden: Tensor = self.layers[:-1](rows)
        result: Tensor = self.layers[-1](hidden)
        if not self.role.gives_action:
            return layout.to_limbs(result)
        limbs = layout.actions_to_limbs(result)
        if not self.role.gives_std:
            return limbs
        return torch.cat((limbs, layout.actions_to_limbs(self.read_std(hidden))), dim=-1)

    def _observed(self, batch: LimbBatch) -> Tensor:
        """(rows, columns)."""
        rows = batch.layout.num_rows
        if self.statistics is None:
            return batch.flat.view(rows, -1)
        vectors = batch.vectors.flatten(1)
        scalars = (batch.scalars[:, _ANGLES], batch.scalars[:, NUM_SCALARS - 1 :])
        limbs = torch.cat((vectors, *scalars), dim=1).view(rows, -1)
        varying = torch.cat((limbs[:, 3:9], limbs[:, 21:], batch.target[:, :2]), dim=1)
        result: Tensor = self.statistics(varying)
        return result

    @staticmethod
    def actor_of_cut_body(
        weights: Mapping[str, Tensor],
        config: MonolithicConfig,
        source: Morphology,
        body: Morphology,
    ) -> dict[str, Tensor]:
        """An actor's weights for a body that `source` has all limbs of: what the other limbs
        observe counts as average, and their motors are left out."""
        if missing := [name for name in body.limb_names if name not in source.limb_names]:
            raise ValueError(f"{source.name} has no {', '.join(missing)}, which {body.name} has")
        inputs, outputs = (
            [known.index(label) for label in wanted]
            for known, wanted in zip(_labels(config, source), _labels(config, body), strict=True)
        )
        last = len(config.hidden) * (3 if config.layer_norm else 2)
        chosen = dict(weights)
        for name in weights:
            dotted = f".{name}"
            if dotted.endswith(".layers.0.weight"):
                chosen[name] = chosen[name][:, inputs].contiguous()
            if dotted.endswith((".statistics.mean", ".statistics.variance")):
                chosen[name] = chosen[name][inputs]
            if f".layers.{last}." in dotted or ".read_std." in dotted:
                chosen[name] = chosen[name][outputs]
        return chosen

    def _check_bodies(self, bodies: tuple[Morphology, ...]) -> None:
        for body in bodies:
            if body is not self.body and body != self.body:
                raise ValueError(
                    f"this monolithic network was made for {self.body.name} and can't take "
                    f"{body.name}; for several bodies or new ones use set, swat, amorpheus or smp"
                )


def _labels(
    config: MonolithicConfig, body: Morphology
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The limb and the number of each input, and the limb and the hinge of each output."""
    if config.columns == "all":
        inputs = [(limb, i) for limb in body.limb_names for i in range(FLAT_FEATURES)]
    else:
        varying = [(limb, i) for limb in body.limb_names for i in range(_VARYING)]
        kept = [label for i, label in enumerate(varying) if i not in _TORSO_CONSTANTS]
        inputs = [*kept, ("target", 0), ("target", 1)]
    return inputs, [(limb, i) for limb in body.limb_names[1:] for i in range(NUM_HINGES)]
