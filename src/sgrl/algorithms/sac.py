"""SAC (Haarnoja et al. 2018) for every method, on one body or a mix.

The actor is the method's network with a standard deviation that depends on the state; motors
without a gear rest and have no entropy. Twin critics learn n-step returns, scaled body by body;
every body has an entropy coefficient of its own. All bodies have as many rows in every batch, and
half of them are mirrored, so that batches are always of one shape and an update can be compiled.

Here is how SAC acts, what it stores and when it updates; an update itself is in `sac_networks`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sgrl.algorithms.env_rows import EnvRows
from sgrl.algorithms.held_noise import HeldNoise
from sgrl.algorithms.learner import Array, Clock, Learner, Report, Setup, Step
from sgrl.algorithms.replay_buffer import ReplayBuffer
from sgrl.algorithms.reward_scale import RewardScale
from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.sac_networks import SACNetworks
from sgrl.algorithms.speed import Speed, global_precision
from sgrl.algorithms.weights import weights_of

FIRST_COUNTED = 64
"""Batches that the statistics of observations begin with."""
SCALES = "reward_scale."
"""What the names of the reward scales begin with among the weights."""


class SAC(Learner):
    """Networks, a replay buffer, the scale of rewards and the noise that it explores with."""

    name: ClassVar[str] = "sac"
    Config: ClassVar[type] = SACConfig
    metrics = SACNetworks.metrics

    def __init__(self, config: SACConfig, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        assert config.buffer_size is not None, "resolve the config first"
        assert isinstance(config.n_step, tuple), "resolve the config first"
        self.config, self.bodies, self.layout = config, setup.bodies, setup.layout
        self.device = torch.device(setup.device)
        self.envs = EnvRows(self.bodies, self.layout, self.device)
        updates = (setup.steps - config.learning_starts) * config.utd_ratio
        speed = Speed.choose(
            config.compile, config.products, updates, self.device, minutes=setup.minutes
        )
        self.networks = SACNetworks(config, setup, speed)
        gammas = config.gammas(self.bodies)
        self.scale = RewardScale(self.bodies, gammas, self.layout.body_index)
        self.replay = ReplayBuffer(
            self.bodies,
            config.buffer_size,
            config.n_step,
            gammas,
            folder=setup.folder,
            slack=setup.slack,
        )
        self.noise = HeldNoise(self.layout.action_mask.shape, config.longest_hold)
        acting, sampling = np.random.SeedSequence([setup.seed, 2]).spawn(2)
        self.acting, self.sampling = map(np.random.default_rng, (acting, sampling))
        self.steps = 0
        """Transitions so far."""
        self.due = 0.0
        """Updates that the transitions so far have earned and that were not made yet."""
        self.acts_randomly = True
        """Until `learning_starts`; not with weights of another run."""

    @property
    def updates(self) -> int:  # type: ignore[override]
        return self.networks.updates

    def describe(self) -> str:
        size = self.replay.num_bytes / 1e9
        return f"{self.networks.speed.describe()}, replay of up to {size:.2f} GB"

    # Acting.

    def act(self, obs: Array) -> tuple[Array, Mapping[str, Array]]:
        actuated = self.envs.actuated
        if self.acts_randomly and self.steps < self.config.learning_starts:
            actions = self.acting.uniform(-1.0, 1.0, actuated.shape).astype(np.float32)
            return actions * actuated, {}
        with torch.no_grad():
            rows = self.networks.normalized(self.envs.observations(obs))
            limbs = self.networks.actor(self.envs.batch(rows))
        mean, log_std = map(self.envs.actions, limbs)
        # a = tanh(mean + std noise)
        noise = self.noise.draw(self.acting)
        return np.tanh(mean + np.exp(log_std) * noise) * actuated, {}

    def store(self, step: Step) -> None:
        self.replay.add(
            self.layout.body_index,
            step.obs,
            step.actions,
            step.rewards,
            step.final_obs,
            step.terminated,
            step.done,
        )
        self.scale.update(step.rewards, step.done)
        self.noise.release(step.done)
        self.steps += len(step.rewards)
        if self.steps > self.config.learning_starts and len(self.replay):
            self.due += self.config.utd_ratio * len(step.rewards)

    # Updates.

    @property
    def pending(self) -> bool:
        return self.due >= 1.0

    def update(self, report: Report, clock: Clock, should_stop: Callable[[], bool]) -> None:
        with global_precision(self.networks.speed.products):
            if self.pending and not self.networks.is_ready and not self._compile(should_stop):
                return
            if self.pending and not self.updates:
                self._start_statistics()
            while self.pending and not should_stop():
                self.due -= 1.0
                batch = self.sample()
                clock.lap("sample")
                if values := self.networks.gradient_step(*batch):
                    report(values)
                clock.lap("update")

    def _compile(self, should_stop: Callable[[], bool]) -> bool:
        """Whether updates can be made now; where compiling fails they are plain from now on."""
        try:
            self.networks.compile()
        except RuntimeError as error:
            if should_stop():  # Ctrl-C stops the compiler, too
                return False
            what = str(error).strip().splitlines()[0]
            warnings.warn(
                f"updates can't be compiled here, which makes them about half as fast: {what}",
                stacklevel=2,
            )
            why = "compiling failed"
            self.networks.set_speed(Speed(False, self.networks.speed.products, why))
        return True

    def sample(self) -> tuple[Tensor, ...]:
        """Columns, actions, scaled rewards, discounts and last columns of a batch."""
        sample = self.replay.sample(self.networks.rows_per_body, self.sampling)
        scales = self.scale.scales[self.networks.rows.unit_index.cpu()].astype(np.float32)
        parts = (
            sample.columns,
            sample.actions,
            sample.rewards / scales,
            sample.discounts,
            sample.last_columns,
        )
        return tuple(torch.from_numpy(part).to(self.device) for part in parts)

    def _start_statistics(self) -> None:
        """Count in what was observed before the first update."""
        for _ in range(FIRST_COUNTED):
            self.networks.count(self.sample()[0])

    # Saving.

    def flush(self) -> None:
        self.replay.flush()

    def weights(self) -> dict[str, Tensor]:
        scales = {f"{SCALES}{name}": scale for name, scale in self.scale.weights().items()}
        return weights_of(self.networks.parts()) | scales

    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        parts, scales = _split(weights)
        anew = self.networks.start_from(parts)
        self.scale.load_weights(scales)
        self.acts_randomly = False
        return ", ".join(anew)

    def state_dict(self) -> dict[str, Any]:
        return {
            "networks": self.networks.state_dict(),
            "replay": self.replay.state_dict(),
            "scale": self.scale.state_dict(),
            "noise": self.noise.state_dict(),
            "acting": copy.deepcopy(self.acting.bit_generator.state),
            "sampling": copy.deepcopy(self.sampling.bit_generator.state),
            "steps": self.steps,
            "due": self.due,
            "acts_randomly": self.acts_randomly,
        }

    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        parts, scales = _split(weights)
        self.networks.load_state_dict(parts, state["networks"])
        self.scale.load_weights(scales)
        for name in ("replay", "scale", "noise"):
            getattr(self, name).load_state_dict(state[name])
        self.acting.bit_generator.state = state["acting"]
        self.sampling.bit_generator.state = state["sampling"]
        self.steps, self.due = state["steps"], state["due"]
        self.acts_randomly = state["acts_randomly"]


def _split(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights of networks, and those of reward scales under the names that they have there."""
    scales = {n.removeprefix(SCALES): own for n, own in weights.items() if n.startswith(SCALES)}
    return {n: own for n, own in weights.items() if not n.startswith(SCALES)}, scales
