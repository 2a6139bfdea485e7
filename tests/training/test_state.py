"""State as JSON and tensors: what is written comes back, and nothing else is read."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgrl.training.state import decode_state, encode_state

KEYS = st.text(max_size=3) | st.integers(-3, 3)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]).map(
        lambda dtype: torch.ones((2, 0, 3), dtype=dtype)
    )
    | st.sampled_from([np.uint64, np.float32, np.bool_, np.int8]).map(
        lambda dtype: np.array([[0, 1, 1]], dtype).T
    )
    | st.lists(st.text("abc", min_size=1, max_size=3), max_size=3).map(lambda w: np.array(w, "<U9"))
)
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        alike = type(one) is type(other) and len(one) == len(other)
        return alike and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(STATES)
def test_what_is_written_comes_back(state: Any) -> None:
    structure, tensors = encode_state(state)
    found = decode_state(json.loads(json.dumps(structure)), tensors)
    assert same(state, found)


def test_generators_go_on_where_they_were() -> None:
    rng, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    state = {"numpy": rng.bit_generator.state, "torch": generator.get_state()}
    structure, tensors = encode_state(state)
    found = decode_state(json.loads(json.dumps(structure)), tensors)
    expected = rng.random(), torch.rand(1, generator=generator)
    rng.bit_generator.state = found["numpy"]
    generator.set_state(found["torch"])
    assert (rng.random(), torch.rand(1, generator=generator)) == expected


def test_tensors_that_share_memory_are_copied() -> None:
    shared = torch.zeros(4)
    _, tensors = encode_state([shared, shared[1:]])
    shared += 1
    assert all((tensor == 0).all() for tensor in tensors.values())


@pytest.mark.parametrize("value", [object(), {1.5: 2}, {(1, 2): 3}, b"bytes", {"a": [{1, 2}]}])
def test_what_cannot_be_written(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_state({"below": value})


@pytest.mark.parametrize(
    "structure",
    [
        {"$tensor": "b"},
        [{"$tensor": "a"}, {"$tensor": "a"}],
        {"$tensor": ["a"]},
        {"$tensor": "a", "more": 1},
        {"$unknown": 1},
        {},
        [{"$tensor": "a"}, {"$dict": [["x", 1], ["x", 2]]}],
        [{"$tensor": "a"}, {"$dict": [[1.5, 1]]}],
        [{"$tensor": "a"}, {"$dict": [[1, 2, 3]]}],
        [{"$tensor": "a"}, {"$dict": [7]}],
        [{"$tensor": "a"}, {"$strings": ["x"], "dtype": "<U1", "shape": [2]}],
        [{"$tensor": "a"}, {"$strings": ["x"], "dtype": "O", "shape": [1]}],
        [{"$tensor": "a"}, {"$strings": ["x"], "dtype": "<U9999999999", "shape": [1]}],
        [{"$tensor": "a"}, {"$strings": ["x"] * 99, "dtype": "<U999999", "shape": [99]}],
        [{"$tensor": "a"}, {"$strings": [3], "dtype": "<U1", "shape": [1]}],
    ],
)
def test_what_was_not_written_is_not_read(structure: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode_state(structure, {"a": torch.zeros(1)})
