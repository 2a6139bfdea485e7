"""TD3 in the training loop: random actions at first, a replay buffer, updates as earned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.replay import Replay
from sgrl.algorithms.rollout import Array, Step
from sgrl.algorithms.td3 import REPORTS, Td3
from sgrl.training.copies import Layout
from sgrl.training.metrics import Clock, Losses
from sgrl.training.settings import TrainSettings


class OffPolicyLearner:
    """Learns from all transitions there are, each of which earns updates."""

    reports = REPORTS
    at_rest = True

    def __init__(self, settings: TrainSettings, layout: Layout, replay: Path) -> None:
        assert settings.buffer is not None, "resolve the settings first"
        bodies = settings.morphologies()
        self.settings, self.layout = settings, layout
        self.td3 = Td3(
            settings.method,
            settings.preset,
            bodies,
            settings.td3,
            device=settings.device,
            network=settings.network,
        )
        # No transition that a kept checkpoint, or one being written, knows is overwritten.
        slack = (settings.keep + 1) * (settings.checkpoint_every + layout.num_envs)
        self.replay = Replay(bodies, settings.buffer, folder=replay, slack=slack)
        acting, sampling = np.random.SeedSequence([settings.seed, 2]).spawn(2)
        self.acting, self.sampling = map(np.random.default_rng, (acting, sampling))
        self.generator = torch.Generator(settings.device).manual_seed(settings.seed)
        self.steps = 0
        """Transitions so far."""
        self.owed = 0.0
        """Updates that the transitions so far have earned and that were not made yet."""

    @property
    def updates(self) -> int:
        return self.td3.updates

    @property
    def behind(self) -> bool:
        return self.owed >= 1.0

    def describe(self) -> str:
        replay = self.replay
        needed = Replay.bytes_needed(replay.bodies, replay.capacity, replay.slack)
        return f"replay up to {needed / 1e9:.2f} GB on disk"

    def act(self, observations: Array) -> tuple[Array, Array | None]:
        if self.steps >= self.settings.warm_up:
            return self.td3.act(observations, self.layout.body_index, self.acting), None
        drawn = self.acting.uniform(-1.0, 1.0, self.layout.action_mask.shape)
        return np.where(self.layout.action_mask, drawn, 0.0).astype(np.float32), None

    def store(self, step: Step) -> None:
        self.replay.add(
            self.layout.body_index,
            step.observations,
            step.actions,
            step.rewards,
            step.last,
            step.terminated,
        )
        self.steps += len(step.rewards)
        if self.steps > self.settings.warm_up:
            self.owed += self.settings.updates_per_step * len(step.rewards)

    def learn(self, losses: Losses, clock: Clock, leave: Callable[[], bool]) -> None:
        settings = self.settings
        while self.behind and not leave():
            self.owed -= 1.0
            turn = None
            if settings.batches == "in_turn":
                # A body keeps its turn until the actor has learned from it too.
                turn = self.updates // settings.td3.policy_delay % len(self.replay.bodies)
            batch = self.replay.sample(settings.td3.batch, self.sampling, settings.device, turn)
            clock.lap("other")
            losses.add(self.td3.update(batch, self.generator))
            clock.lap("update")

    def flush(self) -> None:
        self.replay.flush()

    def weights(self) -> dict[str, Tensor]:
        return self.td3.weights()

    def training_state(self) -> dict[str, Any]:
        return self.td3.training_state()

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = self.replay.get_state() | {"generator": self.generator.get_state().numpy()}
        return arrays, {
            "steps": self.steps,
            "owed": self.owed,
            "acting": self.acting.bit_generator.state,
            "sampling": self.sampling.bit_generator.state,
        }

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.replay.set_state({n: array for n, array in arrays.items() if n != "generator"})
        self.generator.set_state(torch.from_numpy(arrays["generator"]))
        self.steps, self.owed = facts["steps"], facts["owed"]
        self.acting.bit_generator.state = facts["acting"]
        self.sampling.bit_generator.state = facts["sampling"]

    def load(self, weights: Mapping[str, Tensor], training_state: Mapping[str, Any] | None) -> None:
        self.td3.load(weights, training_state)
