"""Bodies that no method has seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from sgrl.morphology import Morphology, get_body

Shape = Literal["chain", "star", "random"]


def grow_body(num_limbs: int, shape: Shape = "random", seed: int = 0) -> Morphology:
    """A torso with limbs like the walker's shin: in a row, all on the torso, or at random."""
    walker = get_body("3d_walker_7_full")
    shin = walker.limb("right_shin")
    rng = np.random.default_rng(seed)
    limbs = [walker.limbs[0]]
    # From the torso to the newest limb: where the next may hang in the order of the tree.
    path = ["torso"]
    for index in range(1, num_limbs):
        depth = {"chain": len(path), "star": 1, "random": int(rng.integers(1, len(path) + 1))}
        path = path[: depth[shape]]
        limbs.append(replace(shin, name=f"shin_{index}", parent=path[-1]))
        path.append(f"shin_{index}")
    return replace(walker, name=f"{shape}_{num_limbs}", limbs=tuple(limbs))


@pytest.fixture
def grow() -> Callable[..., Morphology]:
    return grow_body
