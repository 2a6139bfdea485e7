"""How updates run fast: which products a machine multiplies fastest, and whether it can compile.

bfloat16 where the CPU has instructions for it; else float32 by oneDNN, which on some CPUs is twice
as fast as PyTorch's default at the same precision; else that default.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Literal

import torch

Products = Literal["bfloat16", "onednn", "float32"]
SIZE = 256
"""Of the matrices that are multiplied to see what is fastest: rows of a batch, units of a layer."""
ROUNDS, REPEATS = 7, 20
GAIN = 0.9
"""Part of the time of the plainer products that others must stay under to be worth it."""
COMPILE_SECONDS = 25.0
"""What compiling takes, about."""
SAVED_SECONDS = 0.002
"""What compiling saves in an update, about."""


def fastest_products(device: torch.device) -> Products:
    """The fastest way to multiply, by a measurement of some milliseconds."""
    if device.type != "cpu":
        return "float32"
    kinds: tuple[Products, ...] = ("float32", "onednn", "bfloat16")
    x, y = torch.randn(2, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    times = dict.fromkeys(kinds, float("inf"))
    for _ in range(ROUNDS):  # in turns, so that other work on the machine slows all of them
        for kind in kinds:
            times[kind] = min(times[kind], _seconds(kind, lambda: torch.mm(x, y)))
    best: Products = "float32"
    for kind in kinds[1:]:
        if times[kind] < GAIN * times[best]:
            best = kind
    return best


def _seconds(kind: Products, multiply: Callable[[], torch.Tensor]) -> float:
    with torch.no_grad(), global_precision(kind), autocast(kind):
        multiply()
        start = time.perf_counter()
        for _ in range(REPEATS):
            multiply()
        return time.perf_counter() - start


@contextlib.contextmanager
def global_precision(products: Products) -> Iterator[None]:
    """PyTorch's float32 products as asked for, and as before afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if products == "onednn" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def autocast(products: Products) -> torch.autocast:
    """Within it networks multiply in bfloat16, if that is asked for."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=products == "bfloat16")


def has_compiler() -> bool:
    """Whether `torch.compile` has a C++ compiler to work with."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def pays_to_compile(updates: float) -> bool:
    """Whether so many updates win back the time that compiling takes."""
    return updates * SAVED_SECONDS > COMPILE_SECONDS
