"""The storage of on-policy algorithms: transitions collected since the last update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgrl.algorithms.learner import Array, Step


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
