"""Settings of TD3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from sgrl.algorithms.config import MOST_STEPS, AlgorithmConfig, Plan
from sgrl.setting import setting

DEFAULT_BUFFER = 10_000_000
"""Transitions, if a training is not shorter."""


@dataclass(frozen=True)
class TD3Config(AlgorithmConfig):
    """Settings of TD3; the defaults are the paper's."""

    old_names: ClassVar[Mapping[str, str]] = {
        "discount": "gamma",
        "polyak": "tau",
        "gradient_clip": "max_grad_norm",
        "batch": "batch_size",
    }
    moved_here: ClassVar[Mapping[str, str]] = {
        "warm_up": "learning_starts",
        "updates_per_step": "utd_ratio",
        "batches": "batches",
        "buffer": "buffer_size",
    }

    gamma: float = setting(0.99, key="gamma", least=0.0, most=1.0)
    """Discount: what a reward one step later is worth."""
    tau: float = setting(0.005, key="tau", least=0.0, most=1.0)
    """Part of the way that targets go towards the networks at each of their updates."""
    exploration_noise: float = setting(0.126, key="exploration_noise", least=0.0, most=10.0)
    """Standard deviation of the normal noise on actions while training."""
    target_noise: float = setting(0.2, key="target_noise", least=0.0, most=10.0)
    """Standard deviation of the normal noise on the target's actions."""
    target_noise_clip: float = setting(0.5, key="target_noise_clip", least=0.0, most=10.0)
    """Largest size of the noise on the target's actions."""
    policy_delay: int = setting(2, key="policy_delay", least=1, most=1_000_000)
    """Updates of the critics for one of the actor and the targets."""
    learning_rate: float = setting(1e-4, key="learning_rate", above=0.0, most=1.0)
    """Adam's, of actor and critics."""
    max_grad_norm: float = setting(0.1, key="max_grad_norm", above=0.0, most=1e9)
    """Largest norm of a gradient, of the actor and of both critics together."""
    batch_size: int = setting(100, key="batch_size", least=1, most=1_000_000)
    """Transitions in an update."""
    per_limb: bool = setting(True, key="per_limb")
    """Each limb's Q learns from its own Q of the next state, instead of their means."""
    learning_starts: int = setting(10_000, key="learning_starts", least=0, most=MOST_STEPS)
    """Steps with random actions, before the first update."""
    utd_ratio: float = setting(1.0, key="utd_ratio", least=0.0, most=1_000.0)
    """Updates for each collected transition."""
    batches: Literal["mixed", "in_turn"] = setting("mixed", key="batches")
    """Mini-batches that mix all bodies, or of one body after the other."""
    buffer_size: int | None = setting(None, key="buffer_size", least=1, most=MOST_STEPS)
    """Transitions that are remembered, of all bodies together: 10,000,000, or all if there are
    fewer."""

    def resolved(self, plan: Plan) -> TD3Config:
        if self.buffer_size is not None:
            return self
        # As many as fit beside each other when the last step overshoots.
        most = plan.steps + plan.envs_per_body * len(plan.bodies)
        return replace(self, buffer_size=min(DEFAULT_BUFFER, most))
