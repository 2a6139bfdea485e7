"""TD3 (Fujimoto et al. 2018) for every method, on batches that may mix bodies.

Twin critics against overestimation, noise on the target's actions, actor and targets
updated less often than the critics. A critic gives a value for each limb, which by default learns
from its own; without `per_limb` their mean, the value of the state, learns from the next state's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.algorithms.descent import descend, finite, make_optimiser
from sgrl.algorithms.replay import Transitions
from sgrl.algorithms.weights import load_weights, weights_of
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import Config, make_actor, make_twin_critic
from sgrl.morphology import Morphology

REPORTS: tuple[str, ...] = ("critic_loss", "actor_loss", "q", "critic_grad", "actor_grad")
"""What an update reports; not every one reports everything."""


@dataclass(frozen=True)
class Td3Config:
    """Settings of TD3; the defaults are the paper's."""

    discount: float = 0.99
    """What a reward one step later is worth."""
    polyak: float = 0.005
    """Part of the way that targets go towards the networks at each of their updates."""
    exploration_noise: float = 0.126
    """Standard deviation of the normal noise on actions that are tried."""
    target_noise: float = 0.2
    """Standard deviation of the normal noise on the target's actions."""
    target_noise_clip: float = 0.5
    """Largest size of the noise on the target's actions."""
    policy_delay: int = 2
    """Updates of the critics for one of the actor and the targets."""
    learning_rate: float = 1e-4
    """Adam's, of actor and critics."""
    gradient_clip: float = 0.1
    """Largest norm of a gradient, of the actor and of both critics together."""
    batch: int = 100
    """Transitions in an update."""
    per_limb: bool = True
    """Each limb's Q learns from its own Q of the next state, instead of their means."""

    def __post_init__(self) -> None:
        for name in ("discount", "polyak"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, not {getattr(self, name)}")
        for name in ("exploration_noise", "target_noise", "target_noise_clip"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        for name in ("policy_delay", "learning_rate", "gradient_clip", "batch"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")


class Td3:
    """An actor, twin critics, their targets and optimisers."""

    def __init__(
        self,
        method: str,
        preset: str,
        bodies: Sequence[Morphology],
        config: Td3Config,
        *,
        device: torch.device | str = "cpu",
        network: Config | None = None,
    ) -> None:
        """`network` takes the place of the preset. Weights come from torch's global generator."""
        self.config = config
        self.bodies = tuple(bodies)
        self.device = torch.device(device)
        self.actor = make_actor(method, preset, bodies=bodies, config=network).to(self.device)
        self.critic = make_twin_critic(method, preset, bodies=bodies, config=network)
        self.critic = self.critic.to(self.device)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_optimiser = make_optimiser(self.actor, config.learning_rate)
        self.critic_optimiser = make_optimiser(self.critic, config.learning_rate)
        self.updates = 0
        """Gradient steps of the critics so far."""
        # Listed once: to walk through the modules takes longer than to move the weights of an MLP.
        self._critic_weights = tuple(self.critic.parameters())
        self._followed = (*self.actor.parameters(), *self._critic_weights)
        targets = (self.target_actor, self.target_critic)
        self._followers = tuple(p for target in targets for p in target.parameters())

    def _batch(self, observations: Tensor, row_body: NDArray[np.int64]) -> LimbBatch:
        # One body is looked at by itself: all such batches share their layout.
        if len(row_body) and (row_body == row_body[0]).all():
            body = self.bodies[row_body[0]]
            return LimbBatch.from_flat(observations[:, : body.num_limbs * FEATURES], body)
        return LimbBatch.from_padded(observations, self.bodies, row_body)

    def act(
        self,
        observations: NDArray[np.float32],
        row_body: NDArray[np.int64],
        noise: np.random.Generator | None = None,
    ) -> NDArray[np.float32]:
        """Actions (n, motors) for observations (n, width), 0 in the padding.

        `noise` draws exploration noise; without it actions are the actor's own.
        """
        with torch.no_grad():
            batch = self._batch(torch.from_numpy(observations).to(self.device), row_body)
            found = batch.layout.actions_to_rows(self.actor(batch)).cpu().numpy()
        motors = 3 * (observations.shape[1] // FEATURES - 1)
        actions = np.zeros((len(found), motors), np.float32)
        actions[:, : found.shape[1]] = found
        if noise is None:
            return actions
        drawn = noise.standard_normal(actions.shape, np.float32)
        actions += np.float32(self.config.exploration_noise) * drawn
        counts = np.array([body.action_dim for body in self.bodies])[row_body]
        actions[np.arange(motors) >= counts[:, None]] = 0.0
        return actions.clip(-1.0, 1.0, out=actions)

    def update(self, batch: Transitions, generator: torch.Generator) -> dict[str, float]:
        """One gradient step of the critics and, when it is their turn, of actor and targets.

        Gives `critic_loss`, `q`, `critic_grad` and, when updated, `actor_loss` and
        `actor_grad`; gradient norms are those before clipping. A loss or gradient that is
        not finite raises FloatingPointError before it changes any weight.
        """
        clip = self.config.gradient_clip
        now = self._batch(batch.observations, batch.row_body)
        actions = now.layout.actions_to_limbs(batch.actions)
        goal = self._targets(batch, generator)
        first, second = (self._values(now, q) for q in self.critic(now, actions))
        loss = self._row_errors(now, first - goal) + self._row_errors(now, second - goal)
        report = {"critic_loss": finite(loss, "critic's loss"), "q": first.mean().item()}
        report["critic_grad"] = descend(loss, self.critic_optimiser, clip, "critic's gradient")
        self.updates += 1
        if self.updates % self.config.policy_delay == 0:
            with _frozen(self._critic_weights):
                loss = -now.layout.row_mean(self.critic.first(now, self.actor(now))).mean()
                report["actor_loss"] = finite(loss, "actor's loss")
                report["actor_grad"] = descend(loss, self.actor_optimiser, clip, "actor's gradient")
            with torch.no_grad():
                torch._foreach_lerp_(self._followers, self._followed, self.config.polyak)
        return report

    def _values(self, batch: LimbBatch, q: Tensor) -> Tensor:
        """What is learned and bootstrapped: Q (limbs,) as it is, or its mean (rows,)."""
        return q if self.config.per_limb else batch.layout.row_mean(q)

    def _row_errors(self, batch: LimbBatch, error: Tensor) -> Tensor:
        """Mean square over rows; each row counts the same, however many limbs it has."""
        square = error.square()
        return (batch.layout.row_mean(square) if self.config.per_limb else square).mean()

    @torch.no_grad()
    def _targets(self, batch: Transitions, generator: torch.Generator) -> Tensor:
        """What Q should be: (rows,), or (limbs,) with `per_limb`."""
        config = self.config
        following = self._batch(batch.next_observations, batch.row_body)
        layout = following.layout
        actions = self.target_actor(following)
        noise = torch.randn(actions.shape, generator=generator, device=generator.device)
        noise = (noise * config.target_noise).clamp_(
            -config.target_noise_clip, config.target_noise_clip
        )
        actions = (actions + noise.to(actions)).clamp_(-1.0, 1.0)
        actions = actions.masked_fill_(layout.is_torso.unsqueeze(-1), 0.0)
        first, second = (self._values(following, q) for q in self.target_critic(following, actions))
        rewards, worth = batch.rewards, config.discount * (1.0 - batch.terminated)
        if config.per_limb:
            rewards, worth = layout.spread(rewards), layout.spread(worth)
        return torch.addcmul(rewards, worth, torch.minimum(first, second))

    def weights(self) -> dict[str, Tensor]:
        """Copies of the networks' weights on the CPU, named `actor.…` and `critic.…`."""
        return weights_of({"actor": self.actor, "critic": self.critic})

    def training_state(self) -> dict[str, Any]:
        """Copies of all else that coming updates depend on: targets, optimisers, counters."""
        return {
            name: copy.deepcopy(part.state_dict()) for name, part in self._training_parts().items()
        } | {"updates": self.updates}

    def _training_parts(self) -> dict[str, nn.Module | torch.optim.Optimizer]:
        return {
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
            "actor_optimiser": self.actor_optimiser,
            "critic_optimiser": self.critic_optimiser,
        }

    def load(
        self, weights: Mapping[str, Tensor], training_state: Mapping[str, Any] | None = None
    ) -> None:
        """Take over weights, and go on from a training state or, without one, start from them.

        ValueError, and nothing changed, if they are of another method or size.
        """
        load_weights({"actor": self.actor, "critic": self.critic}, weights)
        if training_state is None:
            self.target_actor.load_state_dict(self.actor.state_dict())
            self.target_critic.load_state_dict(self.critic.state_dict())
            self.actor_optimiser = make_optimiser(self.actor, self.config.learning_rate)
            self.critic_optimiser = make_optimiser(self.critic, self.config.learning_rate)
            self.updates = 0
            return
        for name, holder in self._training_parts().items():
            holder.load_state_dict(training_state[name])
        self.updates = training_state["updates"]


@contextmanager
def _frozen(weights: Sequence[nn.Parameter]) -> Iterator[None]:
    """Without gradients of these, which would be computed in vain."""
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
