"""Observations without what is constant or follows from the rest, and the way back.

Of a limb's 41 numbers gravity, the limits and the type never change, the target is the same for
all limbs, and scaled angles follow from angles. What is left is about half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.observation import (
    ANGLES,
    AXES,
    FEATURES,
    HEIGHT,
    POSITION,
    SCALED_ANGLES,
    TARGET,
    VELOCITIES,
    angle_scale,
    constant_part,
    mirrored,
)
from sgrl.morphology import Morphology, mirror_of


@dataclass(frozen=True, eq=False)
class Restoration:
    """How a flat observation is made of columns: `columns[sources] * factors + offsets`."""

    body: Morphology
    """Whose observation that is."""
    sources: NDArray[np.intp]
    """(limbs * 41,)."""
    factors: NDArray[np.float32]
    """(limbs * 41,), 0 where nothing varies."""
    offsets: NDArray[np.float32]
    """(limbs * 41,)."""


@lru_cache(maxsize=1024)
def varying_columns(body: Morphology) -> NDArray[np.intp]:
    """(columns,): indices of the numbers of a flat observation that must be kept."""
    kept = np.zeros((body.num_limbs, FEATURES), np.bool_)
    kept[1:, POSITION] = True
    kept[:, VELOCITIES] = True
    kept[:, AXES] = np.repeat(body.hinge_mask, 3, axis=1)
    kept[:, ANGLES] = body.hinge_mask
    kept[:, HEIGHT] = True
    kept[0, TARGET.start : TARGET.stop - 1] = True  # it is horizontal
    columns = np.flatnonzero(kept)
    columns.flags.writeable = False
    return columns


@lru_cache(maxsize=1024)
def restoration(body: Morphology) -> Restoration:
    """How a body's observation is made of its `varying_columns`."""
    columns = varying_columns(body)
    sources = np.zeros((body.num_limbs, FEATURES), np.intp)
    factors = np.zeros((body.num_limbs, FEATURES))
    sources.flat[columns], factors.flat[columns] = np.arange(len(columns)), 1.0
    sources[:, TARGET], factors[:, TARGET] = sources[0, TARGET], factors[0, TARGET]
    offsets = constant_part(body).astype(np.float64)
    sources[:, SCALED_ANGLES] = sources[:, ANGLES]
    factors[:, SCALED_ANGLES], offsets[:, SCALED_ANGLES] = angle_scale(body)
    return _restoration(body, sources, factors, offsets)


@lru_cache(maxsize=1024)
def mirrored_restoration(body: Morphology) -> Restoration:
    """How the observation of a body's mirror image is made of the body's `varying_columns`."""
    mirror, own = mirror_of(body), restoration(body)
    sources = own.sources.reshape(-1, FEATURES)[mirror.sources]
    flat: NDArray[np.float64] = own.offsets.astype(np.float64)
    offsets = mirrored(flat, mirror)  # type: ignore[arg-type]
    factors = mirrored(flat + own.factors, mirror) - offsets  # type: ignore[arg-type]
    return _restoration(mirror.body, sources, factors, offsets)


def _restoration(
    body: Morphology, sources: NDArray[np.intp], *numbers: NDArray[np.floating]
) -> Restoration:
    factors, offsets = (array.reshape(-1).astype(np.float32) for array in numbers)
    return Restoration(body, sources.reshape(-1), factors, offsets)
