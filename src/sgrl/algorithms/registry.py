"""Every algorithm by its name: one table. Names and configs import no torch, learners do."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from sgrl.algorithms.config import AlgorithmConfig
from sgrl.nearest import did_you_mean
from sgrl.plugins import import_named

if TYPE_CHECKING:
    from sgrl.algorithms.learner import Learner


@dataclass(frozen=True)
class Algorithm:
    """A row of the table; the classes are named `module:Class` and imported when asked for."""

    name: str
    """What `--algorithm` calls it, and a run's settings."""
    options: str
    """What its options begin with."""
    config: str
    """A subclass of `AlgorithmConfig`, in a module that imports no torch."""
    learner: str
    """A subclass of `Learner`."""

    def config_class(self) -> type[AlgorithmConfig]:
        """The dataclass of its settings."""
        config: type[AlgorithmConfig] = _load(self.config)
        return config

    def learner_class(self) -> type[Learner]:
        """The class that learns; imports torch."""
        learner: type[Learner] = _load(self.learner)
        return learner


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm("sac", "sac", "sgrl.algorithms.sac_config:SACConfig", "sgrl.algorithms.sac:SAC"),
        Algorithm("td3", "td3", "sgrl.algorithms.td3_config:TD3Config", "sgrl.algorithms.td3:TD3"),
        Algorithm("ppo", "ppo", "sgrl.algorithms.ppo_config:PPOConfig", "sgrl.algorithms.ppo:PPO"),
        Algorithm(
            "distil",
            "distil",
            "sgrl.algorithms.distil_config:DistilConfig",
            "sgrl.algorithms.distil:Distil",
        ),
    )
}
"""The algorithms of the package."""


def algorithm_named(name: str) -> Algorithm:
    """A row of the table, or the one of a class `module:Class`; ValueError if there is none.

    A class in a module that is trusted (see `plugins`) is imported, which runs that module's
    code, and checked: it acts, stores, updates and saves once.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        return _outside(name)
    raise ValueError(
        f"unknown algorithm {name!r}; {did_you_mean(name, ALGORITHMS)}; "
        "one of your own is named module:Class"
    )


@lru_cache(maxsize=64)
def _outside(name: str) -> Algorithm:
    from sgrl.algorithms.check import check_algorithm  # here, because it imports torch

    learner = check_algorithm(import_named(name, "algorithm"), name)
    if learner.name in {row.options for row in ALGORITHMS.values()}:
        raise ValueError(f"{name} can't be used: its name, {learner.name}, is one of sgrl's own")
    config = learner.Config
    return Algorithm(name, learner.name, f"{config.__module__}:{config.__qualname__}", name)


def _load(name: str) -> type:
    module, _, attribute = name.partition(":")
    loaded: type = attrgetter(attribute)(importlib.import_module(module))
    return loaded
