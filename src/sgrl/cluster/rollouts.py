"""PPO's rollouts on Ray: workers that each have some of the copies, and feed one learner.

A worker keeps nothing that matters. It gets the weights and where its copies stand, and gives
back the steps and where they stand then. So one that dies is replaced and its rollout made
again, to the bit, and a checkpoint holds all there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.rollout import Step
from sgrl.cluster.connection import connected
from sgrl.envs.observation import FEATURES
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.plugins import TRUST
from sgrl.training.copies import Layout, LocalCopies
from sgrl.training.learner import Learner
from sgrl.training.metrics import Clock
from sgrl.training.on_policy import OnPolicyLearner
from sgrl.training.settings import TrainSettings

MAX_LOSSES = 3
"""Times that a worker may die over one rollout."""


@dataclass(frozen=True)
class Standing:
    """Where the copies of a worker stand, between two rollouts."""

    env: dict[str, NDArray[Any]]
    """State of the environment."""
    noise: dict[str, Any]
    """State of what draws their actions."""


class SharedNoise(np.random.Generator):
    """Draws for all copies and gives those of some rows.

    So a copy tries the same actions whoever has it, and the number of workers is no matter.
    """

    def __init__(self, source: np.random.Generator, rows: NDArray[np.intp], copies: int) -> None:
        super().__init__(source.bit_generator)
        self._rows, self._copies = rows, copies

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """For a `size` whose first number is that of the rows."""
        drawn = super().standard_normal((self._copies, *size[1:]), dtype)
        return drawn[self._rows]


class RolloutWorker:
    """Makes rollouts of its share of the copies, in a process of its own on one core."""

    def __init__(
        self,
        settings: TrainSettings,
        rows: NDArray[np.intp],
        copies: int,
        trust: Sequence[str] = (),
    ) -> None:
        """`settings` have the copies of this worker, which are `rows` of all `copies`; the modules
        that may be imported for them are `trust`."""
        TRUST.add(trust)
        torch.set_num_threads(1)
        self.settings = settings
        self.copies = LocalCopies(settings)
        self.learner = OnPolicyLearner(settings, self.copies.layout)
        self.learner.acting = SharedNoise(self.learner.acting, rows, copies)

    def process(self) -> int:
        """Its number, on its node."""
        return os.getpid()

    def start(self, seeds: Sequence[int]) -> Standing:
        """Begin the episodes."""
        self.copies.start(seeds)
        return self._standing()

    def collect(
        self, weights: Mapping[str, Tensor], standing: Standing
    ) -> tuple[list[Step], Standing]:
        """A rollout of a policy from where the copies stand, and where they stand then."""
        self.learner.load(weights, None)
        self.learner.acting.bit_generator.state = standing.noise
        self.copies.set_state(standing.env, {})
        clock = Clock()
        steps = [self.copies.step(self.learner, clock) for _ in range(self.settings.ppo.rollout)]
        return steps, self._standing()

    def _standing(self) -> Standing:
        env, _ = self.copies.get_state()
        return Standing(env, dict(self.learner.acting.bit_generator.state))


@dataclass(frozen=True)
class _Layout:
    """Of copies that are elsewhere."""

    num_envs: int
    body_index: NDArray[np.intp]
    limb_mask: NDArray[np.bool_]
    action_mask: NDArray[np.bool_]


def _layout(settings: TrainSettings, copies: int) -> _Layout:
    one = LocomotionVectorEnv(settings.morphologies(), 1, threads=1)
    return _Layout(
        one.num_envs * copies,
        np.repeat(one.body_index, copies),
        np.repeat(one.limb_mask, copies, axis=0),
        np.repeat(one.action_mask, copies, axis=0),
    )


class RemoteCopies:
    """Copies that workers on Ray step, a whole rollout at a time under the weights of its start."""

    def __init__(self, settings: TrainSettings, log: Callable[[str], None]) -> None:
        """`log` hears of workers that died."""
        assert settings.copies is not None, "resolve the settings first"
        self._settings, self._log = settings, log
        layout = _layout(settings, settings.copies)
        self.layout: Layout = layout
        shares = np.array_split(np.arange(settings.copies), settings.rollout_workers)
        firsts = settings.copies * np.arange(len(settings.bodies))
        self._rows = [(firsts[:, None] + share).ravel() for share in shares]
        """Of each worker among those of all copies, in the order of its own."""
        self._shares = [len(share) for share in shares]
        numbers = layout.limb_mask.shape[1] * FEATURES + 2 * layout.action_mask.shape[1]
        self._bytes = 4 * numbers * layout.num_envs * settings.ppo.rollout
        """Of a rollout, about."""
        self._open = ExitStack()
        self._ray: Any = None
        self._workers: list[Any] = []
        self._standings: list[Standing] = []
        self._steps: Iterator[Step] = iter(())

    def start(self, seed: int) -> None:
        self._connect()
        seeds = [[seed + int(row) for row in rows] for rows in self._rows]
        self._standings = self._ask(lambda worker, index: worker.start.remote(seeds[index]))

    def step(self, learner: Learner, clock: Clock) -> Step:
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
        """One step of all copies, of those of each worker."""
        joined = {}
        for one in fields(Step):
            own = [getattr(part, one.name) for part in parts]
            whole = np.empty((self.layout.num_envs, *own[0].shape[1:]), own[0].dtype)
            for rows, values in zip(self._rows, own, strict=True):
                whole[rows] = values
            joined[one.name] = whole
        return Step(**joined)

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            f"{index}.{name}": array
            for index, standing in enumerate(self._standings)
            for name, array in standing.env.items()
        }
        return arrays, {"noise": [standing.noise for standing in self._standings]}

    def set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._connect()
        envs: list[dict[str, NDArray[Any]]] = [{} for _ in self._shares]
        for name, array in arrays.items():
            index, _, own_name = name.partition(".")
            envs[int(index)][own_name] = array
        self._standings = [
            Standing(env, noise) for env, noise in zip(envs, facts["noise"], strict=True)
        ]

    def close(self) -> None:
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
        own = replace(self._settings, copies=self._shares[index], threads=1, device="cpu")
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
