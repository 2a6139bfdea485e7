"""Many environments of one body, or of a mix of bodies, stepped by one call on native threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sgrl.envs.actions import checked_actions
from sgrl.envs.bounds import (
    MAX_ENVS,
    MAX_THREADS,
    checked_episode_steps,
    numbers,
    shown,
    whole_number,
)
from sgrl.envs.disturbances import parse_levels
from sgrl.envs.kinematics import Flags, Part, Rows
from sgrl.envs.observation import FEATURES
from sgrl.envs.options import parse_options, parse_seeds
from sgrl.envs.rendering import FrameRenderer, check_frame_size
from sgrl.envs.stepper import Stepper
from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant, fit_task
from sgrl.morphology import Collection, Morphology, resolve_bodies
from sgrl.morphology.task import Task

Observations = NDArray[np.float32]
Infos = dict[str, Any]


class LocomotionVectorEnv(VectorEnv[Observations, NDArray[np.float32], NDArray[Any]]):
    """`envs_per_body` of each of `bodies`, in that order, as one Gymnasium vector environment.

    Autoreset is SAME_STEP: when an episode ends, `step` returns the first observation of
    its next one, and the last observation and info of the old one are rows of
    `infos["final_obs"]` and `infos["final_info"]` where `infos["_final_obs"]` is True. With
    `autoreset_mode="NextStep"`, which Gymnasium's vector wrappers want, the old episode's last
    observation is returned and the next step begins another, whatever its action, for no reward.

    In a mix, observations and actions are padded with zeros at the end to the largest body;
    `limb_mask` (num_envs, limbs), `action_mask` (num_envs, action_dim) and `body_index`
    (num_envs,) say
    what is real, `split` and `join_actions` go to and from arrays per body without padding.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's)
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        bodies: str | Morphology | Collection | Iterable[str | Morphology | Collection],
        envs_per_body: int = 1,
        *,
        variant: Variant = "v1",
        yaw: float | None = None,
        task: Task | None = None,
        disturbances: Mapping[str, float] | None = None,
        max_episode_steps: int | None = MAX_EPISODE_STEPS,
        threads: int = 0,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        """`bodies`: names, collections (their training bodies), values. `threads=0`: all cores.

        `disturbances` are levels by name, as in `sgrl.envs.disturbances.LEVELS`.
        """
        if isinstance(bodies, str | Morphology | Collection):
            bodies = [bodies]
        resolved = resolve_bodies(bodies)
        if not resolved:
            raise ValueError("a vector environment needs at least one body")
        each = MAX_ENVS // len(resolved)
        envs_per_body = whole_number("envs_per_body", envs_per_body, 1, each)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"unknown render_mode {shown(render_mode)}; there are rgb_array and None"
            )
        max_episode_steps = checked_episode_steps(max_episode_steps)
        threads = whole_number("threads", threads, 0, MAX_THREADS, " (0: all cores)")
        mode = _checked_mode(autoreset_mode)
        levels = parse_levels(disturbances, envs_per_body * len(resolved))
        check_frame_size(width, height)
        tasks = [fit_task(body, task, variant, yaw) for body in resolved]
        self._settings: dict[str, Any] = {
            "bodies": resolved,
            "envs_per_body": envs_per_body,
            "variant": variant,
            "yaw": yaw,
            "task": task,
            "disturbances": None if disturbances is None else dict(disturbances),
            "max_episode_steps": max_episode_steps,
            "threads": threads,
            "autoreset_mode": mode,
            "render_mode": render_mode,
            "width": width,
            "height": height,
        }
        self.parts = [
            Part(body, task, i * envs_per_body, (i + 1) * envs_per_body)
            for i, (body, task) in enumerate(zip(resolved, tasks, strict=True))
        ]
        """The bodies with their rows."""
        self.num_envs = envs_per_body * len(resolved)
        self.render_mode = render_mode
        self.max_episode_steps = max_episode_steps

        limbs = max(body.num_limbs for body in resolved)
        counts = np.repeat([body.num_limbs for body in resolved], envs_per_body)
        self.limb_mask: Flags = np.arange(limbs) < counts[:, None]
        action_dim = max(body.action_dim for body in resolved)
        action_dims = np.repeat([body.action_dim for body in resolved], envs_per_body)
        self.action_mask: Flags = np.arange(action_dim) < action_dims[:, None]
        self.body_index: Rows = np.repeat(np.arange(len(resolved)), envs_per_body)
        self._everyone: Flags = np.ones(self.num_envs, np.bool_)
        for shared in (self.limb_mask, self.action_mask, self.body_index, self._everyone):
            shared.flags.writeable = False
        self._is_mix = len(resolved) > 1
        self._shape = (self.num_envs, limbs, FEATURES)

        self._stepper = Stepper(
            [(part.body, part.task, part.num_envs) for part in self.parts],
            threads=threads,
            max_episode_steps=max_episode_steps,
            levels=levels,
            resets_next_step=mode == AutoresetMode.NEXT_STEP,
        )
        self._seeded = self._started = False
        self._renderers: list[FrameRenderer | None] = [None] * len(self.parts)

        self.single_observation_space = spaces.Box(-np.inf, np.inf, (limbs * FEATURES,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (action_dim,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        fastest = min(body.dt for body in resolved)
        self.metadata = {
            **self.metadata,
            "render_fps": round(1 / fastest),
            "autoreset_mode": mode,
        }

    def split(self, padded: NDArray[Any]) -> list[NDArray[Any]]:
        """Observations (num_envs, ...) as one array per body, (envs_per_body, its limbs * 41)."""
        expected = (self.num_envs, self.limb_mask.shape[1] * FEATURES)
        shape = numbers("the observations to split", padded).shape
        if shape != expected:
            raise ValueError(f"the observations to split must have shape {expected}, not {shape}")
        padded = np.asarray(padded)
        return [padded[part.rows, : part.body.num_limbs * FEATURES] for part in self.parts]

    def join_actions(self, actions: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Actions per body, (envs_per_body, its action_dim), as one padded array for `step`."""
        if len(actions) != len(self.parts):
            raise ValueError(f"{len(self.parts)} bodies need as many arrays, not {len(actions)}")
        joined = np.zeros(self.action_mask.shape, np.float32)
        for part, action in zip(self.parts, actions, strict=True):
            expected, shape = (part.num_envs, part.body.action_dim), np.shape(action)
            if shape != expected:
                raise ValueError(f"{part.body.name} takes actions {expected}, not {shape}")
            joined[part.rows, : part.body.action_dim] = action
        return joined

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, Infos]:
        """Start all environments anew; environment i is seeded with `seed + i`, or with `seed[i]`.

        Options are those of the single environment, one value for all or one for each;
        they hold for this start, not for those that follow by themselves.
        """
        action_dim = None if self._is_mix else self.parts[0].body.action_dim
        start = parse_options(options, self.num_envs, action_dim)
        seeds = parse_seeds(seed, self.num_envs)
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        locomotion = self._stepper.locomotion
        if not self._seeded:
            drawn = self.np_random.integers(2**63, size=self.num_envs)
            locomotion.streams.seed(np.arange(self.num_envs), drawn.astype(np.uint64))
        locomotion.streams.seed(*seeds)
        self._seeded = self._started = True
        out = np.empty(self._shape, np.float32)
        self._stepper.reset(start, out)
        return out.reshape(self.num_envs, -1), self._masked(
            locomotion.target_info(), self._everyone
        )

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[Observations, NDArray[np.float64], Flags, Flags, Infos]:
        """One control step of every environment, with autoreset."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        controls = numbers("actions", actions)
        if controls.shape != self.action_mask.shape:
            raise ValueError(
                f"{self.num_envs} environments take actions of shape {self.action_mask.shape}, "
                f"not {controls.shape}"
            )
        if self._is_mix:
            controls = np.where(self.action_mask, controls, 0.0)
        clipped = checked_actions(controls)
        out = np.empty(self._shape, np.float32)
        stepped = self._stepper.step(clipped, out)
        result, truncated = stepped.result, stepped.truncated
        if stepped.waited is None:
            infos = self._masked(result.info, self._everyone)
        else:
            infos = self._masked(result.info, ~stepped.waited)
            infos |= self._masked(self._stepper.locomotion.target_info(), self._everyone)
        if stepped.final is not None:
            done = result.terminated | truncated
            final = np.zeros(self._shape, np.float32)
            final[stepped.ended] = stepped.final
            infos |= self._stepper.locomotion.target_info()
            infos |= {"final_obs": final.reshape(self.num_envs, -1), "_final_obs": done}
            infos |= {"final_info": self._masked(result.info, done), "_final_info": done}
        observations = out.reshape(self.num_envs, -1)
        return observations, result.reward, result.terminated, truncated, infos

    @staticmethod
    def _masked(values: dict[str, NDArray[Any]], mask: Flags) -> Infos:
        """Gymnasium's form of vector infos: `_key` says for which environments `key` holds."""
        return {**values, **{f"_{key}": mask for key in values}}

    def get_data(self, row: int) -> mujoco.MjData:
        """Positions and velocities of an environment; changing this data changes nothing."""
        row = whole_number("the row of an environment", row, 0, self.num_envs - 1)
        return self._stepper.get_data(row)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything that the coming steps depend on, in arrays for `load_state_dict`."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("call reset() before state_dict()")
        return {**self._stepper.state_dict(), "bodies": self._body_names()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> Observations:
        """Continue, to the bit, from where `state_dict` was taken; returns the observations."""
        if not np.array_equal(state.get("bodies", ()), self._body_names()):
            raise ValueError(
                "this state was taken from other bodies or another number of environments"
            )
        out = np.empty(self._shape, np.float32)
        self._stepper.load_state_dict(state, out)
        self._seeded = self._started = True
        return out.reshape(self.num_envs, -1)

    def _body_names(self) -> NDArray[np.str_]:
        return np.array([part.body.name for part in self.parts])

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._settings, self.state_dict() if self._started else None)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A frame (height, width, 3) of each environment."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() without a render mode; make the environment with render_mode="rgb_array"'
            )
            return None
        targets = self._stepper.locomotion.target
        frames = []
        for index, part in enumerate(self.parts):
            for row in range(part.start, part.stop):
                data = self.get_data(row)
                renderer = self._renderers[index]
                if renderer is None:
                    size = (self._settings["width"], self._settings["height"])
                    renderer = self._renderers[index] = FrameRenderer(data.model, *size)
                frames.append(renderer.frame(data, targets[row]))
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the graphics."""
        for renderer in self._renderers:
            if renderer is not None:
                renderer.close()
        self._renderers = [None] * len(self.parts)


def _checked_mode(mode: str | AutoresetMode) -> AutoresetMode:
    known = {str(one.value): one for one in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)}
    name = mode.value if isinstance(mode, AutoresetMode) else mode
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"autoreset_mode is one of {', '.join(known)}, not {shown(name)}")
    return known[name]


def _restore(
    settings: dict[str, Any], state: dict[str, NDArray[Any]] | None
) -> LocomotionVectorEnv:
    env = LocomotionVectorEnv(**settings)
    if state is not None:
        env.load_state_dict(state)
    return env
