"""Statistics of a few runs, as Agarwal et al. (2021) recommend them for so few.

Scores are arrays (seeds, bodies): one number, a mean over episodes, for each trained run on
each body. Bodies are the strata of the bootstrap: seeds are drawn anew within each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

RESAMPLES = 2_000
"""Samples that a bootstrap draws."""
CONFIDENCE = 0.95


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Mean of independent values (n,), and its standard error: NaN for a single one."""
    array = _numbers(values).ravel()
    if len(array) < 2:
        return float(array.mean()), math.nan
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(len(array)))


def interquartile_mean(scores: ArrayLike) -> float:
    """Mean of the middle half of all scores; a score on the border counts in part."""
    return float(_middle_mean(_numbers(scores).ravel()))


def _middle_mean(values: Array) -> Array:
    """Interquartile means (...,) of values (..., n)."""
    number = values.shape[-1]
    # Value i of n, sorted, stands for the quantiles from i/n to (i+1)/n.
    edges = np.clip(np.arange(number + 1) / number, 0.25, 0.75)
    middle: Array = 2.0 * (np.sort(values, axis=-1) @ np.diff(edges))
    return middle


def bootstrap_interval(
    scores: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """95% percentile interval of the interquartile mean of scores (seeds, bodies), stratified
    by body.

    NaN with a single seed, from which nothing can be drawn anew.
    """
    array = _matrix(scores)
    seeds, bodies = array.shape
    if seeds < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(seed).integers(seeds, size=(resamples, seeds, bodies))
    again = np.take_along_axis(array[None], drawn, axis=1)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(_middle_mean(again.reshape(resamples, -1)), [tail, 1.0 - tail])
    return float(low), float(high)


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Array:
    """Share of runs (seeds, bodies) with a score above each threshold, (thresholds,)."""
    above = _numbers(scores).ravel() > np.asarray(thresholds, np.float64)[:, None]
    share: Array = above.mean(axis=1)
    return share


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> float:
    """How likely a run of the first method beats one of the second on a body drawn at random.

    Both are (seeds, bodies), with the same bodies; a tie counts half.
    """
    one, other = _matrix(first), _matrix(second)
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"both need the same bodies, not {one.shape[1]} and {other.shape[1]}")
    difference = one[:, None] - other[None]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def normalize(groups: Sequence[ArrayLike]) -> list[Array]:
    """Scores (seeds, bodies) of several methods, body by body from 0, the worst run of any
    method, to 1, the best: so that bodies with large returns count no more than others.

    Where all runs are equal on a body, all get 0.5.
    """
    arrays = [_matrix(group) for group in groups]
    together = np.concatenate(arrays)
    low, high = together.min(axis=0), together.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    return [np.where(high > low, (array - low) / span, 0.5) for array in arrays]


def _numbers(values: ArrayLike) -> Array:
    array = np.asarray(values, np.float64)
    if not array.size:
        raise ValueError("a statistic needs at least one value")
    if not np.isfinite(array).all():
        raise ValueError("a statistic needs finite values")
    return array


def _matrix(scores: ArrayLike) -> Array:
    array = _numbers(scores)
    if array.ndim != 2:
        raise ValueError(f"scores are (seeds, bodies), not {array.shape}")
    return array
