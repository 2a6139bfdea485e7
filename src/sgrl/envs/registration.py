"""Names for Gymnasium: `sgrl/<body>-v1` and `-v2`, single and vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from sgrl.envs.bounds import LONGEST_EPISODE, whole_number
from sgrl.envs.single import LocomotionEnv
from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import Morphology, body_names
from sgrl.morphology.task import Task

NAMESPACE = "sgrl"
VARIANTS: tuple[Variant, ...] = ("v1", "v2")


def env_id(body: str, variant: Variant = "v1") -> str:
    """The Gymnasium id of one of the 29 bodies."""
    return f"{NAMESPACE}/{body}-{variant}"


def register_envs() -> None:
    """Register all 58; done once, on `import sgrl`."""
    for variant in VARIANTS:
        for name in body_names():
            if env_id(name, variant) not in gymnasium.registry:
                gymnasium.register(
                    id=env_id(name, variant),
                    entry_point="sgrl.envs.single:LocomotionEnv",
                    vector_entry_point="sgrl.envs.registration:make_registered_vec",
                    max_episode_steps=MAX_EPISODE_STEPS,
                    kwargs={"body": name, "variant": variant},
                )
    # v2 is another task, not a newer v1: hide it where Gymnasium looks for newer versions, or
    # every make("...-v1") would warn that v1 is out of date.
    for name in body_names():
        gymnasium.registry[env_id(name, "v2")].version = None


def make_registered_vec(num_envs: int, body: str, **kwargs: Any) -> LocomotionVectorEnv:
    """What `gymnasium.make_vec` calls."""
    return LocomotionVectorEnv(body, num_envs, **kwargs)


class LimitedEnv(TimeLimit[Any, Any]):
    """A `LocomotionEnv` whose episodes are truncated; what else is asked of it, the former answers.

    So `env.body`, `env.target`, `env.set_target(...)`, `env.model` and `env.data` are at hand.
    """

    def __getattr__(self, name: str) -> Any:
        # What Python looks for before there is an environment must not be looked for in it.
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.env, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in dir(self.env) if not n.startswith("_"))})


def make_env(
    body: str | Morphology,
    *,
    variant: Variant = "v1",
    yaw: float | None = None,
    task: Task | None = None,
    disturbances: Mapping[str, float] | None = None,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    render_mode: str | None = None,
    width: int = 480,
    height: int = 480,
) -> LimitedEnv:
    """An environment of any body, in the table or not, that truncates as `gymnasium.make`'s do.

    It has the attributes and methods of `LocomotionEnv`, `set_target` and `body` among them.
    """
    env = LocomotionEnv(
        body,
        variant=variant,
        yaw=yaw,
        task=task,
        disturbances=disturbances,
        render_mode=render_mode,
        width=width,
        height=height,
    )
    return LimitedEnv(env, whole_number("max_episode_steps", max_episode_steps, 1, LONGEST_EPISODE))


make_vec = LocomotionVectorEnv
"""A vector environment of one body, several, or a collection."""
