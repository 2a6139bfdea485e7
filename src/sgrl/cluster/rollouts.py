"""Rollouts on Ray: workers that each have some of the environments, and feed one learner.

They are for algorithms that make several steps with the same weights (`rollout_steps`). A worker
keeps nothing that matters. It gets the weights and where its environments stand, and gives back
the steps and where they stand then. So one that dies is replaced and its rollout made again, to
the bit, and a checkpoint holds all there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.learner import Clock, EnvLayout, Learner, Step
from sgrl.cluster.connection import connected
from sgrl.envs.observation import FEATURES
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.plugins import TRUST
from sgrl.training.collector import LocalCollector
from sgrl.training.learners import make_learner
from sgrl.training.metrics import Stopwatch
from sgrl.training.settings import TrainSettings

MAX_LOSSES = 3
"""Times that a worker may die over one rollout."""


class Explorer(Protocol):
    """A learner whose exploration comes from one generator, so that workers can draw like it."""

    acting: np.random.Generator
    """Draws normal noise for all environments, a row for each, at every step."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        """See `Learner.load_weights`."""


@dataclass(frozen=True)
class Standing:
    """Where the environments of a worker stand, between two rollouts."""

    env: dict[str, Any]
    """State of the collector."""
    noise: dict[str, Any]
    """State of what draws their actions."""


class SharedNoise(np.random.Generator):
    """Draws for all environments and gives those of some rows.

    So an environment gets the same actions whoever has it, and the number of workers is no matter.
    """

    def __init__(self, source: np.random.Generator, rows: NDArray[np.intp], num_envs: int) -> None:
        super().__init__(source.bit_generator)
        self._rows, self._num_envs = rows, num_envs

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw for all environments: `size` begins with the number of the rows that are given."""
        drawn = super().standard_normal((self._num_envs, *size[1:]), dtype)
        return drawn[self._rows]


class RolloutWorker:
    """Makes rollouts of its share of the environments, in a process of its own on one core."""

    def __init__(
        self,
        settings: TrainSettings,
        rows: NDArray[np.intp],
        num_envs: int,
        trust: Sequence[str] = (),
    ) -> None:
        """`settings` have the environments of this worker, which are `rows` of all `num_envs`; the
        modules that may be imported for them are `trust`."""
        TRUST.add(trust)
        torch.set_num_threads(1)
        self.settings = settings
        self.collector = LocalCollector(settings)
        self.learner = make_learner(settings, self.collector.layout, None)
        self.explorer = cast(Explorer, self.learner)
        self.explorer.acting = SharedNoise(self.explorer.acting, rows, num_envs)

    def process(self) -> int:
        """Its number, on its node."""
        return os.getpid()

    def start(self, seeds: Sequence[int]) -> Standing:
        """Begin the episodes."""
        self.collector.start(seeds)
        return self._standing()

    def collect(
        self, weights: Mapping[str, Tensor], standing: Standing
    ) -> tuple[list[Step], Standing]:
        """A rollout of a policy from where the environments stand, and where they stand then."""
        self.learner.load_weights(weights)
        self.explorer.acting.bit_generator.state = standing.noise
        self.collector.load_state_dict(standing.env)
        clock, count = Stopwatch(), rollout_steps(self.settings)
        steps = [self.collector.step(self.learner, clock) for _ in range(count)]
        return steps, self._standing()

    def _standing(self) -> Standing:
        noise = dict(self.explorer.acting.bit_generator.state)
        return Standing(self.collector.state_dict(), noise)


def rollout_steps(settings: TrainSettings) -> int:
    """Steps of every environment that are made with the same weights."""
    steps = settings.algorithm_config().rollout_steps
    assert steps is not None, "resolve the settings first"
    return steps


@dataclass(frozen=True)
class _Layout:
    """Of environments that are elsewhere."""

    num_envs: int
    body_index: NDArray[np.intp]
    limb_mask: NDArray[np.bool_]
    action_mask: NDArray[np.bool_]


def _layout(settings: TrainSettings, envs_per_body: int) -> _Layout:
    one = LocomotionVectorEnv(settings.morphologies(), 1, threads=1)
    return _Layout(
        one.num_envs * envs_per_body,
        np.repeat(one.body_index, envs_per_body),
        np.repeat(one.limb_mask, envs_per_body, axis=0),
        np.repeat(one.action_mask, envs_per_body, axis=0),
    )


