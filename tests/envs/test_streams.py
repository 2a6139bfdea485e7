"""Random streams: uniform, independent, and the same for the same seed."""

import numpy as np

from sgrl.envs.streams import Streams, to_normal


def test_numbers_are_uniform_and_uncorrelated():
    streams = Streams(1000)
    rows = np.arange(1000)
    streams.seed(rows, rows.astype(np.uint64))
    numbers = streams.uniform(rows, 200)
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    counts, _ = np.histogram(numbers, 50, (0, 1))
    expected = numbers.size / 50
    # Chi-square with 49 degrees of freedom: beyond 100 only once in 30,000.
    assert ((counts - expected) ** 2 / expected).sum() < 100
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(numbers[:, lag:].ravel(), numbers[:, :-lag].ravel())[0, 1]) < 0.01
        # Neighboring seeds too.
        assert abs(np.corrcoef(numbers[lag:].ravel(), numbers[:-lag].ravel())[0, 1]) < 0.01


def test_normal_numbers():
    streams = Streams(1, longest=100_000)
    row = np.zeros(1, np.intp)
    streams.seed(row, np.array([3], np.uint64))
    pairs = streams.uniform(row, 100_000)
    normal = to_normal(pairs[:, :50_000], pairs[:, 50_000:])
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert abs((np.abs(normal) < 1.96).mean() - 0.95) < 0.005


def test_a_stream_does_not_depend_on_its_neighbors():
    alone, together = Streams(1), Streams(5)
    alone.seed(np.array([0]), np.array([9], np.uint64))
    together.seed(np.arange(5), np.arange(7, 12, dtype=np.uint64))
    together.uniform(np.array([0, 4]), 13)
    first = [alone.uniform(np.array([0]), size) for size in (3, 4)]
    second = [together.uniform(np.array([1, 2]), size)[1:] for size in (3, 4)]
    for mine, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(np.hstack(first), _fresh(9).uniform(np.array([0]), 7))


def _fresh(seed):
    streams = Streams(1)
    streams.seed(np.array([0]), np.array([seed], np.uint64))
    return streams
