"""One body as a standard Gymnasium environment, or several such stepped as one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from sgrl.envs.actions import checked_actions
from sgrl.envs.bounds import numbers, shown
from sgrl.envs.disturbances import (
    FACTORS,
    NONE,
    concatenate_states,
    disturb_model,
    fill_levels,
    parse_levels,
)
from sgrl.envs.kinematics import PHYSICS_FIELDS, Array
from sgrl.envs.locomotion import Locomotion
from sgrl.envs.observation import FEATURES
from sgrl.envs.options import Start, parse_options, parse_seeds
from sgrl.envs.rendering import FrameRenderer, Window, check_frame_size
from sgrl.envs.variant import Variant, fit_task
from sgrl.morphology import Morphology, compile_model, get_body
from sgrl.morphology.body import PHYSICS_STEPS
from sgrl.morphology.task import LARGEST, Task

Observation = NDArray[np.float32]
StepTuple = tuple[Observation, float, bool, bool, dict[str, Any]]
"""What `step` gives: observation, reward, terminated, truncated, info."""

_ONLY = np.zeros(1, np.intp)
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
DIVERGENCE_WARNINGS = slice(
    int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1
)
"""MuJoCo's own signs of a simulation that blew up; it resets the state when it sees one."""


class LocomotionEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """Run to a target on the ground. `model` and `data` are the MuJoCo objects.

    The observation is flat, 41 numbers a limb (see `sgrl.envs.observation`); the action has
    one motor for each hinge. It never truncates by itself: `gymnasium.make` and
    `make_env` wrap it in a `TimeLimit`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"]}  # noqa: RUF012 (Gymnasium's)

    def __init__(
        self,
        body: str | Morphology,
        *,
        variant: Variant = "v1",
        yaw: float | None = None,
        task: Task | None = None,
        disturbances: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        """A body by name or value. `yaw` fixes every start; `task` replaces the paper's.

        `disturbances` are levels by name, as in `sgrl.envs.disturbances.LEVELS`.
        """
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"unknown render_mode {render_mode!r}; there are rgb_array, human and None"
            )
        self.body = get_body(body) if isinstance(body, str) else body
        self.task = fit_task(self.body, task, variant, yaw)
        check_frame_size(width, height)
        self.model: mujoco.MjModel = copy.copy(compile_model(self.body))
        self.data = mujoco.MjData(self.model)
        self.render_mode = render_mode
        self._frame_size = (width, height)
        self.metadata = {**self.metadata, "render_fps": round(1 / self.dt)}
        self._levels = parse_levels(disturbances)
        self._factors = NONE[FACTORS]
        self._locomotion, self._row = Locomotion([(self.body, self.task, 1)], self._levels), 0
        self._locomotion.kinematics.connect([self._physics()])
        self._renderer: FrameRenderer | None = None
        self._window: Window | None = None
        self._started = False

        size = self.body.num_limbs * FEATURES
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.body.action_dim,), np.float32)

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return float(self.model.opt.timestep) * PHYSICS_STEPS

    @property
    def target(self) -> NDArray[np.float64]:
        """Where the target is, (2,) metres in the world."""
        target: NDArray[np.float64] = self._locomotion.target[self._row].copy()
        return target

    def _physics(self) -> dict[str, Array]:
        """Live arrays, as `Locomotion.connect` takes them."""
        return {name: getattr(self.data, name)[None] for name in PHYSICS_FIELDS}

    def _episode(self) -> dict[str, NDArray[Any]]:
        """Its own row of what `Locomotion.state_dict` gives."""
        state = self._locomotion.state_dict()
        return {key: value[self._row : self._row + 1] for key, value in state.items()}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode. `options`: yaw, target, qpos, qvel (docs/reference/environments.md)."""
        start = parse_options(options, 1, self.body.action_dim)
        parse_seeds(seed, 1)
        if not (seed is None or isinstance(seed, int | np.integer)):
            raise ValueError(f"a seed is a whole number, not {shown(seed)}")
        seed = None if seed is None else int(seed)
        unseeded = self._np_random is None
        super().reset(seed=seed)
        if seed is not None or unseeded:
            value = self.np_random.integers(2**63) if seed is None else seed
            self._locomotion.streams.seed(_ONLY + self._row, np.array([value], np.uint64))
        self._fit_model(start)
        mujoco.mj_resetData(self.model, self.data)
        self._locomotion.reset(self._row, _ONLY, _repeated(start, self._locomotion.num_envs))
        mujoco.mj_step1(self.model, self.data)
        self._locomotion.kinematics.read(self._row)
        self._started = True
        if self.render_mode == "human":
            self.render()
        info = {key: value[self._row] for key, value in self._locomotion.target_info().items()}
        return self._observation(), info

    def _fit_model(self, start: Start) -> None:
        """Friction and mass of the episode to come; without disturbances the model stays."""
        levels = fill_levels(start.levels, self._levels, _ONLY)[0]
        if (levels[FACTORS] != self._factors).any():
            disturb_model(self.model, compile_model(self.body), levels)
            self._factors = levels[FACTORS]

    def set_target(self, target: ArrayLike) -> Observation:
        """Move the target to (x, y) metres in the middle of an episode; what is observed then."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("call reset() before set_target()")
        xy = numbers("a target", target)
        if xy.shape != (2,) or not (np.abs(xy) < LARGEST).all():
            raise ValueError(
                f"a target is x and y, finite and below {LARGEST:g} m, not {shown(target)}"
            )
        distance = np.hypot(*(xy - self.data.xpos[1, :2]))
        if distance < 1e-6:
            raise ValueError("the torso is on this target; put it where there is a way to go")
        self._locomotion.target[self._row] = xy
        self._locomotion.distance[self._row] = distance
        return self._observation()

    def _observation(self) -> Observation:
        limbs = np.empty((1, self._locomotion.max_limbs, FEATURES), np.float32)
        self._locomotion.observe(limbs, slice(self._row, self._row + 1))
        return limbs[0, : self.body.num_limbs].reshape(-1)

    def step(self, action: NDArray[np.float32]) -> StepTuple:
        """One control step: four physics steps under one action, clipped to [-1, 1]."""
        return step_together((self,), (action,))[0]

    def _checked(self, action: NDArray[np.float32]) -> NDArray[Any]:
        """The action, if there can be a step under it."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        controls = numbers("an action", action)
        if controls.shape != self.action_space.shape:
            raise ValueError(
                f"{self.body.name} takes an action of shape {self.action_space.shape}, "
                f"not {controls.shape}"
            )
        return controls

    def _step_physics(self, controls: Array) -> bool:
        """Under clipped actions (action_dim,), and what padding follows; whether it blew up."""
        self.data.ctrl[:] = controls[: self.body.action_dim]
        mujoco.mj_step(self.model, self.data, nstep=PHYSICS_STEPS)
        mujoco.mj_step1(self.model, self.data)  # positions and velocities of the new state
        return bool(self.data.warning.number[DIVERGENCE_WARNINGS].any())

    def render(self) -> NDArray[np.uint8] | None:
        """A frame (height, width, 3), or nothing when a window shows it."""
        if self.render_mode == "human":
            if self._window is None:
                self._window = Window(self.model, self.data, self.dt)
            self._window.show(self.data, self.target)
            return None
        if self.render_mode is None:
            gymnasium.logger.warn(
                'render() without a render mode; make the environment with render_mode="rgb_array"'
            )
            return None
        if self._renderer is None:
            self._renderer = FrameRenderer(self.model, *self._frame_size)
        return self._renderer.frame(self.data, self.target)

    def close(self) -> None:
        """Free windows and graphics; the environment can still be stepped."""
        for view in (self._renderer, self._window):
            if view is not None:
                view.close()
        self._renderer = self._window = None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        physics = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, physics, _STATE)
        state["data"] = physics
        state["warnings"] = self.data.warning.number.copy()
        state["_locomotion"], state["_row"] = self._episode(), 0
        state["_renderer"] = state["_window"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        physics, episode = state.pop("data"), state.pop("_locomotion")
        warnings = state.pop("warnings")
        self.__dict__.update(state)
        self.data = mujoco.MjData(self.model)
        mujoco.mj_setState(self.model, self.data, physics, _STATE)
        self._locomotion = Locomotion([(self.body, self.task, 1)], self._levels)
        self._locomotion.kinematics.connect([self._physics()])
        self._locomotion.load_state_dict(episode)
        mujoco.mj_step1(self.model, self.data)
        self.data.warning.number[:] = warnings  # a simulation that blew up stays one
        self._locomotion.kinematics.read(0)


def step_together(
    envs: Sequence[LocomotionEnv],
    actions: Sequence[NDArray[np.float32]],
    map_physics: Callable[..., Iterable[bool]] = map,
) -> list[StepTuple]:
    """One control step of each environment, as by its own `step`: the task of all in one pass.

    `map_physics` is `map`, or one that shares physics out among threads. It is meant for the same
    environments again and again; in between, each can be used by itself.
    """
    checked = [env._checked(action) for env, action in zip(envs, actions, strict=True)]
    locomotion = _joined(envs)
    padded = np.zeros((len(envs), locomotion.max_action_dim))
    for index, action in enumerate(checked):
        padded[index, : len(action)] = action
    clipped = checked_actions(padded)
    before = locomotion.kinematics.heading_and_xy()
    motors, _ = locomotion.motors(clipped)
    diverged = np.array(list(map_physics(LocomotionEnv._step_physics, envs, motors)))
    for row in range(len(envs)):
        locomotion.kinematics.read(row)
    result = locomotion.compute_rewards(clipped, before, diverged)
    limbs = np.empty((len(envs), locomotion.max_limbs, FEATURES), np.float32)
    locomotion.observe(limbs)
    stepped: list[StepTuple] = []
    for row, env in enumerate(envs):
        if env.render_mode == "human":
            env.render()
        observation = limbs[row, : env.body.num_limbs].reshape(-1)
        info = {key: value[row] for key, value in result.info.items()}
        reward, terminated = float(result.reward[row]), bool(result.terminated[row])
        stepped.append((observation, reward, terminated, False, info))
    return stepped


def _joined(envs: Sequence[LocomotionEnv]) -> Locomotion:
    """The task that these environments share, a row for each in their order, and nobody else."""
    shared = envs[0]._locomotion
    if shared.num_envs == len(envs) and all(
        env._locomotion is shared and env._row == row for row, env in enumerate(envs)
    ):
        return shared
    levels = None
    if any(env._levels is not None for env in envs):
        none = NONE[None]
        levels = np.concatenate([none if env._levels is None else env._levels for env in envs])
    joined = Locomotion([(env.body, env.task, 1) for env in envs], levels)
    joined.kinematics.connect([env._physics() for env in envs])
    episodes = [env._episode() for env in envs]
    joined.load_state_dict(concatenate_states(episodes, joined.max_limbs, joined.max_action_dim))
    for row, env in enumerate(envs):
        joined.kinematics.read(row)
        env._locomotion, env._row = joined, row
    return joined


def _repeated(start: Start, num_envs: int) -> Start:
    """A start of one environment as that of all, of which it can be any."""
    values = (start.yaw, start.target, start.qpos, start.qvel, start.levels)
    return Start(
        *(None if v is None else np.broadcast_to(v, (num_envs, *v.shape[1:])) for v in values)
    )
