"""What copies lived through since the last update: the storage of an on-policy learner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """A step of all copies."""

    observations: Array
    """(copies, width): what was acted on."""
    actions: Array
    """(copies, motors)."""
    rewards: NDArray[np.float64]
    """(copies,)."""
    following: Array
    """(copies, width): what is acted on next, of a new episode where one is done."""
    last: Array
    """(copies, width): the same, but the true last observation where one is done."""
    terminated: NDArray[np.bool_]
    """(copies,): the body fell."""
    done: NDArray[np.bool_]
    """(copies,): the episode ended, by a fall or by its time limit."""
    means: Array | None = None
    """(copies, motors): of the distribution that the actions were drawn from, if a learner needs
    it."""


@dataclass(frozen=True)
class LastObservations:
    """Where time limits cut episodes off, and what was observed then."""

    steps: NDArray[np.int64]
    """(n,): the step of the rollout."""
    copies: NDArray[np.int64]
    """(n,)."""
    observations: Array
    """(n, width)."""


class Rollout:
    """Some steps of all copies, one after the other."""

    def __init__(self, steps: int, copies: int, width: int, motors: int) -> None:
        self.observations = np.zeros((steps + 1, copies, width), np.float32)
        """What was acted on, and at the end what comes next."""
        self.actions = np.zeros((steps, copies, motors), np.float32)
        """As drawn, before the environment bounds them."""
        self.means = np.zeros((steps, copies, motors), np.float32)
        """Of the distribution that they were drawn from."""
        self.rewards = np.zeros((steps, copies))
        self.terminated = np.zeros((steps, copies), np.bool_)
        self.done = np.zeros((steps, copies), np.bool_)
        self.size = 0
        """Steps stored."""
        self._last: list[tuple[int, NDArray[np.int64], Array]] = []

    @property
    def full(self) -> bool:
        return self.size == len(self.actions)

    def add(self, step: Step) -> None:
        """A step that knows the means its actions were drawn around."""
        assert step.means is not None, "of a step in which an on-policy learner acted"
        t = self.size
        self.observations[t] = step.observations
        self.observations[t + 1] = step.following
        self.actions[t] = step.actions
        self.means[t] = step.means
        self.rewards[t] = step.rewards
        self.terminated[t] = step.terminated
        self.done[t] = step.done
        cut = np.flatnonzero(step.done & ~step.terminated)
        if cut.size:
            self._last.append((t, cut, step.last[cut]))
        self.size += 1

    def last_observations(self) -> LastObservations:
        """Of all episodes that time limits cut off."""
        steps = [np.full(len(copies), t) for t, copies, _ in self._last]
        width = self.observations.shape[-1]
        return LastObservations(
            np.concatenate([np.zeros(0, np.int64), *steps]),
            np.concatenate([np.zeros(0, np.int64), *(copies for _, copies, _ in self._last)]),
            np.concatenate([np.zeros((0, width), np.float32), *(seen for *_, seen in self._last)]),
        )

    def clear(self) -> None:
        """Forget all steps."""
        self.size = 0
        self._last.clear()


def generalised_advantages(
    rewards: NDArray[np.float64],
    values: NDArray[np.float64],
    next_values: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    done: NDArray[np.bool_],
    discount: NDArray[np.float64],
    trace: float,
) -> NDArray[np.float64]:
    """How much better than expected each step was (Schulman et al. 2016), (steps, copies).

    `next_values` are those of the true next observations: where a time limit cut an episode
    off, of its last one. `discount` is (copies,); `trace` is the paper's lambda.
    """
    errors = rewards + discount * next_values * ~terminated - values
    advantages = np.empty_like(errors)
    ahead = np.zeros(errors.shape[1])
    for t in reversed(range(len(errors))):
        ahead = errors[t] + discount * trace * ahead * ~done[t]
        advantages[t] = ahead
    return advantages
