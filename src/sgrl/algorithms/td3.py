"""TD3 (Fujimoto et al. 2018) for every method, on batches that may mix bodies.

Twin critics against overestimation, noise on the target's actions, actor and targets
updated less often than the critics. A critic gives a value for each limb, which by default learns
from its own; without `per_limb` their mean, the value of the state, learns from the next state's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.algorithms.learner import Array, Clock, Learner, Report, Setup, Step
from sgrl.algorithms.optimizer import (
    check_finite,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
    optimizer_step,
)
from sgrl.algorithms.replay import Replay, Transitions
from sgrl.algorithms.td3_config import TD3Config
from sgrl.algorithms.weights import current_names, load_portable, load_weights, weights_of
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_actor, make_twin_critic
from sgrl.models.normalizer import Normalizer


class TD3(Learner):
    """An actor, twin critics, their targets and optimizers, and a replay buffer."""

    name: ClassVar[str] = "td3"
    Config: ClassVar[type] = TD3Config
    metrics = ("critic_loss", "actor_loss", "q_mean", "critic_grad_norm", "actor_grad_norm")

    def __init__(self, config: TD3Config, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        assert config.buffer_size is not None, "resolve the config first"
        self.config, self.layout = config, setup.layout
        self.bodies = setup.bodies
        self.device = torch.device(setup.device)
        how: dict[str, Any] = {"bodies": setup.bodies, "config": setup.network}
        self.actor = make_actor(setup.method, setup.preset, **how).to(self.device)
        self.critic = make_twin_critic(setup.method, setup.preset, **how).to(self.device)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.normalizer: Normalizer | None = None
        """Statistics of a policy that another algorithm began, which stay as they are."""
        self._start_optimizers()
        self.replay = Replay(
            setup.bodies, config.buffer_size, folder=setup.folder, slack=setup.slack
        )
        acting, sampling = np.random.SeedSequence([setup.seed, 2]).spawn(2)
        self.acting, self.sampling = map(np.random.default_rng, (acting, sampling))
        self.generator = torch.Generator(setup.device).manual_seed(setup.seed)
        self.steps = 0
        """Transitions so far."""
        self.updates = 0
        """Gradient steps of the critics so far."""
        self.due = 0.0
        """Updates that the transitions so far have earned and that were not made yet."""
        # Listed once: to walk through the modules takes longer than to move the weights of an MLP.
        self._critic_weights = tuple(self.critic.parameters())
        self._followed = (*self.actor.parameters(), *self._critic_weights)
        targets = (self.target_actor, self.target_critic)
        self._followers = tuple(p for target in targets for p in target.parameters())

    def _start_optimizers(self) -> None:
        self.actor_optimizer = make_optimizer(self.actor, self.config.learning_rate)
        self.critic_optimizer = make_optimizer(self.critic, self.config.learning_rate)

    def describe(self) -> str:
        return f"replay up to {self.replay.num_bytes / 1e9:.2f} GB"

    # Acting.

    def act(self, obs: Array) -> tuple[Array, Mapping[str, Array]]:
        mask = self.layout.action_mask
        if self.steps < self.config.learning_starts:
            drawn = self.acting.uniform(-1.0, 1.0, mask.shape)
            return np.where(mask, drawn, 0.0).astype(np.float32), {}
        actions = self.policy_actions(obs, self.layout.body_index)
        noise = self.acting.standard_normal(actions.shape, np.float32)
        actions += np.float32(self.config.exploration_noise) * noise
        actions[~mask] = 0.0
        return actions.clip(-1.0, 1.0, out=actions), {}

    @torch.no_grad()
    def policy_actions(self, obs: Array, body_index: NDArray[np.intp]) -> Array:
        """The actor's own actions (n, action_dim) for observations (n, width), 0 in the padding."""
        batch = self._batch(torch.from_numpy(obs).to(self.device), body_index)
        rows = batch.layout.actions_to_rows(self.actor(batch)).cpu().numpy()
        actions = np.zeros((len(rows), self.layout.action_mask.shape[1]), np.float32)
        actions[:, : rows.shape[1]] = rows
        return actions

    def _batch(self, obs: Tensor, body_index: NDArray[np.intp]) -> LimbBatch:
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        # Rows of one body are by themselves: all such batches share their layout.
        if len(body_index) and (body_index == body_index[0]).all():
            body = self.bodies[body_index[0]]
            return LimbBatch.from_flat(obs[:, : body.num_limbs * FEATURES], body)
        return LimbBatch.from_padded(obs, self.bodies, body_index)

    def store(self, step: Step) -> None:
        self.replay.add(
            self.layout.body_index,
            step.obs,
            step.actions,
            step.rewards,
            step.final_obs,
            step.terminated,
        )
        self.steps += len(step.rewards)
        if self.steps > self.config.learning_starts:
            self.due += self.config.utd_ratio * len(step.rewards)

    # Updates.

    @property
    def pending(self) -> bool:
        return self.due >= 1.0

    def update(self, report: Report, clock: Clock, should_stop: Callable[[], bool]) -> None:
        config = self.config
        while self.pending and not should_stop():
            self.due -= 1.0
            body = None
            if config.batches == "in_turn":
                # A body keeps its turn until the actor has learned from it too.
                body = self.updates // config.policy_delay % len(self.bodies)
            batch = self.replay.sample(config.batch_size, self.sampling, self.device, body)
            clock.lap("sample")
            report(self.gradient_step(batch))
            clock.lap("update")

    def gradient_step(self, batch: Transitions) -> dict[str, float]:
        """One step of the critics and, when it is their turn, of actor and targets.

        Gives `critic_loss`, `q_mean`, `critic_grad_norm` and, when updated, `actor_loss` and
        `actor_grad_norm`; gradient norms are those before clipping. A loss or gradient that is
        not finite raises FloatingPointError before it changes any weight.
        """
        limit = self.config.max_grad_norm
        now = self._batch(batch.obs, batch.body_index)
        actions = now.layout.actions_to_limbs(batch.actions)
        target = self._target(batch)
        # L = mean (Q_1(s, a) - y)^2 + mean (Q_2(s, a) - y)^2
        first, second = (self._values(now, q) for q in self.critic(now, actions))
        loss = self._squared_error(now, first - target) + self._squared_error(now, second - target)
        report = {"critic_loss": check_finite(loss, "critic's loss"), "q_mean": first.mean().item()}
        report["critic_grad_norm"] = optimizer_step(
            loss, self.critic_optimizer, limit, "critic's gradient"
        )
        self.updates += 1
        if self.updates % self.config.policy_delay == 0:
            with _frozen(self._critic_weights):
                # L = -mean Q_1(s, pi(s))
                loss = -now.layout.row_mean(self.critic.first(now, self.actor(now))).mean()
                report["actor_loss"] = check_finite(loss, "actor's loss")
                report["actor_grad_norm"] = optimizer_step(
                    loss, self.actor_optimizer, limit, "actor's gradient"
                )
            with torch.no_grad():
                torch._foreach_lerp_(self._followers, self._followed, self.config.tau)
        return report

    def _values(self, batch: LimbBatch, q: Tensor) -> Tensor:
        """What is learned and bootstrapped: Q (limbs,) as it is, or its mean (rows,)."""
        return q if self.config.per_limb else batch.layout.row_mean(q)

    def _squared_error(self, batch: LimbBatch, error: Tensor) -> Tensor:
        """Mean square over rows; each row counts the same, however many limbs it has."""
        square = error.square()
        return (batch.layout.row_mean(square) if self.config.per_limb else square).mean()

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        """y = r + gamma (1 - terminated) min Q'(s', a'): (rows,), or (limbs,) with `per_limb`."""
        config = self.config
        following = self._batch(batch.next_obs, batch.body_index)
        layout = following.layout
        actions = self.target_actor(following)
        noise = torch.randn(actions.shape, generator=self.generator, device=self.generator.device)
        noise = (noise * config.target_noise).clamp_(
            -config.target_noise_clip, config.target_noise_clip
        )
        actions = (actions + noise.to(actions)).clamp_(-1.0, 1.0)
        actions = actions.masked_fill_(layout.is_torso.unsqueeze(-1), 0.0)
        first, second = (self._values(following, q) for q in self.target_critic(following, actions))
        rewards, discounts = batch.rewards, config.gamma * (1.0 - batch.terminated)
        if config.per_limb:
            rewards, discounts = layout.to_limbs(rewards), layout.to_limbs(discounts)
        return torch.addcmul(rewards, discounts, torch.minimum(first, second))

    # Saving.

    def flush(self) -> None:
        self.replay.flush()

    def weights(self) -> dict[str, Tensor]:
        parts: dict[str, nn.Module] = {"actor": self.actor, "critic": self.critic}
        if self.normalizer is not None:
            parts["normalizer"] = self.normalizer
        return weights_of(parts)

    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        named = current_names(weights)
        parts = self._parts_of(named)
        anew = load_portable(parts, named, optional=["critic"])
        self._take(parts)
        self.target_actor.load_state_dict(self.actor.state_dict())
        self.target_critic.load_state_dict(self.critic.state_dict())
        self._start_optimizers()
        self.updates = 0
        return ", ".join(anew)

    def _parts_of(self, weights: Mapping[str, Tensor]) -> dict[str, nn.Module]:
        """The modules that take over these weights, with a new normalizer if they have one."""
        parts: dict[str, nn.Module] = {"actor": self.actor, "critic": self.critic}
        if any(name.startswith("normalizer.") for name in weights):
            parts["normalizer"] = Normalizer().to(self.device)
        return parts

    def _take(self, parts: Mapping[str, nn.Module]) -> None:
        normalizer = parts.get("normalizer")
        self.normalizer = normalizer if isinstance(normalizer, Normalizer) else None

    def state_dict(self) -> dict[str, Any]:
        return {
            "target_actor": copy.deepcopy(self.target_actor.state_dict()),
            "target_critic": copy.deepcopy(self.target_critic.state_dict()),
            "actor_optimizer": optimizer_state(self.actor_optimizer),
            "critic_optimizer": optimizer_state(self.critic_optimizer),
            "replay": self.replay.state_dict(),
            "acting": self.acting.bit_generator.state,
            "sampling": self.sampling.bit_generator.state,
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "updates": self.updates,
            "due": self.due,
        }

    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        named = current_names(weights)
        parts = self._parts_of(named)
        load_weights(parts, named)
        self._take(parts)
        self.target_actor.load_state_dict(state["target_actor"])
        self.target_critic.load_state_dict(state["target_critic"])
        load_optimizer_state(self.actor_optimizer, state["actor_optimizer"])
        load_optimizer_state(self.critic_optimizer, state["critic_optimizer"])
        self.replay.load_state_dict(state["replay"])
        self.acting.bit_generator.state = state["acting"]
        self.sampling.bit_generator.state = state["sampling"]
        self.generator.set_state(state["generator"])
        self.steps, self.updates, self.due = state["steps"], state["updates"], state["due"]


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
