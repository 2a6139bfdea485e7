"""Steps down a gradient, which must be finite to be taken."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


def make_optimiser(module: nn.Module, learning_rate: float) -> torch.optim.Adam:
    """Adam for all weights of a module, in one kernel where the device has it."""
    device = next(module.parameters()).device
    fused = device.type in ("cpu", "cuda")
    return torch.optim.Adam(module.parameters(), learning_rate, fused=fused)


def descend(loss: Tensor, optimiser: torch.optim.Adam, clip: float, what: str) -> float:
    """A step down the gradient, clipped to a norm; the norm before clipping."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], clip)
    size = finite(norm, what)
    optimiser.step()
    return size


def finite(value: Tensor, what: str) -> float:
    """As a number; FloatingPointError if it is none."""
    number = value.item()
    if not np.isfinite(number):
        raise FloatingPointError(f"the {what} is {number}; nothing was changed by it")
    return number
