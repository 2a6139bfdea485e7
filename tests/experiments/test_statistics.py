"""Statistics against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sgrl.experiments.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean_and_error,
    normalize,
    performance_profile,
    probability_of_improvement,
)


def test_mean_and_standard_error() -> None:
    # Deviations -2, 0, 2: variance 8/2 = 4, error 2/sqrt(3).
    mean, error = mean_and_error([1.0, 3.0, 5.0])
    assert mean == 3.0
    assert error == pytest.approx(2 / math.sqrt(3))
    mean, error = mean_and_error([7.0])
    assert mean == 7.0
    assert math.isnan(error)


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        # Twelve values: the middle six are 5, 6, 6, 7, 7, 8.
        ([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6], 6.5),
        # Nine: the middle five are 5 to 13, of which 5 and 13 count three quarters.
        ([1, 3, 5, 7, 9, 11, 13, 15, 17], 9.0),
        # Three: weights 1/4, 1, 1/4 of 1.5.
        ([0, 3, 30], (0.25 * 0 + 3 + 0.25 * 30) / 1.5),
        ([2, 4], 3.0),
        ([5], 5.0),
    ],
)
def test_the_interquartile_mean(values: list[float], middle: float) -> None:
    assert interquartile_mean(values) == pytest.approx(middle)
    assert interquartile_mean(np.array(values)[:, None]) == pytest.approx(middle)


def test_one_outlier_does_not_move_the_interquartile_mean() -> None:
    assert interquartile_mean([1, 2, 3, 4]) == interquartile_mean([1, 2, 3, 4000]) == 2.5


def test_the_interval_of_two_seeds_is_that_of_all_draws() -> None:
    """Means of two draws of 0 and 1 are 0, 1/2 and 1, an extreme one with a chance of 1/4."""
    assert bootstrap_interval([[0.0], [1.0]]) == (0.0, 1.0)


def test_the_interval_of_many_values_is_near_the_normal_one() -> None:
    """The interquartile mean of normal values varies as 1.19 σ²/n, which theory gives."""
    values = np.random.default_rng(1).normal(size=(400, 1))
    low, high = bootstrap_interval(values)
    half = 1.96 * math.sqrt(1.19 / 400)
    assert high - low == pytest.approx(2 * half, rel=0.15)
    assert low < interquartile_mean(values) < high


def test_draws_stay_within_a_body() -> None:
    """Both seeds agree on each body, so that nothing varies when bodies are the strata."""
    assert bootstrap_interval([[0.0, 10.0], [0.0, 10.0]]) == (5.0, 5.0)


def test_the_interval_is_reproducible_and_unknown_for_one_seed() -> None:
    values = np.random.default_rng(0).normal(size=(5, 3))
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert all(map(math.isnan, bootstrap_interval([[1.0, 2.0]])))


def test_the_performance_profile() -> None:
    profile = performance_profile([[0.0, 0.5], [0.5, 1.0]], [-1.0, 0.0, 0.25, 0.5, 1.0])
    assert profile.tolist() == [1.0, 0.75, 0.75, 0.25, 0.0]


def test_the_probability_of_improvement() -> None:
    # On the first body 2 of 4 pairs are won and 1 is a tie, on the second all are lost.
    first, second = [[1.0, 0.0], [3.0, 0.0]], [[1.0, 9.0], [2.0, 9.0]]
    assert probability_of_improvement(first, second) == pytest.approx((2.5 / 4 + 0) / 2)
    assert probability_of_improvement(second, first) == pytest.approx(1 - 2.5 / 8)
    with pytest.raises(ValueError, match="same bodies"):
        probability_of_improvement([[1.0]], [[1.0, 2.0]])


def test_normalised_scores_go_from_the_worst_run_to_the_best() -> None:
    one, other = normalize([[[0.0, 5.0], [50.0, 5.0]], [[100.0, 5.0]]])
    assert one.tolist() == [[0.0, 0.5], [0.5, 0.5]]
    assert other.tolist() == [[1.0, 0.5]]


def test_no_values_and_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        interquartile_mean([])
    with pytest.raises(ValueError, match="finite"):
        mean_and_error([1.0, math.nan])
    with pytest.raises(ValueError, match="seeds, bodies"):
        bootstrap_interval([1.0, 2.0])
