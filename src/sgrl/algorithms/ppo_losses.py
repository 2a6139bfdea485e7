"""What PPO minimizes: the losses of its policy and its value function, which can be compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.rollout_buffer import Batch
from sgrl.algorithms.speed import Function, Speed, UpdateFunctions
from sgrl.models.layout import BatchLayout
from sgrl.models.network import NUM_HINGES, GaussianPolicy, Value

SAVED_SECONDS = 2e-5
"""What compiling saves in an update for each row, about, with a small SET."""


class PPOLosses:
    """Functions of a mini-batch."""

    def __init__(
        self, policy: GaussianPolicy, value: Value, config: PPOConfig, speed: Speed
    ) -> None:
        self.policy, self.value, self.config = policy, value, config
        self.set_speed(speed)

    def set_speed(self, speed: Speed) -> None:
        """Whether they are compiled from now on."""
        self._functions = UpdateFunctions(speed, self.policy_loss, self.value_loss)
        self._known: list[BatchLayout] = []

    @property
    def speed(self) -> Speed:
        """Whether they are compiled."""
        return self._functions.speed

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The policy's loss, KL divergence and clip fraction, and the value function's loss."""
        layout = batch.rows.layout
        if self.speed.compiled and not any(layout is known for known in self._known):
            self._known.append(layout)
            self._compile(batch)
        policy_loss, value_loss = self._functions
        return *policy_loss(batch), value_loss(batch)

    def _compile(self, batch: Batch) -> None:
        """Compile for batches of this layout, by calls that change nothing; takes a while."""

        def call(functions: tuple[Function, ...]) -> None:
            policy_loss, value_loss = functions
            (policy_loss(batch)[0] + value_loss(batch)).backward()
            self.policy.zero_grad()
            self.value.zero_grad()

        # Twice, for an update can't be put off: Ctrl-C, which saves the run, stops the compiler.
        if not self._functions.compile(call, should_stop=lambda: True):
            self._functions.compile(call, should_stop=lambda: False)

    def policy_loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The policy's loss, its KL divergence from the one that acted, and the fraction of rows
        in which it is clipped."""
        config = self.config
        unbounded = batch.rows.layout.actions_to_rows(self.policy.actor.unbounded(batch.rows))
        log_std = self.policy.log_std
        hinges = batch.rows.layout.action_hinges
        new = HingeGaussian(unbounded.tanh(), log_std, hinges)
        old = HingeGaussian(batch.means, batch.log_std, hinges)
        log_ratio = new.log_prob(batch.actions) - old.log_prob(batch.actions)
        ratio = (log_ratio * batch.actuated).sum(dim=1).exp()
        # L = mean (penalty - min(r A, clip(r, 1 - eps, 1 + eps) A)) - entropy + mirror loss
        clipped = ratio.clamp(1.0 - config.clip_range, 1.0 + config.clip_range)
        gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
        excess = (unbounded.square() * batch.actuated).sum(dim=1) / batch.actuated.sum(dim=1)
        loss = (config.action_penalty_coef * excess - gain).mean()
        loss = loss - config.ent_coef * log_std.mean()
        if batch.mirrored is not None:
            loss = loss + config.mirror_loss_coef * self.mirror_loss(batch, new.mean)
        with torch.no_grad():
            # Not of mirrored rows: there the policy may never have been its own image.
            rows = slice(None) if batch.mirrored is None else batch.mirrored.originals
            kl = (old.kl(new) * batch.actuated).sum(dim=1)[rows].mean()
            clip_fraction = ((ratio[rows] - 1.0).abs() > config.clip_range).float().mean()
        return loss, kl, clip_fraction

    def value_loss(self, batch: Batch) -> Tensor:
        """L = mean (V(s) - R)^2 / 2."""
        value = batch.rows.layout.row_mean(self.value(batch.rows))
        return 0.5 * (value - batch.returns).square().mean()

    def mirror_loss(self, batch: Batch, means: Tensor) -> Tensor:
        """How far the policy in mirrored rows is from the image of what it does in the originals:
        the divergence of each row, or its logarithm where it is large, so that rows far from their
        images do not drown what was learned from the advantages.

        Advantages alone would not lead it there: actions that are far from its own are so unlikely
        that they hardly count.
        """
        mirrored = batch.mirrored
        assert mirrored is not None, "of a batch with mirrored rows"
        model = means.detach()[mirrored.originals].gather(1, mirrored.sources) * mirrored.signs
        hinges = batch.rows.layout.action_hinges
        hinges = None if hinges is None else hinges[mirrored.rows]
        policy = HingeGaussian(means[mirrored.rows], self.policy.log_std.detach(), hinges)
        away = (policy.mean - model) * (-policy.per_action()).exp()
        return (0.5 * away.square() * batch.actuated[mirrored.rows]).sum(dim=1).log1p().mean()


@dataclass(frozen=True)
class HingeGaussian:
    """Independent normal distributions of actions, whose std is the same in every state."""

    mean: Tensor
    """(rows, action_dim)."""
    log_std: Tensor
    """(3,): of the hinges x, y and z of every limb."""
    hinges: Tensor | None = None
    """See `BatchLayout.action_hinges`."""

    def per_action(self) -> Tensor:
        """The log of the std of each action, (action_dim,) or (rows, action_dim)."""
        if self.hinges is not None:
            return self.log_std[self.hinges]
        return self.log_std.repeat(self.mean.shape[1] // NUM_HINGES)

    def log_prob(self, actions: Tensor) -> Tensor:
        """log p(a) of actions (rows, action_dim), of each by itself."""
        log_std = self.per_action()
        away = (actions - self.mean) * (-log_std).exp()
        return -0.5 * away.square() - log_std - 0.5 * math.log(2.0 * math.pi)

    def kl(self, other: HingeGaussian) -> Tensor:
        """KL(self || other) of each action, (rows, action_dim)."""
        log_std, other_log_std = self.per_action(), other.per_action()
        away = (self.mean - other.mean) * (-other_log_std).exp()
        wider = 0.5 * (2.0 * (log_std - other_log_std)).exp() - 0.5
        return 0.5 * away.square() + other_log_std - log_std + wider
