"""Learners without a training around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.algorithms.config import Plan
from sgrl.algorithms.learner import Setup
from sgrl.algorithms.registry import algorithm_named
from sgrl.envs.observation import FEATURES
from sgrl.morphology import Morphology


@dataclass(frozen=True)
class Layout:
    """Environments of some bodies."""

    body_index: NDArray[np.intp]
    limb_mask: NDArray[np.bool_]
    action_mask: NDArray[np.bool_]

    @property
    def num_envs(self) -> int:
        return len(self.body_index)

    @property
    def width(self) -> int:
        return self.limb_mask.shape[1] * FEATURES


def layout_for(bodies: Sequence[Morphology], envs: int | Sequence[int] = 1) -> Layout:
    """So many environments of each body, or one of each body that is listed."""
    listed = np.repeat(np.arange(len(bodies)), envs) if isinstance(envs, int) else np.array(envs)

    def mask(counts: list[int]) -> NDArray[np.bool_]:
        return np.arange(max(counts)) < np.array(counts)[listed][:, None]

    return Layout(
        listed,
        mask([body.num_limbs for body in bodies]),
        mask([body.action_dim for body in bodies]),
    )


def make_learner(
    algorithm: str,
    bodies: Sequence[Morphology],
    *,
    method: str = "set",
    network: Any = None,
    envs: int | Sequence[int] = 1,
    seed: int = 0,
    folder: Any = None,
    **config: Any,
) -> Any:
    """A learner with `config`; its weights come from torch's global generator."""
    row = algorithm_named(algorithm)
    layout = layout_for(bodies, envs)
    plan = Plan(tuple(bodies), method, False, 1_000, layout.num_envs)
    settings = row.config_class()(**config).resolved(plan)
    setup = Setup(tuple(bodies), method, "fast", network, layout, seed, "cpu", 1_000, folder=folder)
    return row.learner_class()(settings, setup)


class NoClock:
    """Books nothing."""

    def lap(self, activity: str) -> None: ...
