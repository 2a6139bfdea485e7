"""Policies of other runs that a learner learns from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sgrl.algorithms.learner import Array, SourcePolicy
from sgrl.algorithms.weights import STD_HEAD, current_names, load_weights
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_actor, make_gaussian_actor
from sgrl.models.network import GaussianActor
from sgrl.models.normalizer import Normalizer
from sgrl.morphology import Morphology


class Teacher:
    """A policy that says what it would do, before tanh."""

    def __init__(self, source: SourcePolicy, limit: float, device: torch.device) -> None:
        """Means are cut at `limit`. ValueError if the weights don't fit the method."""
        self.bodies = {body.name for body in source.bodies}
        self._limit, self._device = limit, device
        weights = current_names(source.weights)
        self.has_std = any(STD_HEAD in name.split(".") for name in weights)
        """Whether its standard deviation depends on the state."""
        make = make_gaussian_actor if self.has_std else make_actor
        self._actor = make(
            source.method, source.preset, bodies=source.bodies, config=source.network
        )
        self._normalizer = Normalizer()
        parts: dict[str, nn.Module] = {"actor": self._actor}
        if any(name.startswith("normalizer.") for name in weights):
            parts["normalizer"] = self._normalizer
        prefixes = tuple(f"{part}." for part in parts)
        policy = {name: value for name, value in weights.items() if name.startswith(prefixes)}
        try:
            load_weights(parts, policy)
        except ValueError as error:
            raise ValueError(f"{source.name} can't teach: {error}") from None
        self._actor.to(device).eval().requires_grad_(False)
        self._normalizer.to(device)

    @torch.no_grad()
    def label(self, obs: Array, body: Morphology) -> tuple[Array, Array]:
        """Means before tanh and log-stds (rows, action_dim) for observations (rows, width).

        The log-stds are 0 if it has none.
        """
        rows = torch.from_numpy(obs[:, : body.num_limbs * FEATURES]).to(self._device)
        batch = LimbBatch.from_flat(self._normalizer(rows), body)
        if isinstance(self._actor, GaussianActor):
            mean, log_std = self._actor(batch)
        else:
            mean = self._actor.unbounded(batch)
            log_std = torch.zeros_like(mean)
        mean = mean.clamp(-self._limit, self._limit)
        return _by_row(mean, batch), _by_row(log_std, batch)


def _by_row(limbs: Tensor, batch: LimbBatch) -> Array:
    result: Array = batch.layout.actions_to_rows(limbs).cpu().numpy().astype(np.float32)
    return result


def assign_teachers(
    sources: Sequence[SourcePolicy],
    bodies: Sequence[Morphology],
    limit: float,
    device: torch.device,
) -> list[Teacher]:
    """A teacher for each body: the first source that was trained on it.

    ValueError if a body has none.
    """
    teachers = [Teacher(source, limit, device) for source in sources]
    chosen = []
    for body in bodies:
        able = [teacher for teacher in teachers if body.name in teacher.bodies]
        if not able:
            raise ValueError(
                f"no teacher was trained on {body.name}; name a run that was, or leave the body out"
            )
        chosen.append(able[0])
    return chosen
