"""What the training loop asks of an algorithm: act, store, update, save.

An algorithm is a subclass of `Learner` and a frozen dataclass of its settings, its `Config`. It
owns its storage (a replay buffer, a rollout) and its random generators. The loop knows nothing
else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sgrl.morphology import Morphology

Array = NDArray[np.float32]
Report = Callable[[Mapping[str, float]], None]
"""Takes what one update reports: values by names of `Learner.metrics`, not always all of them."""


class Clock(Protocol):
    """Books time to activities: sim, act, sample, update, other."""

    def lap(self, activity: str, /) -> None:
        """Book the time since the last lap."""


class EnvLayout(Protocol):
    """Which environment is of which body, and what of padded rows is real."""

    @property
    def num_envs(self) -> int:
        """Environments of all bodies together."""

    @property
    def body_index(self) -> NDArray[np.intp]:
        """(num_envs,): index into the bodies."""

    @property
    def limb_mask(self) -> NDArray[np.bool_]:
        """(num_envs, limbs)."""

    @property
    def action_mask(self) -> NDArray[np.bool_]:
        """(num_envs, action_dim): where there is a motor, actuated or not."""


@dataclass(frozen=True)
class SourcePolicy:
    """The policy of another run, which an algorithm learns from."""

    name: str
    """To speak of it."""
    method: str
    preset: str
    network: Any
    """Config of the method's network, in place of the preset's; None for that."""
    bodies: tuple[Morphology, ...]
    """Those it was trained on."""
    weights: Mapping[str, Tensor]
    """Those that begin with `actor.` and `normalizer.`, at least."""


@dataclass(frozen=True)
class Setup:
    """What a learner is made for, beside its config."""

    bodies: tuple[Morphology, ...]
    method: str
    preset: str
    network: Any
    """Config of the method's network, in place of the preset's; None for that."""
    layout: EnvLayout
    seed: int
    device: str
    steps: int
    """Transitions that the training is to collect in all."""
    minutes: float | None = None
    """Minutes after which the training stops, if the steps are not done before."""
    folder: Path | None = None
    """Where storage outlives the process; None to keep it in memory."""
    slack: int = 0
    """Transitions, of all bodies together, that may be stored while an older checkpoint is still
    kept: what a checkpoint refers to is not overwritten by so many."""
    sources: tuple[SourcePolicy, ...] = ()
    """What the config's `sources` names, in that order."""


@dataclass(frozen=True)
class Step:
    """A step of all environments."""

    obs: Array
    """(num_envs, width): what was acted on."""
    actions: Array
    """(num_envs, action_dim)."""
    rewards: NDArray[np.float64]
    """(num_envs,)."""
    next_obs: Array
    """(num_envs, width): what is acted on next, of a new episode where one is done."""
    final_obs: Array
    """(num_envs, width): the same, but the true last observation where one is done."""
    terminated: NDArray[np.bool_]
    """(num_envs,): the body fell."""
    done: NDArray[np.bool_]
    """(num_envs,): the episode ended, by a fall or by its time limit."""
    extras: Mapping[str, Array] = field(default_factory=dict)
    """What else `Learner.act` gave with the actions, (num_envs, ...) each."""


class Learner(ABC):
    """Acts, stores, updates and saves."""

    name: ClassVar[str]
    """What `--algorithm` calls it and its options begin with."""
    Config: ClassVar[type]
    """Frozen dataclass of its settings."""
    metrics: tuple[str, ...]
    """Names of what updates report."""
    updates: int
    """Gradient steps so far."""

    @abstractmethod
    def __init__(self, config: Any, setup: Setup) -> None: ...

    @abstractmethod
    def describe(self) -> str:
        """What it will need, in a few words."""

    @abstractmethod
    def act(self, obs: Array) -> tuple[Array, Mapping[str, Array]]:
        """Actions to explore with, (num_envs, action_dim), and extras that `store` needs."""

    @abstractmethod
    def store(self, step: Step) -> None:
        """Store a step of all environments."""

    @property
    def pending(self) -> bool:
        """Whether updates are due that must be made before the next step."""
        return False

    @property
    def can_checkpoint(self) -> bool:
        """Whether `state_dict` can be called now."""
        return True

    @abstractmethod
    def update(self, report: Report, clock: Clock, should_stop: Callable[[], bool]) -> None:
        """Make the updates that are due; where `should_stop()`, those that can wait stay due."""

    def flush(self) -> None:  # noqa: B027 (not every storage needs it)
        """Bring to the disk what `state_dict` refers to."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """The networks' weights, copied to the CPU, and what they stand on, by name.

        Those that begin with `actor.`, `std.` or `normalizer.` are the policy: any algorithm can
        start from them.
        """

    @abstractmethod
    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        """Start from weights of another run, at least those of a policy.

        Returns what began anew in a few words, or nothing. ValueError, and nothing changed, if they
        are of another method or size.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """A copy of all else that coming steps and updates depend on: nested dicts and lists of
        tensors, NumPy arrays, numbers and strings. What lies in the storage's files may stay there.
        """

    @abstractmethod
    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Go back to what `weights` and `state_dict` gave, to the bit."""
