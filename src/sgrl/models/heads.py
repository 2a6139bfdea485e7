"""Actor, critics, value and policy on top of any method's network.

All are pure functions of a `LimbBatch`. Q and V come per limb; `layout.row_mean` gives
those of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sgrl.models.batch import LimbBatch
from sgrl.models.network import NUM_HINGES

MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0
"""What tanh bounds the log of a Gaussian actor's standard deviation by."""


class Actor(nn.Module):
    """Actions in [-1, 1]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: LimbBatch) -> Tensor:
        """(limbs, 3), 0 where there is no hinge."""
        return torch.tanh(self.unbounded(batch))

    def unbounded(self, batch: LimbBatch) -> Tensor:
        """(limbs, 3), 0 where there is no hinge: the numbers whose tanh is the action."""
        mean: Tensor = self.network(batch)
        return mean.masked_fill(~batch.layout.hinges, 0.0)


class GaussianActor(nn.Module):
    """A normal distribution before tanh whose standard deviation depends on the state.

    The network gives three means and three raw log-stds per limb, and both are as invariant as the
    actions of `Actor`, whose weights fit it.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: LimbBatch) -> tuple[Tensor, Tensor]:
        """Mean before tanh and log of the standard deviation: (limbs, 3) each.

        The log-std lies between -5 and 2. Motors without a gear rest: their mean is 0, and their
        standard deviation has no meaning, as that of the torso has none.
        """
        outputs: Tensor = self.network(batch)
        if outputs.dtype == torch.bfloat16:  # of a network under autocast
            outputs = outputs.float()
        mean, raw_std = outputs.chunk(2, dim=-1)
        mean = mean.masked_fill(~batch.layout.actuated, 0.0)
        half_range = (MAX_LOG_STD - MIN_LOG_STD) / 2
        return mean, MIN_LOG_STD + half_range * (torch.tanh(raw_std) + 1)

    def mean(self, batch: LimbBatch) -> Tensor:
        """The deterministic action tanh(mean): (limbs, 3) in [-1, 1], 0 where no motor moves."""
        mean, _ = self(batch)
        return torch.tanh(mean)


class Policy(nn.Module):
    """A normal distribution of actions for each hinge, for on-policy algorithms.

    The spread is one learned number for each of the hinges x, y and z: the same in every
    state and so invariant, and at home on every body. The mean lies in [-1, 1].
    """

    def __init__(self, network: nn.Module, initial_log_std: float = -0.7) -> None:
        super().__init__()
        self.actor = Actor(network)
        self.log_std = nn.Parameter(torch.full((NUM_HINGES,), initial_log_std))

    def forward(self, batch: LimbBatch) -> tuple[Tensor, Tensor]:
        """Mean and log of the spread, (limbs, 3) each; the torso's have no meaning."""
        mean = self.actor(batch)
        return mean, self.log_std.to(mean.dtype).expand_as(mean)


class Critic(nn.Module):
    """Q per limb."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: LimbBatch, action: Tensor) -> Tensor:
        """(limbs,) for actions (limbs, 3)."""
        q: Tensor = self.network(batch, action)
        return q.squeeze(-1)


class TwinCritic(nn.Module):
    """Two critics that share nothing, as TD3 has them."""

    def __init__(self, first: Critic, second: Critic) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, batch: LimbBatch, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both Q per limb, (limbs,) each."""
        return self.first(batch, action), self.second(batch, action)


class Value(nn.Module):
    """V per limb: a critic that needs no action."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: LimbBatch) -> Tensor:
        """(limbs,)."""
        v: Tensor = self.network(batch)
        return v.squeeze(-1)
