"""The first calls of PyTorch's vector functions, made before several threads can make them.

PyTorch's CPU builds carry vector functions that pick their kernel at the first call. Where the
first calls of one come from several threads at once, some may be answered by a kernel of lower
precision (https://github.com/pytorch/pytorch/issues/188792), and a process differs in its last bits
from the next. `sgrl.models.batch`, which everything that computes with networks imports, calls
`make_first_calls`; so it holds for trainings, workers and tests alike.
"""

from __future__ import annotations

from functools import cache

import torch

FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "tanh", "sinh", "cosh"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "erf", "erfc", "erfinv", "pow"),
    *("sigmoid",),
)
"""Those that the vector functions compute."""
_OF_TWO = ("atan2", "pow")


@cache
def make_first_calls() -> None:
    """Call each function once, on one number, in single and in double precision."""
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype)
        for name in FUNCTIONS:
            getattr(torch, name)(*((number, number) if name in _OF_TWO else (number,)))
