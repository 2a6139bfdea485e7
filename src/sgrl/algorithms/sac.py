"""SAC (Haarnoja et al. 2018) for every method, on one body or a mix.

The actor is the method's network with a standard deviation that depends on the state; motors
without a gear rest and have no entropy. Twin critics learn n-step returns, scaled body by body;
every body has an entropy coefficient of its own. All bodies have as many rows in every batch, and
half of them are mirrored, so that batches are always of one shape and an update can be compiled.

Here is how SAC acts, what it stores and when it updates; an update itself is in `sac_networks`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.learner import Array, Clock, Learner, Report, Setup, Step
from sgrl.algorithms.replay_buffer import ReplayBuffer
from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.sac_networks import SACNetworks
from sgrl.algorithms.speed import Speed, global_precision
from sgrl.algorithms.weights import weights_of
from sgrl.morphology import Morphology

FIRST_COUNTED = 64
"""Batches that the statistics of observations begin with."""
SCALES = "reward_scale."
"""What the names of the reward scales begin with among the weights."""
LARGEST_RETURN = 5.0
"""Size that no scaled return is to exceed."""
SMALLEST_SCALE = 1e-3
RETURNS_REMEMBERED = 200_000.0
"""Returns that their running statistics remember, at most."""
_PRIOR = (1e-4, 0.0, 1.0, 0.0)
"""Count, mean, variance and largest size before there are any."""
ZETA = 2.0
"""Exponent of the distribution of how long noise is held."""


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
        actuated = self.networks.actor.envs.actuated
        if self.acts_randomly and self.steps < self.config.learning_starts:
            actions = self.acting.uniform(-1.0, 1.0, actuated.shape).astype(np.float32)
            return actions * actuated, {}
        mean, log_std = self.networks.actor.act(obs)
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
            if self.pending and not self.networks.get_ready(should_stop):
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


class RewardScale:
    """Rewards are divided by the standard deviation of the discounted return so far, or by its
    largest size over 5 if that is more."""

    def __init__(
        self, bodies: Sequence[Morphology], gammas: Sequence[float], body_index: NDArray[np.intp]
    ) -> None:
        self._names = [f"{body.family}/{body.name}" for body in bodies]
        self._rows = [np.flatnonzero(body_index == i) for i in range(len(bodies))]
        self._gammas = np.asarray(gammas)[body_index]
        self._returns = np.zeros(len(body_index))
        self._statistics = np.tile(np.array(_PRIOR), (len(bodies), 1))

    @property
    def scales(self) -> NDArray[np.float64]:
        """(bodies,): what rewards are divided by."""
        _, _, variance, largest = self._statistics.T
        scales: NDArray[np.float64] = np.maximum(np.sqrt(variance), largest / LARGEST_RETURN)
        return scales.clip(SMALLEST_SCALE)

    def update(self, rewards: NDArray[np.float64], done: NDArray[np.bool_]) -> None:
        """Count in a step of all environments, (num_envs,) each."""
        # G <- gamma G + r
        self._returns = self._returns * self._gammas + rewards
        for own, rows in zip(self._statistics, self._rows, strict=True):
            returns = self._returns[rows]
            count, mean, variance, largest = own
            n = len(returns)
            total, away = count + n, returns.mean() - mean
            within = variance * count + returns.var() * n
            own[2] = (within + away * away * count * n / total) / total
            own[1] = mean + away * n / total
            own[0] = min(total, RETURNS_REMEMBERED)
            own[3] = max(largest, np.abs(returns).max())
        self._returns[done] = 0.0

    def weights(self) -> dict[str, Tensor]:
        """(4,) for each body, by family and name: count, mean, variance, largest size."""
        return dict(zip(self._names, torch.from_numpy(self._statistics.copy()), strict=True))

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights` gave; a body that is not in it begins anew."""
        for own, name in zip(self._statistics, self._names, strict=True):
            own[:] = weights[name].numpy() if name in weights else _PRIOR

    def state_dict(self) -> dict[str, Any]:
        """The returns of the episodes that go on."""
        return {"returns": self._returns.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict`."""
        self._returns = np.array(state["returns"])


class HeldNoise:
    """Standard normal noise of each environment, drawn anew after k steps, k from Zeta(2)."""

    def __init__(self, shape: tuple[int, int], longest: int) -> None:
        """`shape` is (num_envs, action_dim); `longest` bounds k."""
        self._noise = np.zeros(shape, np.float32)
        self._left = np.zeros(shape[0], np.int64)
        self._longest = longest

    def draw(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """(num_envs, action_dim) for the next step."""
        ended = np.flatnonzero(self._left == 0)
        if len(ended):
            self._left[ended] = np.minimum(rng.zipf(ZETA, len(ended)), self._longest)
            shape = (len(ended), self._noise.shape[1])
            self._noise[ended] = rng.standard_normal(shape, np.float32)
        self._left -= 1
        return self._noise

    def release(self, done: NDArray[np.bool_]) -> None:
        """Hold nothing over the end of an episode."""
        self._left[done] = 0

    def state_dict(self) -> dict[str, Any]:
        """What is held, and for how long."""
        return {"noise": self._noise.copy(), "left": self._left.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict`."""
        self._noise[:], self._left[:] = state["noise"], state["left"]


def _split(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights of networks, and those of reward scales under the names that they have there."""
    scales = {n.removeprefix(SCALES): own for n, own in weights.items() if n.startswith(SCALES)}
    return {n: own for n, own in weights.items() if not n.startswith(SCALES)}, scales
