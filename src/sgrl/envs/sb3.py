"""Our vector environment as Stable-Baselines3 takes it; needs `pip install 'sgrl[sb3]'`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from sgrl.envs.vector import LocomotionVectorEnv, Observations

try:
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sgrl.envs.sb3 needs Stable-Baselines3: pip install 'sgrl[sb3]'", name=error.name
    ) from error

Info = dict[str, Any]


class SB3VecEnv(VecEnv):
    """A Stable-Baselines3 `VecEnv` over `sgrl.make_vec`, stepped by one call on native threads.

    `SAC("MlpPolicy", SB3VecEnv(sgrl.make_vec("3d_walker_7_full", 32)))` trains; put
    `VecMonitor` around it for returns of episodes in the log. An info holds what the single
    environment's does; where an episode ended also `terminal_observation` and, as at every
    step, `TimeLimit.truncated`, which says that it only ran out of time. In a mix of bodies
    observations and actions are padded with zeros to the largest body.
    """

    def __init__(self, vector: LocomotionVectorEnv) -> None:
        mode = vector.metadata["autoreset_mode"]
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                "Stable-Baselines3 wants autoreset in the same step; make the vector environment "
                f"without autoreset_mode={mode.value!r}"
            )
        self.vector = vector
        """The vector environment; call its own methods here."""
        self._actions: NDArray[np.float32] | None = None
        observed, acted = vector.single_observation_space, vector.single_action_space
        assert isinstance(observed, spaces.Box)
        assert isinstance(acted, spaces.Box)
        super().__init__(vector.num_envs, observed, acted)

    def reset(self) -> Observations:
        """Start all environments, with what `seed` and `set_options` said before."""
        observations, infos = self.vector.reset(seed=self._seeds, options=self._joined_options())
        self.reset_infos = _by_env(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Take the actions (num_envs, action_dim) of the coming `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Observations, rewards, whether episodes ended, and an info for each environment."""
        assert self._actions is not None, "call step_async() before step_wait()"
        observations, rewards, terminated, truncated, infos = self.vector.step(self._actions)
        done = terminated | truncated
        # The last info of an episode that ended; for the others it is that of this step.
        by_env = _by_env(infos.get("final_info", infos), self.num_envs)
        for info, timed_out in zip(by_env, (truncated & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = timed_out
        rows = np.flatnonzero(done)
        if len(rows):
            starts = {key: infos[key][rows] for key in self.reset_infos[0]}
            for row, start in zip(rows.tolist(), _by_env(starts, len(rows)), strict=True):
                by_env[row]["terminal_observation"] = infos["final_obs"][row]
                self.reset_infos[row] = start
        return observations, rewards.astype(np.float32), done, by_env

    def close(self) -> None:
        """Free the graphics."""
        self.vector.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A frame of each environment; needs `make_vec(..., render_mode="rgb_array")`."""
        return self.vector.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the vector environment, once for each environment asked for."""
        return [getattr(self.vector, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Not possible: see `env_method`."""
        raise NotImplementedError(self._no_objects(f"set {attr_name}"))

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any
    ) -> list[Any]:
        """Not possible: all environments are one object, `vector`."""
        raise NotImplementedError(self._no_objects(f"call {method_name}()"))

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """No environment has a wrapper of its own."""
        return [False for _ in self._get_indices(indices)]

    @staticmethod
    def _no_objects(what: str) -> str:
        return (
            f"can't {what} of single environments: they are stepped as one object, the attribute "
            "`vector` of this one; use its methods"
        )

    def _joined_options(self) -> Info | None:
        """What `set_options` gave for each environment as options of the vector environment."""
        first = self._options[0]
        if any(options.keys() != first.keys() for options in self._options):
            raise ValueError("give each environment the same options, if with other values")
        return {key: np.stack([each[key] for each in self._options]) for key in first} or None


def _by_env(infos: Mapping[str, Any], num_envs: int) -> list[Info]:
    """Infos of a vector environment as one dict for each environment, numbers as Python's."""
    keys = [key for key in infos if not key.startswith("_") and not key.startswith("final_")]
    columns = [infos[key].tolist() if infos[key].ndim == 1 else list(infos[key]) for key in keys]
    if not keys:
        return [{} for _ in range(num_envs)]
    return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
