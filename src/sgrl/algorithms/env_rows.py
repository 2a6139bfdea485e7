"""The rows of environments, as an actor reads and moves them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sgrl.algorithms.learner import Array, EnvLayout
from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.network import NUM_HINGES
from sgrl.morphology import Morphology


class EnvRows:
    """One row for each environment: from observations to limbs, from limbs to actions."""

    def __init__(
        self, bodies: Sequence[Morphology], env: EnvLayout, device: torch.device | str
    ) -> None:
        self.device = torch.device(device)
        self.layout = layout_of(bodies, env.body_index, device)
        hinges = np.zeros(env.action_mask.shape, np.intp)
        self.actuated = np.zeros(env.action_mask.shape, np.float32)
        """(num_envs, action_dim): 1 where a motor moves something, 0 elsewhere."""
        for row, index in enumerate(env.body_index):
            body = bodies[index]
            hinges[row, : body.action_dim] = np.flatnonzero(body.hinge_mask)
            self.actuated[row, : body.action_dim] = body.actuated
        self._hinges = torch.from_numpy(hinges).to(device)

    def observations(self, obs: Array) -> Tensor:
        """Observations (num_envs, width) on the device."""
        return torch.from_numpy(obs).to(self.device)

    def batch(self, obs: Tensor) -> LimbBatch:
        """The limbs of observations (num_envs, width)."""
        return LimbBatch.from_rows(obs, self.layout)

    def actions(self, limbs: Tensor) -> Array:
        """Numbers of hinges (limbs, 3) as those of actions, (num_envs, action_dim)."""
        rows = self.layout.pad(limbs).reshape(-1, NUM_HINGES * self.layout.max_limbs)
        actions: Array = rows.gather(1, self._hinges).cpu().numpy()
        return actions
