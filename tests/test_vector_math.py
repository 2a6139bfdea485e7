"""The first calls of vector functions are made by one thread."""

import torch

import sgrl.models.batch
from sgrl import vector_math


def test_importing_a_batch_has_called_them_all(monkeypatch):
    assert sgrl.models.batch.LimbBatch
    assert vector_math.make_first_calls.cache_info().currsize == 1
    called = []
    for name in vector_math.FUNCTIONS:
        function = getattr(torch, name)
        monkeypatch.setattr(
            torch, name, lambda *x, n=name, f=function: called.append((n, x[0].dtype)) or f(*x)
        )
    vector_math.make_first_calls.__wrapped__()
    assert {"exp", "tanh", "sqrt"} <= set(vector_math.FUNCTIONS)
    expected = {(n, d) for n in vector_math.FUNCTIONS for d in (torch.float32, torch.float64)}
    assert set(called) == expected
