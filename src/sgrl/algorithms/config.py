"""What every algorithm's config has, and what a training asks of it before there is a learner.

Imports no torch: reading settings and printing help need no more than configs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from sgrl.morphology import Morphology
from sgrl.setting import check_bounds, setting

MOST_STEPS = 10**12
"""Bound of whatever counts steps or transitions."""
DEFAULT_ENVS = 32
"""Environments of a body, if there are few bodies, of algorithms that learn from `EqualRows`."""
MOST_DEFAULT_ENVS = 128
"""Environments of all bodies together, but no fewer than `least_envs_per_body` of each."""
C = TypeVar("C", bound="AlgorithmConfig")


@dataclass(frozen=True)
class Plan:
    """The training that a config is for."""

    bodies: tuple[Morphology, ...]
    method: str
    one_body: bool
    """Whether the method's networks are made for one body."""
    steps: int
    """Transitions to collect in all."""
    envs_per_body: int


@dataclass(frozen=True)
class AlgorithmConfig:
    """Settings of an algorithm: a frozen dataclass, each field with a default and its bounds."""

    old_names: ClassVar[Mapping[str, str]] = {}
    """Names that fields had in recorded settings, and those they have now."""
    moved_here: ClassVar[Mapping[str, str]] = {}
    """Fields that recorded settings have beside the config, not in it, and their names now."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def default_steps(self) -> int:
        """Transitions that a training collects if it isn't told."""
        return 1_000_000

    def default_envs_per_body(self, bodies: int) -> int:
        """Environments of each of so many bodies, if a training isn't told."""
        return 4

    def default_eval_every(self, bodies: int) -> int:
        """Steps between evaluations of so many bodies while training; 0 for none."""
        return 0

    @property
    def rollout_steps(self) -> int | None:
        """Steps of every environment between two updates, in which the weights stay as they are.

        None if weights may change at every step. Where there is a number, workers may act for the
        learner with its weights, and it is only asked to store.
        """
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """Runs or policies that it learns from: their policies are copied into the run."""
        return ()

    def with_sources(self: C, names: Sequence[str]) -> C:
        """The same config with other names for its `sources`."""
        return self

    @property
    def learns_images(self) -> bool:
        """Whether it learns from mirror images, and so what the images of its bodies would do."""
        return False

    def resolved(self: C, plan: Plan) -> C:
        """The config with nothing left open; ValueError if it can't be with bodies or method."""
        return self


@dataclass(frozen=True)
class EqualRowsConfig(AlgorithmConfig):
    """Settings of algorithms whose batches always have one shape, so that updates can be compiled:
    see `equal_rows`."""

    least_envs_per_body: ClassVar[int] = 4

    mirror: bool = setting(True, key="mirror")
    """Whether half of the sampled rows are mirror images. The image of an asymmetric body is
    another body: it is learned without being simulated."""
    compile: Literal["auto", "yes", "no"] = setting("auto", key="compile", identifies=False)
    """Whether updates are compiled: if there is a compiler and enough of them, or told by you."""
    products: Literal["auto", "bfloat16", "onednn", "float32"] = setting(
        "auto", key="products", identifies=False
    )
    """How networks multiply: whatever is fastest on this machine, or told by you."""

    @property
    def learns_images(self) -> bool:
        return self.mirror

    def default_envs_per_body(self, bodies: int) -> int:
        return min(DEFAULT_ENVS, max(self.least_envs_per_body, MOST_DEFAULT_ENVS // bodies))
