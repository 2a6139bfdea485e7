"""Monolithic: TD3's plain network on one body, blind to what a limb is.

All that the limbs of a body observe goes side by side into an MLP that gives all actions,
or one value, at once. It is made for one body and refuses any other.

Symmetry: none. Vectors are read as plain numbers.

For SAC it reads only the numbers that vary, each normalized by running statistics, and normalizes
hidden layers. In the target frame (+tn) that keeps the symmetry of rotations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.batch import LimbBatch
from sgrl.models.network import FLAT_FEATURES, LimbNetwork, Role, mlp, std_layer
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

    def _check_bodies(self, bodies: tuple[Morphology, ...]) -> None:
        for body in bodies:
            if body is not self.body and body != self.body:
                raise ValueError(
                    f"this monolithic network was made for {self.body.name} and can't take "
                    f"{body.name}; for several bodies or new ones use set, swat, amorpheus or smp"
                )
