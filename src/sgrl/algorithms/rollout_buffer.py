"""The storage of on-policy algorithms: transitions collected since the last update.

Mini-batches of them hold every body in its share and, if wanted, mirrored samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.augmentation import MirrorAugmentation, MirroredRows, with_images
from sgrl.algorithms.learner import Array, Step
from sgrl.models.batch import LimbBatch

MIRRORED = ("actions", "means", "actuated")
"""Columns that a mirror changes; rewards and what follows from them stay."""


@dataclass(frozen=True)
class FinalObservations:
    """Where time limits cut episodes off, and what was observed then."""

    steps: NDArray[np.intp]
    """(n,): the step of the rollout."""
    envs: NDArray[np.intp]
    """(n,)."""
    obs: Array
    """(n, width)."""


class RolloutBuffer:
    """Some steps of all environments, one after the other."""

    def __init__(self, steps: int, num_envs: int, width: int, action_dim: int) -> None:
        self.obs = np.zeros((steps + 1, num_envs, width), np.float32)
        """What was acted on, and at the end what comes next."""
        self.actions = np.zeros((steps, num_envs, action_dim), np.float32)
        """What was drawn, before the environment bounds it."""
        self.means = np.zeros((steps, num_envs, action_dim), np.float32)
        """Means of the distributions that the actions were drawn from."""
        self.rewards = np.zeros((steps, num_envs))
        self.terminated = np.zeros((steps, num_envs), np.bool_)
        self.done = np.zeros((steps, num_envs), np.bool_)
        self.size = 0
        """Steps stored."""
        self._final: list[tuple[int, NDArray[np.intp], Array]] = []

    @property
    def full(self) -> bool:
        """Whether all steps are stored."""
        return self.size == len(self.actions)

    def add(self, step: Step) -> None:
        """Store a step; its extras have the `means` that its actions were drawn around."""
        t = self.size
        self.obs[t] = step.obs
        self.obs[t + 1] = step.next_obs
        self.actions[t] = step.actions
        self.means[t] = step.extras["means"]
        self.rewards[t] = step.rewards
        self.terminated[t] = step.terminated
        self.done[t] = step.done
        truncated = np.flatnonzero(step.done & ~step.terminated)
        if truncated.size:
            self._final.append((t, truncated, step.final_obs[truncated]))
        self.size += 1

    def final_observations(self) -> FinalObservations:
        """The last observations of all episodes that time limits cut off."""
        steps = [np.full(len(envs), t) for t, envs, _ in self._final]
        width = self.obs.shape[-1]
        return FinalObservations(
            np.concatenate([np.zeros(0, np.intp), *steps]),
            np.concatenate([np.zeros(0, np.intp), *(envs for _, envs, _ in self._final)]),
            np.concatenate([np.zeros((0, width), np.float32), *(obs for *_, obs in self._final)]),
        )

    def clear(self) -> None:
        """Forget all steps."""
        self.size = 0
        self._final.clear()


def generalized_advantages(
    rewards: NDArray[np.float64],
    values: NDArray[np.float64],
    next_values: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    done: NDArray[np.bool_],
    gamma: NDArray[np.float64],
    gae_lambda: float,
) -> NDArray[np.float64]:
    """How much better than expected each step was (Schulman et al. 2016), (steps, num_envs).

    `next_values` are those of the true next observations: where a time limit cut an episode
    off, of its last one. `gamma` is (num_envs,).
    """
    errors = rewards + gamma * next_values * ~terminated - values
    advantages = np.empty_like(errors)
    ahead = np.zeros(errors.shape[1])
    for t in reversed(range(len(errors))):
        ahead = errors[t] + gamma * gae_lambda * ahead * ~done[t]
        advantages[t] = ahead
    return advantages


@dataclass(frozen=True)
class Batch:
    """Rows of a rollout to learn from."""

    rows: LimbBatch
    actions: Tensor
    """(rows, action_dim)."""
    means: Tensor
    """(rows, action_dim), of the policy that drew them; of mirrored rows their images."""
    log_std: Tensor
    """(3,), of that policy."""
    advantages: Tensor
    """(rows,), normalized."""
    returns: Tensor
    """(rows,), normalized."""
    actuated: Tensor
    """(rows, action_dim): 1 for motors that move something, 0 for others and in the padding."""
    mirrored: MirroredRows | None = None
    """With symmetry augmentation: which rows are images, and of what."""
    first: bool = False
    """Whether it is the first of a rollout: the policy has not changed yet."""


@dataclass(frozen=True)
class Transitions:
    """The collected transitions of a rollout, a step after the other."""

    observed: LimbBatch
    """(transitions + num_envs) rows, with what comes after the last step; then, with symmetry
    augmentation, the images of all but those."""
    columns: Mapping[str, NDArray[np.float32]]
    """(transitions, ...) each, by the names in `Batch`; followed by those of the images."""
    body_index: NDArray[np.intp]
    """(transitions,)."""
    num_envs: int
    log_std: Tensor
    """(3,), of the policy that collected them."""

    def minibatches(
        self,
        batch_size: int,
        n_epochs: int,
        rng: np.random.Generator,
        device: torch.device,
        augmentation: MirrorAugmentation | None = None,
    ) -> Iterator[Batch]:
        """Mini-batches in so many passes; with augmentation half of their rows are images."""
        total = len(self.body_index)
        of_bodies = [
            np.flatnonzero(self.body_index == body) for body in range(self.body_index.max() + 1)
        ]
        count = max(1, round(total / batch_size))
        count = min(count, *map(len, of_bodies))  # every batch has a row of every body
        first = True
        for _ in range(n_epochs):
            # Bodies in the same order and shares in every batch, which so have one layout.
            shares = [np.array_split(rng.permutation(rows), count) for rows in of_bodies]
            for parts in zip(*shares, strict=True):
                mirrored = None
                if augmentation is not None:
                    parts = [with_images(total, part) for part in parts]
                    mirrored = augmentation.find(np.concatenate(parts), self.body_index, device)
                rows = np.concatenate(parts)
                where = np.where(rows < total, rows, rows + self.num_envs)  # among the observed
                chosen = {
                    name: torch.from_numpy(column[rows]).to(device)
                    for name, column in self.columns.items()
                }
                yield Batch(
                    rows=self.observed.select(where),
                    log_std=self.log_std,
                    mirrored=mirrored,
                    first=first,
                    **chosen,
                )
                first = False
