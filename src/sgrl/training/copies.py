"""The copies of the bodies that make the steps, in this process or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sgrl.algorithms.rollout import Array, Step
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.training.learner import Learner
from sgrl.training.metrics import Clock
from sgrl.training.settings import TrainSettings


class Layout(Protocol):
    """Which copy is of which body, and what of padded rows is real."""

    @property
    def num_envs(self) -> int:
        """Copies of all bodies together."""

    @property
    def body_index(self) -> NDArray[np.intp]:
        """(copies,)."""

    @property
    def limb_mask(self) -> NDArray[np.bool_]:
        """(copies, limbs)."""

    @property
    def action_mask(self) -> NDArray[np.bool_]:
        """(copies, motors)."""


class Copies(Protocol):
    """Makes steps of all copies, in the order in which they are learned from."""

    layout: Layout

    def start(self, seed: int) -> None:
        """Begin the episodes; copy i is seeded with `seed + i`."""

    def step(self, learner: Learner, clock: Clock) -> Step:
        """One step of all copies under the learner's policy."""

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays, and facts as JSON has them, that the coming steps depend on.

        While the learner is at rest.
        """

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Go back to what `get_state` gave."""

    def close(self) -> None:
        """Free what they hold; they can be closed twice."""


class LocalCopies:
    """The copies of one vector environment: the learner acts, physics steps."""

    def __init__(self, settings: TrainSettings) -> None:
        assert settings.copies is not None, "resolve the settings first"
        self.env = LocomotionVectorEnv(
            settings.morphologies(),
            settings.copies,
            variant=settings.variant,
            yaw=settings.yaw,
            threads=settings.threads,
        )
        self.layout: Layout = self.env
        self.observations: Array
        """(copies, width): what is acted on next."""

    def start(self, seed: int | Sequence[int]) -> None:
        """One seed for each copy will do, too."""
        self.observations, _ = self.env.reset(seed=seed)

    def step(self, learner: Learner, clock: Clock) -> Step:
        observations = self.observations
        actions, means = learner.act(observations)
        clock.lap("act")

        following, rewards, terminated, truncated, infos = self.env.step(actions)
        clock.lap("sim")

        done = terminated | truncated
        last = following
        if done.any():
            # The true last observation of an episode, not the first of the next one.
            last = np.where(done[:, None], infos["final_obs"], following)
        self.observations = following
        return Step(observations, actions, rewards, following, last, terminated, done, means)

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self.env.get_state(), {}

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.observations = self.env.set_state(dict(arrays))

    def close(self) -> None:
        self.env.close()
