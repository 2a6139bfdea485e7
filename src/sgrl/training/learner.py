"""What the training loop asks of a learner, whatever its algorithm and storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.rollout import Array, Step
from sgrl.training.metrics import Clock, Losses


class Learner(Protocol):
    """Acts, remembers and learns. Everything random in it comes from generators of its own."""

    reports: tuple[str, ...]
    """Names of what an update reports."""

    @property
    def updates(self) -> int:
        """Gradient steps so far."""

    @property
    def at_rest(self) -> bool:
        """Whether `get_state` can be called now."""

    @property
    def behind(self) -> bool:
        """Whether updates are due that must be made before the next step."""

    def describe(self) -> str:
        """What it will need, in a few words."""

    def act(self, observations: Array) -> tuple[Array, Array | None]:
        """Actions to try, (copies, motors), for observations (copies, width).

        And, if `store` needs them, the means of the distribution they were drawn from.
        """

    def store(self, step: Step) -> None:
        """Remember a step of all copies."""

    def learn(self, losses: Losses, clock: Clock, leave: Callable[[], bool]) -> None:
        """Make the updates that are due; if `leave` says so, those that can wait stay due."""

    def flush(self) -> None:
        """Bring to the disk what `get_state` refers to."""

    def weights(self) -> dict[str, Tensor]:
        """Copies of the networks' weights, on the CPU."""

    def training_state(self) -> dict[str, Any]:
        """Copies of what else the updates depend on: nested tensors and numbers."""

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays, and facts as JSON has them: storage, random states, counters."""

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Go back to what `get_state` gave."""

    def load(self, weights: Mapping[str, Tensor], training_state: Mapping[str, Any] | None) -> None:
        """Take over weights, and go on from a training state or start from them."""
