"""What a vector environment steps: physics on native threads, the task in arrays."""

from __future__ import annotations

import copy
import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sgrl.envs.disturbances import FACTORS, NONE, disturb_batch
from sgrl.envs.kinematics import PHYSICS_FIELDS, Flags, Rows
from sgrl.envs.locomotion import Locomotion, StepResult
from sgrl.envs.observation import FEATURES
from sgrl.envs.options import RANDOM_START, Start
from sgrl.envs.single import DIVERGENCE_WARNINGS
from sgrl.morphology import Morphology, compile_model
from sgrl.morphology.body import PHYSICS_STEPS
from sgrl.morphology.task import Task

try:
    from mujoco.batch import Batch, SimulationError
except ModuleNotFoundError as error:
    raise ImportError(
        f"sgrl needs mujoco.batch, which MuJoCo {mujoco.__version__} does not have: "
        "pip install 'mujoco>=4.0,<5'"
    ) from error

Observations = NDArray[np.float32]

_VELOCITY_STAGE = int(mujoco.mjtStage.mjSTAGE_VEL)


_STEPPERS: weakref.WeakSet[Stepper] = weakref.WeakSet()
"""All there are, for a forked child to find."""


@dataclass(slots=True)
class VectorStep:
    """What a step gave, a row per environment."""

    result: StepResult
    truncated: Flags
    ended: Rows
    """Environments whose episode ended and that have begun another in the same step."""
    final: Observations | None
    """Last observations of the `ended`, (ended, limbs, 41)."""
    waited: Flags | None
    """Environments that did nothing but begin an episode, where that takes a step of its own."""


