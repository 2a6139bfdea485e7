"""Names for Gymnasium: `sgrl/<body>-v1` and `-v2`, single and vector."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from sgrl.envs.bounds import LONGEST_EPISODE, whole_number
from sgrl.envs.single import LocomotionEnv
from sgrl.envs.task import MAX_EPISODE_STEPS, Variant
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


def make_env(
    body: str | Morphology,
    *,
    variant: Variant = "v1",
    yaw: float | None = None,
    task: Task | None = None,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    render_mode: str | None = None,
    width: int = 480,
    height: int = 480,
) -> TimeLimit[Any, Any]:
    """An environment of any body, in the table or not, that truncates as `gymnasium.make`'s do."""
    env = LocomotionEnv(
        body,
        variant=variant,
        yaw=yaw,
        task=task,
        render_mode=render_mode,
        width=width,
        height=height,
    )
    return TimeLimit(env, whole_number("max_episode_steps", max_episode_steps, 1, LONGEST_EPISODE))


make_vec = LocomotionVectorEnv
"""A vector environment of one body, several, or a collection."""
