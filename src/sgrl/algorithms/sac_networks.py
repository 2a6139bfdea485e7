"""The networks of SAC and how a batch changes them: equations beside their lines."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sgrl.algorithms.env_actor import EnvActor
from sgrl.algorithms.equal_rows import EqualRows
from sgrl.algorithms.learner import Setup
from sgrl.algorithms.optimizer import (
    check_finite,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
)
from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.sac_critics import FlatCritic, MethodCritic
from sgrl.algorithms.speed import Function, Speed, UpdateFunctions, autocast
from sgrl.algorithms.weights import load_portable, load_weights, weights_of
from sgrl.models.methods import make_twin_critic
from sgrl.models.network import NUM_HINGES
from sgrl.models.normalizer import ColumnStatistics, update_statistics

REPORT_EVERY = 10
"""Updates of the actor between two that are reported: to work out norms of gradients takes time."""
COUNT_EVERY = 1024
"""Updates between two batches that are counted in the statistics of observations."""
LAST_COUNTED = 65_536
"""Updates after which these statistics stay as they are."""
TRAINED_ALPHA = 5e-4
"""Entropy coefficient that a policy of another run starts with, about that of finished trainings:
the first one of an untrained policy would drown its returns."""


class SACNetworks:
    """An actor, twin critics and their targets, and an entropy coefficient of each body."""

    metrics = (
        "critic_loss",
        "actor_loss",
        "q_mean",
        "critic_grad_norm",
        "actor_grad_norm",
        "alpha",
        "entropy",
    )

    def __init__(self, config: SACConfig, setup: Setup, speed: Speed) -> None:
        """Weights come from torch's global generator."""
        self.config, self.device = config, torch.device(setup.device)
        self.rows_per_body = max(2, config.batch_size // len(setup.bodies))
        self.rows = EqualRows(
            setup.bodies, self.rows_per_body, mirror=config.mirror, device=self.device
        )
        self.actor = EnvActor(setup)
        network: dict[str, Any] = {"bodies": setup.bodies, "config": setup.network}
        critic: FlatCritic | MethodCritic = (
            FlatCritic(self.rows.layout, config.critic_width)
            if config.critic == "flat"
            else MethodCritic(make_twin_critic(setup.method, setup.preset, **network))
        )
        self.critic = critic.to(self.device)
        # Both normalize what they read by the same statistics.
        shared = [one for one in self.critic.modules() if isinstance(one, ColumnStatistics)]
        self.target_critic = copy.deepcopy(self.critic, {id(one): one for one in shared})
        self.target_critic.requires_grad_(False)
        start = torch.full((len(setup.bodies),), math.log(config.initial_alpha))
        self.log_alpha = nn.Parameter(start.to(self.device))
        motors = torch.tensor([float(body.actuated.sum()) for body in setup.bodies])
        self._motors = motors.to(self.device)[self.rows.unit_index]
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        self.updates = 0
        """Gradient steps of the critics so far."""
        self.actor_waits = 0
        """Those that the critics make before the first of the actor."""
        self.start_optimizers()
        self.set_speed(speed)

    def start_optimizers(self) -> None:
        """Forget the moments of all gradients so far."""
        rate = self.config.learning_rate
        self.actor_optimizer = make_optimizer(self.actor.network, rate)
        self.critic_optimizer = make_optimizer(self.critic, rate)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], rate)
        # Listed once: to walk through the modules takes longer than to move the weights of an MLP.
        self._actor_weights: list[Tensor] = list(self.actor.network.parameters())
        self._critic_weights: list[Tensor] = list(self.critic.parameters())
        self._target_weights: list[Tensor] = list(self.target_critic.parameters())

    def set_speed(self, speed: Speed) -> None:
        """How updates are made from now on."""
        self._functions = UpdateFunctions(speed, self._target, self._critic_loss, self._actor_loss)

    @property
    def speed(self) -> Speed:
        """How updates are made."""
        return self._functions.speed

    def get_ready(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Compile what updates call, before the first one; whether they can be made now."""
        return self._functions.is_ready or self._functions.compile(self._call, should_stop)

    def _call(self, functions: tuple[Function, ...]) -> None:
        """Call what updates call, changing nothing."""
        target, critic_loss, actor_loss = functions
        layout = self.rows.layout
        rows, columns, motors = layout.num_rows, self.rows.num_columns, self.rows.num_actuated
        zeros = torch.zeros(rows, device=self.device)
        seen = torch.zeros(rows, columns, device=self.device)
        actions = torch.zeros(rows, motors, device=self.device)
        noise = torch.zeros(layout.num_limbs, NUM_HINGES, device=self.device)
        with torch.no_grad():
            y = target(seen, noise, zeros, zeros, zeros)
        critic_loss(seen, actions, y)[0].backward()
        with _frozen(self._critic_weights):
            actor_loss(seen, noise, zeros)[0].backward()
        for weight in (*self._critic_weights, *self._actor_weights):
            weight.grad = None

    def gradient_step(
        self, columns: Tensor, actions: Tensor, rewards: Tensor, discounts: Tensor, last: Tensor
    ) -> dict[str, float]:
        """A gradient step of the critics and, if it is their turn, of actor and coefficients."""
        target, critic_loss, actor_loss = self._functions
        self.updates += 1
        reports = self.updates % (REPORT_EVERY * self.config.policy_delay) == 0
        alpha = self.log_alpha.detach().exp()
        row_alpha = alpha[self.rows.unit_index]
        with torch.no_grad():
            y = target(last, self._draw(), rewards, discounts, row_alpha)
        loss, q_mean = critic_loss(columns, actions, y)
        values = {"critic_loss": check_finite(loss, "critic's loss")}
        self.critic_optimizer.zero_grad()
        loss.backward()
        if reports:
            values |= {"q_mean": q_mean.item(), "critic_grad_norm": _norm(self._critic_weights)}
        self.critic_optimizer.step()
        if self.updates % self.config.policy_delay == 0 and self.updates > self.actor_waits:
            loss, log_prob = self._update_actor(actor_loss, columns, row_alpha)
            if reports:
                values |= {
                    "actor_loss": loss,
                    "actor_grad_norm": _norm(self._actor_weights),
                    "alpha": alpha.mean().item(),
                    "entropy": -(log_prob / self._motors).mean().item(),
                }
        with torch.no_grad():
            # w' <- w' + tau (w - w')
            torch._foreach_lerp_(self._target_weights, self._critic_weights, self.config.tau)
        if self.updates % COUNT_EVERY == 0 and self.updates <= LAST_COUNTED:
            self.count(columns)
        return values if reports else {}

    def _update_actor(
        self, actor_loss: Callable[..., Any], columns: Tensor, row_alpha: Tensor
    ) -> tuple[float, Tensor]:
        with _frozen(self._critic_weights):
            loss, log_prob = actor_loss(columns, self._draw(), row_alpha)
            value = check_finite(loss, "actor's loss")
            self.actor_optimizer.zero_grad()
            loss.backward()
            self.actor_optimizer.step()
        loss = self._alpha_loss(log_prob)
        self.alpha_optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.alpha_optimizer.step()
        return value, log_prob

    def _draw(self) -> Tensor:
        """Standard normal noise (limbs, 3)."""
        shape = (self.rows.layout.num_limbs, NUM_HINGES)
        return torch.randn(shape, generator=self.generator, device=self.device)

    # The three functions of an update, which are compiled, and that of the coefficients.

    def _target(
        self, last: Tensor, noise: Tensor, rewards: Tensor, discounts: Tensor, alpha: Tensor
    ) -> Tensor:
        """y = R + gamma^n (min(Q1', Q2')(s', a') - alpha log pi(a' | s')), a' ~ pi: (rows,)."""
        obs = self.rows.observations(last)
        action, log_prob = self._act(obs, noise)
        q = self._values(self.target_critic, obs, action)
        return rewards + discounts * (q.amin(0) - alpha * log_prob)

    def _critic_loss(self, columns: Tensor, actions: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """L = mean (Q1 - y)^2 + mean (Q2 - y)^2, and the mean of Q."""
        q = self._values(self.critic, self.rows.observations(columns), self.rows.actions(actions))
        return (q - y).square().mean(1).sum(), q.mean()

    def _actor_loss(self, columns: Tensor, noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """L = mean (alpha log pi(a | s) - min(Q1, Q2)(s, a)), a ~ pi, and log pi (rows,)."""
        obs = self.rows.observations(columns)
        action, log_prob = self._act(obs, noise)
        q = self._values(self.critic, obs, action)
        return (alpha * log_prob - q.amin(0)).mean(), log_prob.detach()

    def _alpha_loss(self, log_prob: Tensor) -> Tensor:
        """L = mean alpha (-log pi - H), H the entropy that is wanted of a body."""
        wanted = self.config.target_entropy * self._motors
        alpha = self.log_alpha.exp()[self.rows.unit_index]
        return -(alpha * (log_prob + wanted)).mean()

    def _act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (limbs, 3) = tanh(u), u = mean + std noise, and their log-probability (rows,)."""
        mean, log_std = self.actor.distribution(obs, self.rows, self.speed.products)
        layout = self.rows.layout
        u = mean + log_std.exp() * noise
        # log pi(a) = log N(u) - log(1 - tanh(u)^2), the last term as it stays exact for large u
        log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        log_slope = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
        log_prob = (log_normal - log_slope) * layout.actuated
        action = torch.tanh(u) * layout.actuated
        return action, layout.row_sum(log_prob).sum(-1)

    def _values(self, critic: nn.Module, obs: Tensor, action: Tensor) -> Tensor:
        """(2, rows): Q of both twins."""
        flat = isinstance(critic, FlatCritic)  # which has statistics of its own
        batch = self.rows.batch(obs if flat else self.actor.normalized(obs))
        with autocast(self.speed.products):
            q: Tensor = critic(batch, action)
        return q.float()

    @torch.no_grad()
    def count(self, columns: Tensor) -> None:
        """Count a batch in the statistics by which networks normalize what they read."""
        obs, noise = self.rows.observations(columns), self._draw()
        self.actor.count(obs, self.rows, self.speed.products)
        update_statistics(self.critic, lambda: self._values(self.critic, obs, noise))

    # Saving.

    def parts(self) -> dict[str, nn.Module]:
        """What has weights of its own, by the name that they begin with."""
        return self.actor.parts() | {"critic": self.critic}

    def _optimizers(self) -> dict[str, torch.optim.Adam]:
        return {
            "actor_optimizer": self.actor_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "alpha_optimizer": self.alpha_optimizer,
        }

    def start_from(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Start from the weights of another run; the parts that began anew."""
        anew = load_portable(self.parts(), weights, optional=["normalizer", "critic"])
        self.target_critic.load_state_dict(self.critic.state_dict())
        self.start_optimizers()
        if "critic" in anew:
            self.actor_waits = self.config.critic_warmup
            with torch.no_grad():
                self.log_alpha.clamp_(max=math.log(TRAINED_ALPHA))
        return anew

    def state_dict(self) -> dict[str, Any]:
        """All that coming updates depend on beside the weights of the parts."""
        optimizers = self._optimizers().items()
        return {name: optimizer_state(optimizer) for name, optimizer in optimizers} | {
            "target_critic": weights_of({"target": self.target_critic}),
            "log_alpha": self.log_alpha.detach().cpu().clone(),
            "generator": self.generator.get_state(),
            "updates": self.updates,
            "actor_waits": self.actor_waits,
            "speed": self.speed.state_dict(),
        }

    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Go back to the weights of the parts and a `state_dict`."""
        load_weights(self.parts(), weights)
        load_weights({"target": self.target_critic}, state["target_critic"])
        for name, optimizer in self._optimizers().items():
            load_optimizer_state(optimizer, state[name])
        with torch.no_grad():
            self.log_alpha.copy_(state["log_alpha"])
        self.generator.set_state(state["generator"])
        self.updates = state["updates"]
        self.actor_waits = state.get("actor_waits", 0)  # runs of before had none
        self.set_speed(Speed(**state["speed"]))


@contextmanager
def _frozen(weights: Sequence[Tensor]) -> Iterator[None]:
    """Without gradients of these, which would be computed in vain."""
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def _norm(weights: list[Tensor]) -> float:
    """Of the gradient of all weights together."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return nn.utils.get_total_norm(gradients).item()
