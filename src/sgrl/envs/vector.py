"""Many copies of one body, or of a mix of bodies, stepped by one call on native threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from mujoco.batch import Batch, SimulationError
from numpy.typing import NDArray

from sgrl.envs.actions import checked_actions
from sgrl.envs.locomotion import PHYSICS_FIELDS, Flags, Locomotion, Part, Rows
from sgrl.envs.observation import FEATURES
from sgrl.envs.options import RANDOM_START, Start, parse_options
from sgrl.envs.rendering import FrameRenderer
from sgrl.envs.single import DIVERGENCE_WARNINGS
from sgrl.envs.task import MAX_EPISODE_STEPS, PHYSICS_STEPS, Task, Variant, task_for
from sgrl.morphology import Morphology, compile_model, resolve_bodies

Observations = NDArray[np.float32]
Infos = dict[str, Any]

_VELOCITY_STAGE = int(mujoco.mjtStage.mjSTAGE_VEL)
_WARNINGS = slice(DIVERGENCE_WARNINGS.start, DIVERGENCE_WARNINGS.stop)


class LocomotionVectorEnv(VectorEnv[Observations, NDArray[np.float32], NDArray[Any]]):
    """`copies` of each of `bodies`, in that order, as one Gymnasium vector environment.

    Autoreset is SAME_STEP: when a copy's episode ends, `step` returns the first observation of
    its next one, and the last observation and info of the old one are rows of
    `infos["final_obs"]` and `infos["final_info"]` where `infos["_final_obs"]` is True.

    In a mix, observations and actions are padded with zeros at the end to the largest body;
    `limb_mask` (copies, limbs), `action_mask` (copies, motors) and `body_index` (copies,) say
    what is real, `split` and `join_actions` go to and from arrays per body without padding.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's)
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        bodies: str | Morphology | Iterable[str | Morphology],
        copies: int = 1,
        *,
        variant: Variant = "v1",
        yaw: float | None = None,
        task: Task | None = None,
        max_episode_steps: int | None = MAX_EPISODE_STEPS,
        threads: int = 0,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        """`bodies`: names, collections (their training bodies), values. `threads=0`: all cores."""
        if isinstance(bodies, str | Morphology):
            bodies = [bodies]
        resolved = resolve_bodies(bodies)
        if not resolved or copies < 1:
            raise ValueError("a vector environment needs at least one body and one copy of it")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"unknown render_mode {render_mode!r}; there are rgb_array and None")
        self._locomotion = Locomotion(
            [(body, task or task_for(body, variant, yaw), copies) for body in resolved]
        )
        self._settings: dict[str, Any] = {
            "bodies": resolved,
            "copies": copies,
            "variant": variant,
            "yaw": yaw,
            "task": task,
            "max_episode_steps": max_episode_steps,
            "threads": threads,
            "render_mode": render_mode,
            "width": width,
            "height": height,
        }
        self.num_envs = self._locomotion.copies
        self.render_mode = render_mode
        self.max_episode_steps = max_episode_steps
        self.limb_mask: Flags = self._locomotion.limb_mask
        self.action_mask: Flags = np.repeat(self.limb_mask[:, 1:], 3, axis=1)
        self.body_index: Rows = self._locomotion.body_index
        self._is_mix = len(self.parts) > 1

        # Persistent: a batch that keeps its MjData goes on from the stages it has computed.
        self.batches = [
            Batch(compile_model(part.body), part.copies, threads, persistent=True)
            for part in self.parts
        ]
        self._locomotion.connect(
            [{name: batch.bind(name) for name in PHYSICS_FIELDS} for batch in self.batches]
        )
        self._controls = [batch.bind("ctrl") for batch in self.batches]
        self._rest_states = [batch.state[0].copy() for batch in self.batches]
        self._warnings = np.zeros((self.num_envs, len(DIVERGENCE_WARNINGS)), np.int32)
        self._episode_steps = np.zeros(self.num_envs, np.int64)
        self._last_observations: Observations | None = None
        self._seeded = False
        self._everyone: Flags = np.ones(self.num_envs, np.bool_)
        self._renderers: list[FrameRenderer | None] = [None] * len(self.parts)

        limbs = self._locomotion.max_limbs
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (limbs * FEATURES,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (3 * (limbs - 1),), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def parts(self) -> list[Part]:
        """The bodies with their rows."""
        return self._locomotion.parts

    def split(self, padded: NDArray[Any]) -> list[NDArray[Any]]:
        """Observations (copies, ...) as one array per body, (its copies, its limbs * 41)."""
        return [padded[part.rows, : part.body.num_limbs * FEATURES] for part in self.parts]

    def join_actions(self, actions: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Actions per body, (its copies, its motors), as one padded array for `step`."""
        joined = np.zeros(self.action_mask.shape, np.float32)
        for part, own in zip(self.parts, actions, strict=True):
            joined[part.rows, : part.body.num_actions] = own
        return joined

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, Infos]:
        """Start all copies anew; copy i is seeded with `seed + i`, or with `seed[i]`.

        Options are those of the single environment, one value for all copies or one for each;
        they hold for this start, not for those that follow by themselves.
        """
        model = None if self._is_mix else self.batches[0].model
        start = parse_options(
            options, self.num_envs, model and int(model.nq), model and int(model.nv)
        )
        self._seed(seed)
        self._begin(np.arange(self.num_envs), start)
        self._last_observations = self._locomotion.observe()
        return self._last_observations.copy(), self._masked(
            self._locomotion.whereabouts(), self._everyone
        )

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[Observations, NDArray[np.float64], Flags, Flags, Infos]:
        """One control step of every copy, with autoreset in the same step."""
        if self._last_observations is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(
                f"{self.num_envs} copies take actions of shape {self.action_space.shape}, "
                f"not {actions.shape}"
            )
        if self._is_mix:
            actions = np.where(self.action_mask, actions, 0.0)
        clipped = checked_actions(actions)
        before = self._locomotion.heading_and_place()
        warned = self._step_physics(clipped)
        outcome = self._locomotion.advance(clipped, before, warned)
        observations = self._locomotion.observe()
        if outcome.diverged.any():
            observations[outcome.diverged] = self._last_observations[outcome.diverged]

        self._episode_steps += 1
        terminated = outcome.terminated
        truncated = np.zeros(self.num_envs, np.bool_)
        if self.max_episode_steps is not None:
            truncated = self._episode_steps >= self.max_episode_steps
        infos = self._masked(outcome.info, self._everyone)
        done = terminated | truncated
        if done.any():
            rows = np.flatnonzero(done)
            final = observations.copy()
            final[~done] = 0.0
            self._begin(rows, RANDOM_START)
            observations[rows] = self._locomotion.observe(rows)
            infos |= self._masked(self._locomotion.whereabouts(), self._everyone)
            infos |= {"final_obs": final, "_final_obs": done}
            infos |= {"final_info": self._masked(outcome.info, done), "_final_info": done}
        self._last_observations = observations
        return observations.copy(), outcome.reward, terminated, truncated, infos

    def _step_physics(self, clipped: NDArray[np.float64]) -> Flags:
        """Step all batches; says which copies' simulations blew up."""
        failed = np.zeros(self.num_envs, np.bool_)
        warnings = np.empty_like(self._warnings)
        for index, (part, batch) in enumerate(zip(self.parts, self.batches, strict=True)):
            self._controls[index][:] = clipped[part.rows, : part.body.num_actions]
            try:
                batch.step(nstep=PHYSICS_STEPS, stage=_VELOCITY_STAGE)
            except SimulationError as error:
                failed[part.start + error.ids] = True
            warnings[part.rows] = batch.warning[:, _WARNINGS, 1]
            self._locomotion.read(index)
        failed |= (warnings != self._warnings).any(axis=1)
        self._warnings = warnings
        return failed

    def _begin(self, rows: Rows, start: Start) -> None:
        """Start new episodes of these copies."""
        owner = self.body_index[rows]
        for index in np.unique(owner) if self._is_mix else (0,):
            batch = self.batches[index]
            local = rows[owner == index] - self.parts[index].start
            batch.state[local] = self._rest_states[index]
            self._locomotion.begin(index, local, start)
            batch.forward(local, stage=_VELOCITY_STAGE)
            self._locomotion.read(index)
        self._locomotion.place_targets(rows, start)
        self._episode_steps[rows] = 0

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        rows = np.arange(self.num_envs)
        if seed is None:
            if not self._seeded:
                drawn = self.np_random.integers(2**63, size=self.num_envs)
                self._locomotion.streams.seed(rows, drawn.astype(np.uint64))
        elif isinstance(seed, int | np.integer):
            VectorEnv.reset(self, seed=int(seed))
            self._locomotion.streams.seed(rows, np.uint64(seed) + rows.astype(np.uint64))
        else:
            if len(seed) != self.num_envs:
                raise ValueError(f"{self.num_envs} copies need as many seeds, not {len(seed)}")
            given = np.array([i for i, value in enumerate(seed) if value is not None], np.intp)
            self._locomotion.streams.seed(given, np.array([seed[i] for i in given], np.uint64))
        self._seeded = True

    @staticmethod
    def _masked(values: dict[str, NDArray[Any]], mask: Flags) -> Infos:
        """Gymnasium's form of vector infos: `_key` says for which copies `key` holds."""
        return {**values, **{f"_{key}": mask for key in values}}

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Everything that the coming steps depend on, as arrays; `set_state` goes back to it."""
        return {
            **self._locomotion.get_state(),
            "episode_steps": self._episode_steps.copy(),
            "physics": np.concatenate([batch.state.ravel() for batch in self.batches]),
            "seeded": np.array(self._seeded),
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue, to the bit, from where `get_state` was taken."""
        sizes = [batch.state.size for batch in self.batches]
        if state["physics"].size != sum(sizes) or len(state["distance"]) != self.num_envs:
            raise ValueError("this state was taken from other bodies or another number of copies")
        for index, physics in enumerate(np.split(state["physics"], np.cumsum(sizes)[:-1])):
            batch = self.batches[index]
            batch.state[:] = physics.reshape(batch.state.shape)
            batch.forward(stage=_VELOCITY_STAGE)
            self._locomotion.read(index)
        self._locomotion.set_state(state)
        self._episode_steps[:] = state["episode_steps"]
        self._seeded = bool(state["seeded"])
        self._last_observations = self._locomotion.observe()

    def __reduce__(self) -> tuple[Any, ...]:
        state = None if self._last_observations is None else self.get_state()
        return _restore, (self._settings, state)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A frame (height, width, 3) of each copy."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() without a render mode; make the environment with render_mode="rgb_array"'
            )
            return None
        frames = []
        for index, (part, batch) in enumerate(zip(self.parts, self.batches, strict=True)):
            renderer = self._renderers[index]
            if renderer is None:
                size = (self._settings["width"], self._settings["height"])
                renderer = self._renderers[index] = FrameRenderer(batch.model, *size)
            for copy in range(part.copies):
                target = self._locomotion.target[part.start + copy]
                frames.append(renderer.frame(batch.get_data(copy), target))
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the graphics."""
        for renderer in self._renderers:
            if renderer is not None:
                renderer.close()
        self._renderers = [None] * len(self.parts)


def _restore(
    settings: dict[str, Any], state: dict[str, NDArray[Any]] | None
) -> LocomotionVectorEnv:
    env = LocomotionVectorEnv(**settings)
    if state is not None:
        env.set_state(state)
    return env