class RayCollector:
    """Has workers on Ray make a whole rollout at a time, under the weights of its start."""

    def __init__(self, settings: TrainSettings, log: Callable[[str], None]) -> None:
        """`log` hears of workers that died."""
        assert settings.envs_per_body is not None, "resolve the settings first"
        self._settings, self._log = settings, log
        layout = _layout(settings, settings.envs_per_body)
        self.layout: EnvLayout = layout
        shares = np.array_split(np.arange(settings.envs_per_body), settings.rollout_workers)
        firsts = settings.envs_per_body * np.arange(len(settings.bodies))
        self._rows = [(firsts[:, None] + share).ravel() for share in shares]
        """Of each worker among those of all environments, in the order of its own."""
        self._shares = [len(share) for share in shares]
        numbers = layout.limb_mask.shape[1] * FEATURES + 2 * layout.action_mask.shape[1]
        self._bytes = 4 * numbers * layout.num_envs * rollout_steps(settings)
        """Of a rollout, about."""
        self._open = ExitStack()
        self._ray: Any = None
        self._workers: list[Any] = []
        self._standings: list[Standing] = []
        self._steps: Iterator[Step] = iter(())

    def start(self, seed: int) -> None:
        """Reset all environments, each with a seed of its own that follows from this one."""
        self._connect()
        seeds = [[seed + int(row) for row in rows] for rows in self._rows]
        self._standings = self._ask(lambda worker, index: worker.start.remote(seeds[index]))

    def step(self, learner: Learner, clock: Clock) -> Step:
        """The next step of a rollout; the workers make another when it is over."""
        step = next(self._steps, None)
        if step is None:
            weights = self._ray.put(learner.weights())
            answers = self._ask(
                lambda worker, index: worker.collect.remote(weights, self._standings[index])
            )
            rollouts, standings = zip(*answers, strict=True)
            self._standings = list(standings)
            self._steps = (self._join(parts) for parts in zip(*rollouts, strict=True))
            step = next(self._steps)
            clock.lap("sim")
        return step

    def _join(self, parts: Sequence[Step]) -> Step:
        """One step of all environments, of those of each worker."""
        arrays = [one.name for one in fields(Step) if one.name != "extras"]
        joined = {name: self._whole([getattr(part, name) for part in parts]) for name in arrays}
        extras = {
            name: self._whole([part.extras[name] for part in parts]) for name in parts[0].extras
        }
        return Step(**joined, extras=extras)

    def _whole(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        whole = np.empty((self.layout.num_envs, *parts[0].shape[1:]), parts[0].dtype)
        for rows, values in zip(self._rows, parts, strict=True):
            whole[rows] = values
        return whole

    def state_dict(self) -> dict[str, Any]:
        """Where environments and noise are at the end of the latest rollout."""
        return {
            "envs": [standing.env for standing in self._standings],
            "noise": [standing.noise for standing in self._standings],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a `state_dict`."""
        self._connect()
        self._standings = [
            Standing(env, noise) for env, noise in zip(state["envs"], state["noise"], strict=True)
        ]

    def close(self) -> None:
        """Let the workers end."""
        self._workers = []  # those that nobody refers to end
        self._steps, self._standings = iter(()), []  # they lie in Ray's memory
        self._open.close()

    def _connect(self) -> None:
        """Connect and start the workers, unless they are there."""
        if self._workers:
            return
        count = len(self._shares)
        self._ray = self._open.enter_context(
            connected(
                self._settings.cluster,
                cores=count,
                store=4 * self._bytes,
                why="--rollout-workers",
            )
        )
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if cores < count:
            raise ValueError(
                f"{count} rollout workers need a core each, and the Ray cluster has {cores}"
            )
        self._workers = [self._make_worker(index, cores=1) for index in range(count)]

    def _make_worker(self, index: int, cores: int) -> Any:
        own = replace(self._settings, envs_per_body=self._shares[index], threads=1, device="cpu")
        remote = self._ray.remote(RolloutWorker)
        return remote.options(num_cpus=cores, scheduling_strategy="SPREAD").remote(
            own, self._rows[index], self.layout.num_envs, TRUST.modules()
        )

    def _ask(self, call: Callable[[Any, int], Any]) -> list[Any]:
        """What all workers answer; one that dies over it is replaced and asked again."""
        lost = (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError)
        pending = [call(worker, index) for index, worker in enumerate(self._workers)]
        answers: list[Any] = []
        for index, answer in enumerate(pending):
            losses = 0
            while len(answers) == index:
                try:
                    answers.append(self._ray.get(answer))
                except lost as error:
                    losses += 1
                    hopeless = getattr(error, "actor_init_failed", False)
                    if hopeless or losses == MAX_LOSSES:
                        reason = str(error).strip().splitlines()[-1]
                        raise ConnectionError(
                            f"rollout worker {index} cannot be kept alive: {reason}"
                        ) from None
                    self._log(f"rollout worker {index} died; another one takes its place")
                    # Where a node is lost there may be no core to spare: then it shares one.
                    self._workers[index] = self._make_worker(index, cores=0)
                    answer = call(self._workers[index], index)
        return answers
