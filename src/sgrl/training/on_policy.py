"""PPO in the training loop: a rollout of all copies, then an update from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.ppo import REPORTS, Ppo
from sgrl.algorithms.rollout import Array, Rollout, Step
from sgrl.envs.observation import FEATURES
from sgrl.training.copies import Layout
from sgrl.training.metrics import Clock, Losses
from sgrl.training.settings import TrainSettings


class OnPolicyLearner:
    """Learns from what the latest policy lived through, and forgets it."""

    reports = REPORTS
    behind = False

    def __init__(self, settings: TrainSettings, layout: Layout) -> None:
        self.layout = layout
        self.ppo = Ppo(
            settings.method,
            settings.preset,
            settings.morphologies(),
            settings.ppo,
            device=settings.device,
            network=settings.network,
        )
        copies, motors = layout.action_mask.shape
        width = layout.limb_mask.shape[1] * FEATURES
        self.rollout = Rollout(settings.ppo.rollout, copies, width, motors)
        acting, order = np.random.SeedSequence([settings.seed, 2]).spawn(2)
        self.acting, self.order = map(np.random.default_rng, (acting, order))

    @property
    def updates(self) -> int:
        return self.ppo.updates

    @property
    def at_rest(self) -> bool:
        """Between two rollouts: then there is nothing to remember."""
        return self.rollout.size == 0

    def describe(self) -> str:
        steps, copies = self.rollout.rewards.shape
        return f"an update every {steps * copies:,} steps"

    def act(self, observations: Array) -> tuple[Array, Array | None]:
        return self.ppo.act(observations, self.layout.body_index, self.acting)

    def store(self, step: Step) -> None:
        self.rollout.add(step)

    def learn(self, losses: Losses, clock: Clock, leave: Callable[[], bool]) -> None:
        if not self.rollout.full:
            return
        for batch in self.ppo.batches(self.rollout, self.layout.body_index, self.order):
            losses.add(self.ppo.update(batch))
        self.ppo.observe(self.rollout, self.layout.limb_mask)
        self.rollout.clear()
        clock.lap("update")

    def flush(self) -> None:
        """Nothing of it is on the disk."""

    def weights(self) -> dict[str, Tensor]:
        return self.ppo.weights()

    def training_state(self) -> dict[str, Any]:
        return self.ppo.training_state()

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        assert self.at_rest, "only between two rollouts"
        return {}, {
            "acting": self.acting.bit_generator.state,
            "order": self.order.bit_generator.state,
        }

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.acting.bit_generator.state = facts["acting"]
        self.order.bit_generator.state = facts["order"]

    def load(self, weights: Mapping[str, Tensor], training_state: Mapping[str, Any] | None) -> None:
        self.ppo.load(weights, training_state)
