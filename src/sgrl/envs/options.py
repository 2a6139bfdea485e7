"""The options of `reset`: checked in full before anything changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sgrl.envs.bounds import MAX_SEED, numbers, shown
from sgrl.envs.disturbances import NAMES, check_level
from sgrl.morphology.task import LARGEST

Array = NDArray[np.float64]

_KNOWN = ("yaw", "target", "qpos", "qvel", *NAMES)


@dataclass(frozen=True, slots=True)
class Start:
    """How episodes start; None leaves it to chance. Each has a row per environment."""

    yaw: Array | None = None
    """(num_envs,) radians about the vertical, noise added."""
    target: Array | None = None
    """(num_envs, 2) metres in the world."""
    qpos: Array | None = None
    """(num_envs, nq): start exactly there."""
    qvel: Array | None = None
    """(num_envs, nv): zero where there is only `qpos`."""
    levels: Array | None = None
    """(num_envs, 6): those of the disturbances, NaN where the environment's own level holds."""


RANDOM_START = Start()


def parse_options(
    options: Mapping[str, Any] | None, num_envs: int, action_dim: int | None
) -> Start:
    """Check the options of a reset and give each a row per environment.

    A value may be one for all environments or one for each. `action_dim`, the number of hinges,
    is None for a mix of bodies, whose states have no common length.
    """
    if options is None:
        return RANDOM_START
    if not isinstance(options, Mapping):
        raise ValueError(
            f"options of a reset are values by name, as {{'yaw': 0.0}}, not {shown(options)}"
        )
    for key in options:
        if key not in _KNOWN:
            raise ValueError(f"unknown reset option {shown(key)}; known are {', '.join(_KNOWN)}")
    chosen = {key: options[key] for key in _KNOWN if options.get(key) is not None}
    if "qvel" in chosen and "qpos" not in chosen:
        raise ValueError("reset option 'qvel' goes with 'qpos'; give both")
    if "yaw" in chosen and "qpos" in chosen:
        raise ValueError("reset options 'yaw' and 'qpos' both set the orientation; give one")
    if "qpos" in chosen and action_dim is None:
        raise ValueError(
            "reset option 'qpos' needs environments of one body; bodies of a mix differ in length"
        )

    yaw = _rows(chosen, "yaw", num_envs, ())
    target = _rows(chosen, "target", num_envs, (2,))
    qpos = qvel = None
    if action_dim is not None and "qpos" in chosen:
        qpos = _rows(chosen, "qpos", num_envs, (7 + action_dim,))
        qvel = _rows(chosen, "qvel", num_envs, (6 + action_dim,))
        assert qpos is not None
        norm = np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
        if (norm < 1e-6).any():
            raise ValueError("reset option 'qpos': the quaternion qpos[3:7] must not be zero")
        qpos[:, 3:7] = np.where(np.abs(norm - 1) > 1e-9, qpos[:, 3:7] / norm, qpos[:, 3:7])
        if qvel is None:
            qvel = np.zeros((num_envs, 6 + action_dim))
    if target is not None:
        # A start within the noise of the origin counts as on it.
        torso = np.zeros((num_envs, 2)) if qpos is None else qpos[:, :2]
        reach = 1e-6 if qpos is not None else 0.15
        gap = np.hypot(*(target - torso).T)
        if (gap < reach).any():
            raise ValueError(
                f"reset option 'target': environment {int(np.argmin(gap))} would start on it; "
                "put the target away from the torso"
            )
    return Start(yaw, target, qpos, qvel, _levels(chosen, num_envs))


def _levels(chosen: Mapping[str, ArrayLike], num_envs: int) -> Array | None:
    """The disturbances among the options."""
    if chosen.keys().isdisjoint(NAMES):
        return None
    levels = np.full((num_envs, len(NAMES)), np.nan)
    for column, name in enumerate(NAMES):
        if name in chosen:
            check_level(name, chosen[name])
            levels[:, column] = _rows(chosen, name, num_envs, ())
    return levels


def _rows(
    chosen: Mapping[str, ArrayLike], key: str, num_envs: int, shape: tuple[int, ...]
) -> Array | None:
    """An option as a finite array (num_envs, *shape)."""
    if key not in chosen:
        return None
    value = numbers(f"reset option {key!r}", chosen[key])
    if value.shape not in (shape, (num_envs, *shape)):
        each = f" or {(num_envs, *shape)}" if num_envs > 1 else ""
        raise ValueError(f"reset option {key!r} must have shape {shape}{each}, not {value.shape}")
    if not (np.abs(value) < LARGEST).all():
        raise ValueError(f"reset option {key!r} must be finite and below {LARGEST:g} in size")
    return np.array(np.broadcast_to(value, (num_envs, *shape)))


def parse_seeds(
    seed: int | Sequence[int | None] | None, num_envs: int
) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Which rows are seeded, and with what: row i with `seed + i`, or with `seed[i]`."""
    if seed is None:
        seeds: list[int | None] = [None] * num_envs
    elif isinstance(seed, int | np.integer):
        seeds = [int(seed) + i for i in range(num_envs)]
    elif isinstance(seed, Sequence | np.ndarray) and np.ndim(cast(Any, seed)) == 1:
        seeds = list(seed)
        if len(seeds) != num_envs:
            raise ValueError(f"{num_envs} environments need as many seeds, not {len(seeds)}")
    else:
        raise ValueError(f"a seed is a whole number or one for each environment, not {shown(seed)}")
    for value in seeds:
        whole = value is None or isinstance(value, int | np.integer)
        if not whole or (value is not None and not 0 <= value <= MAX_SEED):
            raise ValueError(f"a seed is a whole number from 0 to 2**63 - 1, not {shown(value)}")
    rows = np.array([i for i, value in enumerate(seeds) if value is not None], np.intp)
    return rows, np.array([value for value in seeds if value is not None], np.uint64)
