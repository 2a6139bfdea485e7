"""Settings of PPO, and what a family has of its own."""

from __future__ import annotations

from dataclasses import dataclass

from sgrl.morphology import Morphology

HORIZONS = {"hopper": 2.0, "walker": 2.0, "humanoid": 2.0, "cheetah": 4.0}
"""Seconds that a family looks ahead."""
OTHER_HORIZON = 2.0
"""Of bodies of other families."""
LEARNING_RATES = (1e-5, 1e-2)
"""What the policy's learning rate is kept between."""


@dataclass(frozen=True)
class PpoConfig:
    """Settings of PPO."""

    rollout: int = 64
    """Steps of every copy between two updates."""
    epochs: int = 2
    """Times that an update goes through the rollout."""
    batch: int = 1024
    """Transitions in a gradient step."""
    horizon: float | None = None
    """Seconds that the discount looks ahead; by default each family's own."""
    trace: float = 0.95
    """Lambda of the generalised advantages."""
    clip: float = 0.2
    """How far the probability of an action may change before it stops to count."""
    learning_rate: float = 3e-4
    """Adam's for the policy, at the start of a training from scratch; one from other weights starts
    at the lowest, 1e-5, and the divergence soon leads it to where it belongs."""
    kl: float = 0.03
    """KL divergence between the old and the new policy that the learning rate is led to."""
    value_learning_rate: float = 1e-3
    """Adam's for the value function."""
    entropy: float = 0.0
    """Worth of the policy's entropy, per hinge."""
    restraint: float = 0.02
    """Worth of means that keep off the bounds of an action, where no noise moves a motor any more:
    the weight of their mean square before tanh."""
    gradient_clip: float = 1.0
    """Largest norm of a gradient, of the policy and of the value function."""
    alive: float = 0.0
    """What learning adds to the reward of every step that does not end in a fall. Returns are
    reported without it."""
    mirror: float = 0.0
    """Learn also as if in a mirror, where left is right and a body its mirror image: half of every
    batch are images of the other half. The worth of doing there the image of what is done here,
    about 0.3; 0 for no mirror."""

    def __post_init__(self) -> None:
        for name in ("rollout", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("clip", "learning_rate", "kl", "value_learning_rate", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        least, most = LEARNING_RATES
        if not least <= self.learning_rate <= most:
            raise ValueError(
                f"learning_rate must lie between {least} and {most}, not {self.learning_rate}"
            )
        if not 0.0 <= self.trace <= 1.0:
            raise ValueError(f"trace must lie between 0 and 1, not {self.trace}")
        for name in ("entropy", "restraint", "alive", "mirror"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.horizon is not None and not self.horizon > 0:
            raise ValueError(f"horizon must be positive, not {self.horizon}")

    def discount(self, body: Morphology) -> float:
        """What a reward one step later is worth to a body."""
        seconds = self.horizon
        if seconds is None:
            seconds = HORIZONS.get(str(body.family), OTHER_HORIZON)
        return max(0.0, 1.0 - body.dt / seconds)
