"""Normal distributions of actions, each motor's by itself, with a spread for each kind of hinge."""

from __future__ import annotations

import math

from torch import Tensor

from sgrl.models.network import NUM_HINGES


def per_hinge(log_std: Tensor, motors: int) -> Tensor:
    """(3,), one for each kind of hinge, to (motors,)."""
    return log_std.repeat(motors // NUM_HINGES)


def log_densities(actions: Tensor, means: Tensor, log_std: Tensor) -> Tensor:
    """Of each action by itself, (rows, motors)."""
    spread = per_hinge(log_std, actions.shape[1])
    away = (actions - means) * (-spread).exp()
    return -0.5 * away.square() - spread - 0.5 * math.log(2.0 * math.pi)


def divergences(old_means: Tensor, old_log_std: Tensor, means: Tensor, log_std: Tensor) -> Tensor:
    """KL divergences from the old to the new distribution of each action, (rows, motors)."""
    old_spread, spread = (per_hinge(one, means.shape[1]) for one in (old_log_std, log_std))
    away = (old_means - means) * (-spread).exp()
    wider = 0.5 * (2.0 * (old_spread - spread)).exp() - 0.5
    return 0.5 * away.square() + spread - old_spread + wider
