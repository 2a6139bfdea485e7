"""A Gaussian actor and its normalizer, ready to act in the environments of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from sgrl.algorithms.learner import Array, EnvLayout, Setup
from sgrl.algorithms.speed import Products, autocast
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import BatchLayout, LimbBatch, layout_of
from sgrl.models.methods import make_gaussian_actor
from sgrl.models.network import NUM_HINGES
from sgrl.models.normalizer import Normalizer, reads_raw, update_statistics
from sgrl.morphology import Morphology


class Rows(Protocol):
    """Observations of a batch as limbs."""

    layout: BatchLayout

    def batch(self, obs: Tensor, /) -> LimbBatch:
        """The limbs of observations (rows, width)."""


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


class EnvActor:
    """The actor of a learner, for all environments at once and for batches."""

    def __init__(self, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        device = torch.device(setup.device)
        how: dict[str, Any] = {"bodies": setup.bodies, "config": setup.network}
        self.network = make_gaussian_actor(setup.method, setup.preset, **how).to(device)
        self.normalizer = Normalizer().to(device)
        self._normalizes = not reads_raw(self.network)
        self.envs = EnvRows(setup.bodies, setup.layout, device)

    def parts(self) -> dict[str, nn.Module]:
        """What its weights are of, by the beginning of their names."""
        return {"actor": self.network, "normalizer": self.normalizer}

    def normalized(self, obs: Tensor) -> Tensor:
        """Observations (rows, width) as the method's networks read them."""
        result: Tensor = self.normalizer(obs) if self._normalizes else obs
        return result

    def distribution(
        self, obs: Tensor, rows: Rows, products: Products = "float32"
    ) -> tuple[Tensor, Tensor]:
        """Mean before tanh and log-std, (limbs, 3) each, for observations (rows, width)."""
        batch = rows.batch(self.normalized(obs))
        with autocast(products):
            mean, log_std = self.network(batch)
        return mean, log_std

    @torch.no_grad()
    def act(self, obs: Array) -> tuple[Array, Array]:
        """Mean before tanh and log-std, (num_envs, action_dim) each."""
        mean, log_std = self.distribution(self.envs.observations(obs), self.envs)
        return self.envs.actions(mean), self.envs.actions(log_std)

    @torch.no_grad()
    def count(self, obs: Tensor, rows: Rows, products: Products = "float32") -> None:
        """Count observations (rows, width) in the statistics by which it normalizes."""
        if self._normalizes:
            limbs = obs.view(-1, FEATURES)[rows.layout.mask.reshape(-1)]
            self.normalizer.update(limbs)
        update_statistics(self.network, lambda: self.distribution(obs, rows, products))
