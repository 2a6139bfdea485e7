"""Actions as they come from a policy, checked and clipped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_actions(actions: NDArray[Any]) -> NDArray[np.float64]:
    """Actions (num_envs, action_dim) as float64 within [-1, 1]; NaN and infinity are refused."""
    checked = np.asarray(actions, np.float64)
    # Bounded first, the sum tells by one number whether there is a NaN to look for.
    bounded: NDArray[np.float64] = np.minimum(np.maximum(checked, -1.0), 1.0)
    infinite = np.abs(checked).max(initial=0.0) == np.inf
    if infinite or not math.isfinite(bounded.sum()):
        rows = np.flatnonzero(~np.isfinite(checked).all(axis=1))
        shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise ValueError(
            f"the action of environment {shown} has NaN or infinite values; "
            "nothing was stepped. Check the policy that made it"
        )
    return bounded
