"""Monolithic: TD3's plain network on one body, blind to what a limb is.

All that the limbs of a body observe goes side by side into an MLP that gives all actions,
or one value, at once. It is made for one body and refuses any other.

Symmetry: none. Vectors are read as plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrl.models.batch import LimbBatch
from sgrl.models.mlp import mlp
from sgrl.models.network import FLAT_FEATURES, LimbNetwork, Role
from sgrl.morphology import Morphology


@dataclass(frozen=True)
class MonolithicConfig:
    """Sizes of Monolithic; the defaults are TD3's."""

    hidden: tuple[int, ...] = (256, 256)
    """Units in each hidden layer."""


class Monolithic(LimbNetwork):
    """One MLP for the whole body."""

    def __init__(self, config: MonolithicConfig, role: Role, body: Morphology) -> None:
        super().__init__(role)
        self.body = body
        # The torso has no motors: no inputs or outputs are wasted on it.
        inputs = body.num_limbs * FLAT_FEATURES + role.reads_action * body.num_actions
        outputs = body.num_actions if role.gives_action else 1
        self.layers = mlp(inputs, config.hidden, outputs)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs); a value is of the whole body, the same for all its limbs."""
        self.check_action(action)
        self._check_bodies(batch.layout.bodies)
        rows = batch.flat.view(batch.layout.num_rows, -1)
        if action is not None:
            rows = torch.cat((rows, batch.layout.actions_to_rows(action)), dim=-1)
        result: Tensor = self.layers(rows)
        if self.role.gives_action:
            return batch.layout.actions_to_limbs(result)
        return batch.layout.spread(result)

    def _check_bodies(self, bodies: tuple[Morphology, ...]) -> None:
        for body in bodies:
            if body is not self.body and body != self.body:
                raise ValueError(
                    f"this monolithic network was made for {self.body.name} and can't take "
                    f"{body.name}; for several bodies or new ones use set, swat, amorpheus or smp"
                )
