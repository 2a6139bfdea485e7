"""What every method's network is: limbs of a batch in, numbers per limb out.

A method writes one class, `Method(config, role)`, in its own file. What makes it an
actor, a critic or a value function is its `Role`; squashing, twins and means over a row
are the same for all methods and live in `heads`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS
from sgrl.models.batch import LimbBatch
from sgrl.models.mlp import linear

NUM_HINGES = 3
"""Hinges, and so actions, of a limb."""


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


INITIAL_RAW_STD = 0.29
"""Bias of a new `read_std`: a standard deviation of 0.6, see `heads.GaussianActor`."""


def std_layer(inputs: int, outputs: int = NUM_HINGES) -> nn.Linear:
    """The layer `read_std`, from the last hidden units to raw log-stds, nearly constant at first.

    It stands beside the layer of the means, so that the weights of a deterministic actor fit a
    Gaussian one but for this.
    """
    layer = linear(inputs, outputs, 0.01)
    nn.init.constant_(layer.bias, INITIAL_RAW_STD)
    return layer


class LimbNetwork(nn.Module, ABC):
    """A pure function of a batch, and of the actions if its role reads them."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        self.role = role

    @abstractmethod
    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """(limbs, role.outputs), not squashed. `action` is (limbs, 3), torso rows 0."""

    def check_action(self, action: Tensor | None) -> None:
        """Refuse an action that is missing or that nobody asked for."""
        if (action is not None) != self.role.reads_action:
            wants = "needs the action" if self.role.reads_action else "takes no action"
            raise ValueError(f"this {type(self).__name__} {wants}")


FLAT_FEATURES = NUM_VECTORS * 3 + 6 + NUM_SCALARS
"""Numbers per limb of `LimbBatch.flat`."""
