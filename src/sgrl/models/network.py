"""Networks: limbs of a batch in, numbers per limb out; and actors, critics, values made of them.

A method writes one class, `Method(config, role)`, in its own file. What makes it an actor, a
critic or a value function is its `Role`. All are pure functions of a `LimbBatch`. Q and V come per
limb; `layout.row_mean` gives those of a row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.batch import LimbBatch

NUM_HINGES = 3
"""Hinges, and so actions, of a limb."""
FLAT_FEATURES = NUM_VECTORS * 3 + 6 + NUM_SCALARS
"""Numbers per limb of `LimbBatch.flat`."""
RECTIFIED = 2**0.5
"""Gain of a layer before a ReLU, which halves the mean square of its outputs."""
OUTPUT_GAIN = 0.5
"""Gain of the last layer at the start: actions neither 0 nor ±1, values below 1 in size."""
INITIAL_RAW_STD = 0.29
"""Bias of a new `read_std`: a standard deviation of 0.6, see `GaussianActor`."""
MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0
"""What tanh bounds the log of a Gaussian actor's standard deviation by."""


@dataclass(frozen=True)
class Role:
    """What a network is for."""

    reads_action: bool
    """Whether it takes the action of each limb as well."""
    gives_action: bool
    """Whether it gives one number per hinge, (limbs, 3), or one per limb, (limbs, 1)."""
    gives_std: bool = False
    """Whether a raw log-std per hinge follows the means, (limbs, 6), means first."""

    @property
    def outputs(self) -> int:
        """Numbers per limb that the network gives."""
        return self.means * (2 if self.gives_std else 1)

    @property
    def means(self) -> int:
        """Numbers per limb that the network gives, raw log-stds not counted."""
        return NUM_HINGES if self.gives_action else 1

    @property
    def action_inputs(self) -> int:
        """Numbers per limb that the action adds to its input."""
        return NUM_HINGES if self.reads_action else 0


ACTOR = Role(reads_action=False, gives_action=True)
GAUSSIAN_ACTOR = Role(reads_action=False, gives_action=True, gives_std=True)
CRITIC = Role(reads_action=True, gives_action=False)
VALUE = Role(reads_action=False, gives_action=False)


class LimbNetwork(nn.Module, ABC):
    """A pure function of a batch, and of the actions if its role reads them."""

    has_attention = False
    """Whether it has attention to look at."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        self.role = role

    @abstractmethod
    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), before tanh. `action` is (limbs, 3), torso rows 0."""

    def attention(self, batch: LimbBatch, action: Tensor | None = None) -> list[Tensor]:
        """Attention of each layer, (rows, heads, max_limbs, max_limbs), to look at."""
        raise NotImplementedError(f"{type(self).__name__} has no attention")

    def check_action(self, action: Tensor | None) -> None:
        """Refuse an action that is missing or that nobody asked for."""
        if (action is not None) != self.role.reads_action:
            wants = "needs the action" if self.role.reads_action else "takes no action"
            raise ValueError(f"this {type(self).__name__} {wants}")


def linear(inputs: int, outputs: int, gain: float, bias: bool = True) -> nn.Linear:
    """A linear layer that makes numbers `gain` times as large, with a bias of 0."""
    layer = nn.Linear(inputs, outputs, bias)
    initialize(layer, gain)
    return layer


def initialize(layer: nn.Linear, gain: float) -> None:
    """Orthogonal weights that make numbers `gain` times as large, and a bias of 0."""
    widening = math.sqrt(max(1.0, layer.out_features / layer.in_features))
    nn.init.orthogonal_(layer.weight, gain * widening)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def mlp(
    inputs: int,
    hidden: tuple[int, ...],
    outputs: int,
    input_size: float = 1.0,
    *,
    layer_norm: bool = False,
) -> nn.Sequential:
    """Linear layers with ReLU between them, normalized before it if asked for, the last one bare.

    Weights start orthogonal and biases at 0, scaled so that inputs of root mean square
    `input_size` keep numbers of order 1 in every layer.
    """
    layers: list[nn.Module] = []
    for units in hidden:
        layers.append(linear(inputs, units, RECTIFIED / input_size))
        layers += [nn.LayerNorm(units), nn.ReLU()] if layer_norm else [nn.ReLU()]
        inputs, input_size = units, 1.0
    return nn.Sequential(*layers, linear(inputs, outputs, OUTPUT_GAIN / input_size))


def std_layer(inputs: int, outputs: int = NUM_HINGES) -> nn.Linear:
    """The layer `read_std`, from the last hidden units to raw log-stds, nearly constant at first.

    It stands beside the layer of the means, so that the weights of a deterministic actor fit a
    Gaussian one but for this.
    """
    layer = linear(inputs, outputs, 0.01)
    nn.init.constant_(layer.bias, INITIAL_RAW_STD)
    return layer


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


class MeanActor(nn.Module):
    """What a Gaussian actor does without noise, as a module: (limbs, 3) in [-1, 1]."""

    def __init__(self, gaussian: GaussianActor) -> None:
        super().__init__()
        self.gaussian = gaussian

    @property
    def network(self) -> nn.Module:
        """The method's network, which may have attention to show."""
        return self.gaussian.network

    def forward(self, batch: LimbBatch) -> Tensor:
        return self.gaussian.mean(batch)


class GaussianPolicy(nn.Module):
    """A normal distribution of actions for each hinge, for on-policy algorithms.

    The standard deviation is one learned number for each of the hinges x, y and z: the same in
    every state and so invariant, and at home on every body. The mean lies in [-1, 1].
    """

    def __init__(self, network: nn.Module, initial_log_std: float = -0.7) -> None:
        super().__init__()
        self.actor = Actor(network)
        self.log_std = nn.Parameter(torch.full((NUM_HINGES,), initial_log_std))

    def forward(self, batch: LimbBatch) -> tuple[Tensor, Tensor]:
        """Mean and log of the standard deviation, (limbs, 3) each; the torso's have no meaning."""
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
