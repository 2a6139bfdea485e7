"""Actions as they come from a policy, checked and clipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_actions(actions: NDArray[Any]) -> NDArray[np.float64]:
    """Actions (copies, motors) as float64 within [-1, 1]; NaN and infinity are refused."""
    checked = np.asarray(actions, np.float64)
    finite = np.isfinite(checked)
    if not finite.all():
        copies = np.flatnonzero(~finite.all(axis=1))
        shown = ", ".join(map(str, copies[:5])) + (", ..." if len(copies) > 5 else "")
        raise ValueError(
            f"the action of copy {shown} has NaN or infinite values; "
            "nothing was stepped. Check the policy that made it"
        )
    return np.clip(checked, -1.0, 1.0)
