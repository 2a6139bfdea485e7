"""The one way from what is observed to what is done, for evaluation, viewer, replay and grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.observation import mirrored
from sgrl.morphology import Morphology, mirror_of

Array = NDArray[np.float32]


class Policy(Protocol):
    """Whatever turns observations into actions. One of your own inherits from it and has `act`."""

    def act(self, obs: Array, body: Morphology, /) -> Array:
        """Actions (..., action_dim) for flat observations (..., limbs * 41) of one body."""
        ...

    def act_many(self, obs: Sequence[Array], bodies: Sequence[Morphology]) -> list[Array]:
        """Actions (action_dim,) for a flat observation (limbs * 41,) of each of some bodies."""
        return [self.act(row, body) for row, body in zip(obs, bodies, strict=True)]


class RandomPolicy(Policy):
    """Uniform actions: what any other policy has to beat."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def act(self, obs: Array, body: Morphology, /) -> Array:
        """Actions in [-1, 1], whatever is observed."""
        shape = (*np.shape(obs)[:-1], body.action_dim)
        return self._rng.uniform(-1.0, 1.0, shape).astype(np.float32)


class MirroredPolicy(Policy):
    """A policy that acts on a body as it would on the body's mirror image.

    Physics is the same there, so what a policy can do without a right foot, it can do mirrored
    without the left one, though it never learned to.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def act(self, obs: Array, body: Morphology, /) -> Array:
        """The images of the actions for the images of observations (..., limbs * 41)."""
        image = mirror_of(body)
        actions = self._policy.act(mirrored(obs, image), image.body)
        return mirror_of(image.body).actions(actions)
