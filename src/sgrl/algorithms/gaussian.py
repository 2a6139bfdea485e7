"""Normal distributions of actions, with a standard deviation for each kind of hinge."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from sgrl.models.network import NUM_HINGES


@dataclass(frozen=True)
class HingeGaussian:
    """Independent normal distributions of actions, whose std is the same in every state."""

    mean: Tensor
    """(rows, action_dim)."""
    log_std: Tensor
    """(3,): of the hinges x, y and z of every limb."""

    def per_action(self) -> Tensor:
        """The log of the std of each action, (action_dim,)."""
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
