"""Whether physics here is the physics that numbers were measured with.

MuJoCo's next version, or another build of it, may step the same body to another place. The digest
is a hash of where 50 steps take each of the 29 bodies, rounded so that the last bits, in which
processors differ, do not count. Cards of policies and results of evaluations record it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sgrl.morphology.body import PHYSICS_STEPS, Morphology
from sgrl.morphology.compile import compile_model
from sgrl.morphology.table import body_names, get_body

STEPS = 50
DECIMALS = 3
"""Digits of metres and radians that count. In 50 steps 1e-13 grows to at most 1e-6."""
KNOWN = {"4.0.0": "decfd3983b0b36dd"}
"""The digest of each version of MuJoCo that was tried."""


def position_after(body: Morphology, offset: float = 0.0) -> NDArray[np.float64]:
    """Where a body is, (nq,), after `STEPS` steps under fixed actions from a tilted start.

    `offset`, radians, is added to every angle at the start.
    """
    model = compile_model(body)
    data = mujoco.MjData(model)
    hinge = np.arange(model.nu)
    # Tilted, since a foot that is exactly flat touches with edges that rounding decides.
    data.qpos[7:] += 0.1 * np.sin(1.3 * hinge + 1.0) + offset
    data.qpos[3:7] = np.array((0.9, 0.1, 0.2, 0.3)) / np.sqrt(0.95)
    for step in range(STEPS):
        data.ctrl[:] = np.sin(0.7 * hinge + 0.3 * step)
        mujoco.mj_step(model, data, nstep=PHYSICS_STEPS)
    position: NDArray[np.float64] = data.qpos.copy()
    return position


def digest_of(positions: Iterable[NDArray[np.float64]]) -> str:
    """A hash of rounded numbers, 16 letters."""
    # Zero added, so that -0.0 is 0.0.
    rounded = [np.round(position, DECIMALS) + 0.0 for position in positions]
    return hashlib.sha256(np.concatenate(rounded).astype("<f8").tobytes()).hexdigest()[:16]


@cache
def physics() -> dict[str, str]:
    """The version of MuJoCo and the digest of its physics, as cards and results record them."""
    digest = digest_of(position_after(get_body(name)) for name in body_names())
    return {"mujoco": mujoco.__version__, "digest": digest}


def physics_warning(recorded: Mapping[str, Any] | None, what: str) -> str | None:
    """One line if physics here is not that of the record, or None.

    `recorded` is what `physics` gave then, of which old records have only the version; `what` is
    what was measured with it. Without a record, physics is held against that of this version.
    """
    here = physics()
    version = (recorded or here).get("mujoco", here["mujoco"])
    expected = (recorded or {}).get("digest", KNOWN.get(version))
    if expected in (None, here["digest"]):
        return None
    return (
        f"physics differs: {what} was measured with MuJoCo {version} (digest {expected}), here is "
        f"{here['mujoco']} ({here['digest']}); returns may differ, too"
    )
