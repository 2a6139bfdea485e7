"""How updates run fast: compiled, and with the products that a machine multiplies fastest.

bfloat16 where the CPU has instructions for it; else float32 by oneDNN, which on some CPUs is twice
as fast as PyTorch's default at the same precision; else that default.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

Products = Literal["bfloat16", "onednn", "float32"]
Function = Callable[..., Any]
SIZE = 256
"""Rows and columns of the matrices that are multiplied to see what is fastest."""
ROUNDS, REPEATS = 7, 20
GAIN = 0.9
"""Part of the time of the plainer products that others must stay under to be worth it."""
COMPILE_SECONDS = 25.0
"""What compiling takes, about."""
LEAST_MINUTES = 5.0
"""Shorter trainings are not compiled."""
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
        start = time.thread_time()
        for _ in range(REPEATS):
            multiply()
        return time.thread_time() - start


@contextlib.contextmanager
def global_precision(products: Products) -> Iterator[None]:
    """PyTorch's float32 products as asked for, and as before afterwards; within it numbers too
    small for all their digits are 0, for they are slow and Adam's moments are full of them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if products == "onednn" else "highest")
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision(before)


def autocast(products: Products) -> torch.autocast:
    """A context in which networks multiply in bfloat16, if that is asked for."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=products == "bfloat16")


@dataclass(frozen=True)
class Speed:
    """How the updates of a run are made; recorded with it, for it changes their last bits."""

    compiled: bool
    products: Products
    why_plain: str = ""
    """Why they are not compiled."""

    @classmethod
    def choose(
        cls,
        compile: Literal["auto", "yes", "no"],
        products: Products | Literal["auto"],
        updates: float,
        device: torch.device,
        *,
        minutes: float | None = None,
        saved_seconds: float = SAVED_SECONDS,
    ) -> Speed:
        """The speed as told or, left to us, the fastest here for so many updates in so much time.

        `saved_seconds` are what compiling saves in each.
        """
        few = updates * saved_seconds < COMPILE_SECONDS
        short = minutes is not None and minutes < LEAST_MINUTES
        why = ""
        if compile == "no":
            why = "as told"
        elif shutil.which(os.environ.get("CXX", "g++")) is None:
            why = "for want of a C++ compiler, which makes them about half as fast"
        elif compile == "auto" and (few or short):
            why = "too few to win back the time of compiling"
        return cls(not why, fastest_products(device) if products == "auto" else products, why)

    def describe(self) -> str:
        """What it is, in a few words."""
        how = "compiled updates" if self.compiled else f"updates not compiled ({self.why_plain})"
        products = {"onednn": "float32 by oneDNN"}.get(self.products, self.products)
        return f"{how}, products in {products}"

    def state_dict(self) -> dict[str, Any]:
        """Its fields."""
        return dataclasses.asdict(self)


class UpdateFunctions:
    """What updates call, always with the same shapes: compiled before it is first needed, or as it
    is."""

    def __init__(self, speed: Speed, *functions: Function) -> None:
        self.speed = speed
        self._plain = self._functions = functions
        if speed.compiled:
            self._functions = tuple(torch.compile(one, dynamic=False) for one in functions)
        self.is_ready = not speed.compiled
        """Whether all is compiled that is to be."""

    def __iter__(self) -> Iterator[Function]:
        """The functions, to be called."""
        return iter(self._functions)

    def compile(
        self, call: Callable[[tuple[Function, ...]], None], should_stop: Callable[[], bool]
    ) -> bool:
        """Compile by a call that changes nothing; takes a while. Whether updates can be made now.

        Where compiling fails the functions are plain from now on, unless the training should stop:
        Ctrl-C stops the compiler, too. `call` calls the functions that it is given.
        """
        # First as they are: their tables are made when first asked for, which can't be compiled.
        call(self._plain)
        try:
            call(self._functions)
        except RuntimeError as error:
            if should_stop():
                return False
            what = str(error).strip().splitlines()[0]
            warnings.warn(
                f"updates can't be compiled here, which makes them slower: {what}", stacklevel=2
            )
            self._functions = self._plain
            self.speed = Speed(False, self.speed.products, "compiling failed")
        self.is_ready = True
        return True