class Stepper:
    """Steps all environments, and starts those anew whose episode has ended."""

    def __init__(
        self,
        bodies: Sequence[tuple[Morphology, Task, int]],
        *,
        threads: int,
        max_episode_steps: int | None,
        resets_next_step: bool = False,
        levels: NDArray[np.float64] | None = None,
    ) -> None:
        """`bodies` lists (body, task, num_envs); `threads` are native ones; `levels`
        (num_envs, 6) those of disturbances.

        `resets_next_step`: whether the step after the last of an episode begins the next one and
        does nothing else, rather than the last step itself.
        """
        self.locomotion = Locomotion(bodies, levels)
        self.episode_steps = np.zeros(self.locomotion.num_envs, np.int64)
        self._max_steps = np.inf if max_episode_steps is None else max_episode_steps
        self._ended = np.zeros(self.locomotion.num_envs, np.bool_) if resets_next_step else None
        self._threads = threads
        self._make_batches()
        _STEPPERS.add(self)

    def _make_batches(self) -> None:
        """The simulations, at rest, and their threads."""
        self._lost_threads = False
        self._factors = np.ones((self.locomotion.num_envs, len(FACTORS)))
        self.batches = [
            Batch(
                copy.copy(compile_model(part.body)),
                part.num_envs,
                self._threads,
                _keeps_data(part.body),
            )
            for part in self.locomotion.parts
        ]
        self.locomotion.kinematics.connect(
            [{name: batch.bind(name) for name in PHYSICS_FIELDS} for batch in self.batches]
        )
        self._controls = [batch.bind("ctrl") for batch in self.batches]
        self._rest_states = [batch.state[0].copy() for batch in self.batches]
        self._warnings = [batch.warning[:, DIVERGENCE_WARNINGS, 1].copy() for batch in self.batches]

    def after_fork(self) -> None:
        """Note, in a forked child, that batches with threads are lost: a child has no threads.

        Calling or freeing such a batch would wait for its threads for ever.
        """
        for batch in self.batches:
            if batch.nthread > 1:
                self._lost_threads = True
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(batch))  # never freed

    def _find_threads(self) -> None:
        """In a forked child, go on with batches and threads of its own from the same state."""
        if self._lost_threads:
            state = self.state_dict()
            self._make_batches()
            limbs = self.locomotion.max_limbs
            self.load_state_dict(
                state, np.empty((self.locomotion.num_envs, limbs, FEATURES), np.float32)
            )

    def reset(self, start: Start, out: Observations) -> None:
        """Start all environments and write their observations, (num_envs, limbs, 41)."""
        self._find_threads()
        self._reset(np.arange(self.locomotion.num_envs), start)
        if self._ended is not None:
            self._ended[:] = False
        self.locomotion.observe(out)

    def step(self, actions: NDArray[np.float64], out: Observations) -> VectorStep:
        """One control step under clipped actions (num_envs, action_dim), with autoreset."""
        self._find_threads()
        locomotion, waited = self.locomotion, None
        if self._ended is not None and self._ended.any():
            waited = self._ended.copy()
            self._reset(np.flatnonzero(waited), RANDOM_START)
        before = locomotion.kinematics.heading_and_xy()
        motors, pushed = locomotion.motors(actions, waited)
        for index, local in self._by_body(pushed) if len(pushed) else ():
            self.batches[index].forward(local, stage=_VELOCITY_STAGE)
        diverged = self._step_physics(motors, waited)
        result = locomotion.compute_rewards(actions, before, diverged, waited)
        locomotion.observe(out)
        self.episode_steps += 1 if waited is None else ~waited
        truncated = self.episode_steps >= self._max_steps
        if self._ended is not None:
            self._ended[:] = result.terminated | truncated
            return VectorStep(result, truncated, np.zeros(0, np.intp), None, waited)
        ended = np.flatnonzero(result.terminated | truncated)
        final = None
        if len(ended):
            final = out[ended]
            self._reset(ended, RANDOM_START)
            fresh = np.empty_like(final)
            locomotion.observe(fresh, ended)
            out[ended] = fresh
        return VectorStep(result, truncated, ended, final, None)

    def _step_physics(self, actions: NDArray[np.float64], waited: Flags | None) -> Flags:
        """Step all batches but those that `waited`; says which simulations blew up."""
        failed = np.zeros(self.locomotion.num_envs, np.bool_)
        for index, (part, batch) in enumerate(
            zip(self.locomotion.parts, self.batches, strict=True)
        ):
            self._controls[index][:] = actions[part.rows, : part.body.action_dim]
            stepped = None if waited is None else np.flatnonzero(~waited[part.rows])
            try:
                batch.step(stepped, nstep=PHYSICS_STEPS, stage=_VELOCITY_STAGE)
            except SimulationError as error:
                failed[part.start + error.ids] = True
            news = batch.warning[:, DIVERGENCE_WARNINGS, 1] != self._warnings[index]
            if news.any():
                failed[part.rows] |= news.any(axis=1)
                self._warnings[index] = batch.warning[:, DIVERGENCE_WARNINGS, 1].copy()
            self.locomotion.kinematics.read(index)
        return failed

    def _reset(self, rows: Rows, start: Start) -> None:
        """Start new episodes of these environments."""
        for index, local in self._by_body(rows):
            batch = self.batches[index]
            batch.state[local] = self._rest_states[index]
            self.locomotion.reset(index, local, start)
            self._fit_models(index, local)
            batch.forward(local, stage=_VELOCITY_STAGE)
            self.locomotion.kinematics.read(index)
        self.episode_steps[rows] = 0

    def _fit_models(self, index: int, local: Rows) -> None:
        """Friction and mass of these rows of a body, where they are not what they were."""
        disturbances, rows = (
            self.locomotion.disturbances,
            self.locomotion.parts[index].start + local,
        )
        levels = NONE[None] if disturbances is None else disturbances.levels[rows]
        changed = (levels[:, FACTORS] != self._factors[rows]).any(axis=1)
        if changed.any():
            self._factors[rows] = levels[:, FACTORS]
            disturb_batch(self.batches[index], local[changed], self._factors[rows[changed]])

    def _by_body(self, rows: Rows) -> list[tuple[int, Rows]]:
        """The bodies among these environments, each with the indices among its own."""
        if len(self.batches) == 1:
            return [(0, rows)]
        owner = self.locomotion.body_index[rows]
        parts = self.locomotion.parts
        return [(int(i), rows[owner == i] - parts[i].start) for i in np.unique(owner)]

    def get_data(self, row: int) -> mujoco.MjData:
        """A copy of an environment's data, with positions and velocities computed."""
        self._find_threads()
        index = int(self.locomotion.body_index[row])
        batch = self.batches[index]
        data = batch.get_data(row - self.locomotion.parts[index].start)
        mujoco.mj_step1(batch.model, data)
        return data

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything that the coming steps depend on."""
        return {
            **({} if self._ended is None else {"ended": self._ended.copy()}),
            **self.locomotion.state_dict(),
            "episode_steps": self.episode_steps.copy(),
            "physics": np.concatenate([batch.state.ravel() for batch in self.batches]),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]], out: Observations) -> None:
        """Go back to what `state_dict` gave, and write the observations there."""
        self._find_threads()
        self.locomotion.expect(state)
        for key, present in self.state_dict().items():
            shape = np.shape(state[key]) if key in state else None
            if shape != present.shape:
                wrong = f"must have shape {present.shape}, not {shape}"
                raise ValueError(
                    "this state was taken from other bodies or another number of environments: "
                    f"{key!r} {wrong if key in state else 'is missing'}"
                )
        ends = np.cumsum([batch.state.size for batch in self.batches])[:-1]
        self.locomotion.load_state_dict(state)
        parts = zip(self.batches, np.split(state["physics"], ends), strict=True)
        for index, (batch, physics) in enumerate(parts):
            self._fit_models(index, np.arange(batch.nsim))
            batch.state[:] = physics.reshape(batch.state.shape)
            batch.forward(stage=_VELOCITY_STAGE)
            self.locomotion.kinematics.read(index)
        self.episode_steps[:] = state["episode_steps"]
        if self._ended is not None:
            self._ended[:] = state["ended"]
        self.locomotion.observe(out)


def _after_fork() -> None:
    for stepper in _STEPPERS:
        stepper.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def _keeps_data(body: Morphology) -> bool:
    """Whether its batch should keep an MjData per environment.

    Then a step goes on from the stages computed for the last observation instead of computing
    them again, but streams all that data through the cache. Measured, this pays for Euler, where
    those stages are a fifth of a step, and not for RK4, where they are one in seventeen.
    """
    return body.physics.integrator == "Euler"
