"""A Gaussian actor and its normalizer, ready to act in the environments of a training."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sgrl.algorithms.env_rows import EnvRows
from sgrl.algorithms.learner import Array, Setup
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.methods import make_gaussian_actor
from sgrl.models.normalizer import Normalizer, reads_raw, update_statistics


class Rows(Protocol):
    """Observations of a batch as limbs."""

    layout: BatchLayout

    def batch(self, obs: Tensor, /) -> LimbBatch:
        """The limbs of observations (rows, width)."""


class EnvActor:
    """The actor of a learner: mean before tanh and log-std for all environments at once."""

    def __init__(self, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        device = torch.device(setup.device)
        how: dict[str, Any] = {"bodies": setup.bodies, "config": setup.network}
        self.actor = make_gaussian_actor(setup.method, setup.preset, **how).to(device)
        self.normalizer = Normalizer().to(device)
        self._normalizes = not reads_raw(self.actor)
        self.envs = EnvRows(setup.bodies, setup.layout, device)

    def parts(self) -> dict[str, nn.Module]:
        """What its weights are of, by the beginning of their names."""
        return {"actor": self.actor, "normalizer": self.normalizer}

    def normalized(self, obs: Tensor) -> Tensor:
        """Observations (rows, width) as the actor reads them."""
        result: Tensor = self.normalizer(obs) if self._normalizes else obs
        return result

    @torch.no_grad()
    def distribution(self, obs: Array) -> tuple[Array, Array]:
        """Mean before tanh and log of the standard deviation, (num_envs, action_dim) each."""
        rows = self.normalized(self.envs.observations(obs))
        mean, log_std = self.actor(self.envs.batch(rows))
        return self.envs.actions(mean), self.envs.actions(log_std)

    @torch.no_grad()
    def count(self, obs: Tensor, rows: Rows) -> None:
        """Count observations (rows, width) in the statistics by which the actor normalizes."""
        if self._normalizes:
            limbs = obs.view(-1, FEATURES)[rows.layout.mask.reshape(-1)]
            self.normalizer.update(limbs)
        update_statistics(self.actor, lambda: self.actor(rows.batch(self.normalized(obs))))
