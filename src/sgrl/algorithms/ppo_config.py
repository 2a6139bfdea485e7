"""Settings of PPO, and what a family has of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from sgrl.algorithms.config import AlgorithmConfig, Plan
from sgrl.morphology import Morphology, mirror_of
from sgrl.setting import setting

HORIZONS = {"hopper": 2.0, "walker": 2.0, "humanoid": 2.0, "cheetah": 4.0}
"""Seconds that a family looks ahead."""
OTHER_HORIZON = 2.0
"""Seconds that bodies of other families look ahead."""
LEARNING_RATES = (1e-5, 1e-2)
"""What the policy's learning rate is kept between."""
DEFAULT_ENVS = 64
"""Environments of all bodies together, but no fewer than `LEAST_ENVS_PER_BODY` of each."""
LEAST_ENVS_PER_BODY = 4


@dataclass(frozen=True)
class PPOConfig(AlgorithmConfig):
    """Settings of PPO."""

    old_names: ClassVar[Mapping[str, str]] = {
        "rollout": "n_steps",
        "epochs": "n_epochs",
        "batch": "batch_size",
        "trace": "gae_lambda",
        "clip": "clip_range",
        "kl": "desired_kl",
        "entropy": "ent_coef",
        "restraint": "action_penalty_coef",
        "gradient_clip": "max_grad_norm",
        "alive": "survival_bonus",
        "mirror": "mirror_loss_coef",
    }

    n_steps: int = setting(64, key="n_steps", least=1, most=1_000_000)
    """Steps of every environment between two updates."""
    n_epochs: int = setting(2, key="n_epochs", least=1, most=1_000)
    """Times that an update goes through the rollout."""
    batch_size: int = setting(1024, key="batch_size", least=1, most=10_000_000)
    """Transitions in a gradient step."""
    horizon: float | tuple[float, ...] | None = setting(None, key="horizon", above=0.0, most=1e6)
    """Seconds that the discount looks ahead, or a number for each body; by default each family's
    own."""
    gae_lambda: float = setting(0.95, key="gae_lambda", least=0.0, most=1.0)
    """Lambda of the generalized advantages."""
    clip_range: float = setting(0.2, key="clip_range", above=0.0, most=1e6)
    """How far the probability of an action may change before it stops to count."""
    learning_rate: float = setting(
        3e-4, key="learning_rate", least=LEARNING_RATES[0], most=LEARNING_RATES[1]
    )
    """Adam's for the policy, at the start of a training from scratch; one from other weights starts
    at the lowest, 1e-5, and the divergence soon leads it to where it belongs."""
    desired_kl: float = setting(0.03, key="desired_kl", above=0.0, most=1e6)
    """KL divergence between the old and the new policy that the learning rate is led to."""
    value_learning_rate: float = setting(1e-3, key="value_learning_rate", above=0.0, most=1.0)
    """Adam's for the value function."""
    ent_coef: float = setting(0.0, key="ent_coef", least=0.0, most=1e6)
    """Coefficient of the policy's entropy, per hinge."""
    action_penalty_coef: float = setting(0.02, key="action_penalty_coef", least=0.0, most=1e6)
    """Coefficient of the mean square of the policy's means before tanh: it keeps them off the
    bounds of an action, where no noise moves a motor any more."""
    max_grad_norm: float = setting(1.0, key="max_grad_norm", above=0.0, most=1e9)
    """Largest norm of a gradient, of the policy and of the value function."""
    survival_bonus: float = setting(0.0, key="survival_bonus", least=0.0, most=1e6)
    """What learning adds to the reward of every step that does not end in a fall. Returns are
    reported without it."""
    mirror_loss_coef: float = setting(0.0, key="mirror_loss_coef", least=0.0, most=1e6)
    """Learn from mirrored samples too: half of every batch are mirror images of the other half. The
    coefficient of the loss that asks for the mirrored action there, about 0.3; 0 for neither."""

    compile: Literal["auto", "yes", "no"] = setting(
        "auto", key="compile", identifies=False, before="no"
    )
    """Whether updates are compiled: if there is a compiler and enough of them, or told by you."""

    def default_steps(self) -> int:
        return 5_000_000

    def default_envs_per_body(self, bodies: int) -> int:
        return max(LEAST_ENVS_PER_BODY, DEFAULT_ENVS // bodies)

    @property
    def rollout_steps(self) -> int:
        return self.n_steps

    @property
    def learns_images(self) -> bool:
        return self.mirror_loss_coef > 0

    def resolved(self, plan: Plan) -> PPOConfig:
        body = plan.bodies[0]
        if self.mirror_loss_coef and plan.one_body and mirror_of(body).body != body:
            raise ValueError(
                f"{plan.method} is made for one body, and the mirror image of {body.name} is "
                "another: leave --ppo.mirror-loss-coef out, or take set, swat, amorpheus or smp"
            )
        if self.horizon is None:
            # Recorded, so that another default changes no run that there is.
            horizons = (HORIZONS.get(str(body.family), OTHER_HORIZON) for body in plan.bodies)
            return replace(self, horizon=tuple(horizons))
        if isinstance(self.horizon, tuple) and len(self.horizon) != len(plan.bodies):
            raise ValueError(
                f"horizon is one number, or one for each of the {len(plan.bodies)} bodies, not "
                f"{len(self.horizon)}"
            )
        return self

    def discounts(self, bodies: Sequence[Morphology]) -> tuple[float, ...]:
        """What a reward one step later is worth to each body; the config is a resolved one."""
        assert self.horizon is not None, "resolve the config first"
        seconds = self.horizon
        horizons = seconds if isinstance(seconds, tuple) else (seconds,) * len(bodies)
        return tuple(
            max(0.0, 1.0 - body.dt / horizon)
            for body, horizon in zip(bodies, horizons, strict=True)
        )
