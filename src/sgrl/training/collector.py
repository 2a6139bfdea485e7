"""Who makes the steps of all environments: in this process, or workers elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sgrl.algorithms.learner import Array, Clock, EnvLayout, Learner, Step
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.training.settings import TrainSettings


class Collector(Protocol):
    """Makes steps of all environments, in the order in which they are learned from."""

    layout: EnvLayout

    def start(self, seed: int) -> None:
        """Begin the episodes; environment i is seeded with `seed + i`."""

    def step(self, learner: Learner, clock: Clock) -> Step:
        """One step of all environments under the learner's policy."""

    def state_dict(self) -> dict[str, Any]:
        """All that the coming steps depend on, copied, while the learner can be saved too."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state_dict` gave."""

    def close(self) -> None:
        """Free what it holds; it can be closed twice."""


class LocalCollector:
    """Steps one vector environment in this process: the learner acts, physics steps."""

    def __init__(self, settings: TrainSettings) -> None:
        assert settings.envs_per_body is not None, "resolve the settings first"
        self.env = LocomotionVectorEnv(
            settings.morphologies(),
            settings.envs_per_body,
            variant=settings.variant,
            yaw=settings.yaw,
            threads=settings.threads,
        )
        self.layout: EnvLayout = self.env
        self.obs: Array
        """(num_envs, width): what is acted on next."""

    def start(self, seed: int | Sequence[int]) -> None:
        """See `Collector.start`; one seed for each environment will do, too."""
        self.obs, _ = self.env.reset(seed=seed)

    def step(self, learner: Learner, clock: Clock) -> Step:
        """See `Collector.step`."""
        obs = self.obs
        actions, extras = learner.act(obs)
        clock.lap("act")

        next_obs, rewards, terminated, truncated, infos = self.env.step(actions)
        clock.lap("sim")

        done = terminated | truncated
        final_obs = next_obs
        if done.any():
            # The true last observation of an episode, not the first of the next one.
            final_obs = np.where(done[:, None], infos["final_obs"], next_obs)
        self.obs = next_obs
        return Step(obs, actions, rewards, next_obs, final_obs, terminated, done, extras)

    def state_dict(self) -> dict[str, Any]:
        """See `Collector.state_dict`."""
        return self.env.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Collector.load_state_dict`."""
        self.obs = self.env.load_state_dict(dict(state))

    def close(self) -> None:
        """See `Collector.close`."""
        self.env.close()
