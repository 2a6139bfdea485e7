"""The options of `reset`: checked in full before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_KNOWN = ("yaw", "target", "qpos", "qvel")


@dataclass(frozen=True, slots=True)
class Start:
    """How episodes start; None leaves it to chance. Each has a row per copy."""

    yaw: Array | None = None
    """(copies,) radians about the vertical, noise added."""
    target: Array | None = None
    """(copies, 2) metres in the world."""
    qpos: Array | None = None
    """(copies, nq): start exactly there."""
    qvel: Array | None = None
    """(copies, nv): zero where only `qpos` is given."""


RANDOM_START = Start()


def parse_options(
    options: Mapping[str, Any] | None, copies: int, nq: int | None, nv: int | None
) -> Start:
    """Check the options of a reset and give each a row per copy.

    A value may be one for all copies or one for each. `nq` and `nv` are None for a mix of
    bodies, whose states have no common length.
    """
    if not options:
        return RANDOM_START
    for key in options:
        if key not in _KNOWN:
            raise ValueError(f"unknown reset option {key!r}; known are {', '.join(_KNOWN)}")
    given = {key: options[key] for key in _KNOWN if options.get(key) is not None}
    if "qvel" in given and "qpos" not in given:
        raise ValueError("reset option 'qvel' goes with 'qpos'; give both")
    if "yaw" in given and "qpos" in given:
        raise ValueError("reset options 'yaw' and 'qpos' both set the orientation; give one")
    if "qpos" in given and (nq is None or nv is None):
        raise ValueError(
            "reset option 'qpos' needs copies of one body; bodies of a mix differ in length"
        )

    yaw = _rows(given, "yaw", copies, ())
    target = _rows(given, "target", copies, (2,))
    qpos = qvel = None
    if nq is not None and nv is not None and "qpos" in given:
        qpos = _rows(given, "qpos", copies, (nq,))
        qvel = _rows(given, "qvel", copies, (nv,))
        assert qpos is not None
        norm = np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
        if (norm < 1e-6).any():
            raise ValueError("reset option 'qpos': the quaternion qpos[3:7] must not be zero")
        qpos[:, 3:7] = np.where(np.abs(norm - 1) > 1e-9, qpos[:, 3:7] / norm, qpos[:, 3:7])
        if qvel is None:
            qvel = np.zeros((copies, nv))
    if target is not None:
        # A start within the noise of the origin counts as on it.
        torso = np.zeros((copies, 2)) if qpos is None else qpos[:, :2]
        reach = 1e-6 if qpos is not None else 0.15
        gap = np.hypot(*(target - torso).T)
        if (gap < reach).any():
            raise ValueError(
                f"reset option 'target': copy {int(np.argmin(gap))} would start on its target; "
                "put the target away from the torso"
            )
    return Start(yaw, target, qpos, qvel)


def _rows(
    given: Mapping[str, ArrayLike], key: str, copies: int, shape: tuple[int, ...]
) -> Array | None:
    """An option as a finite array (copies, *shape)."""
    if key not in given:
        return None
    try:
        value = np.asarray(given[key], np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"reset option {key!r} must be numbers, not {given[key]!r}") from None
    if value.shape not in (shape, (copies, *shape)):
        each = f" or {(copies, *shape)}" if copies > 1 else ""
        raise ValueError(f"reset option {key!r} must have shape {shape}{each}, not {value.shape}")
    if not np.isfinite(value).all():
        raise ValueError(f"reset option {key!r} must be finite")
    return np.array(np.broadcast_to(value, (copies, *shape)))
