"""Optimizer steps, which need a finite loss and gradient, and the state of an optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def make_optimizer(module: nn.Module, learning_rate: float) -> torch.optim.Adam:
    """Adam for all weights of a module, in one kernel where the device has it."""
    device = next(module.parameters()).device
    fused = device.type in ("cpu", "cuda")
    return torch.optim.Adam(module.parameters(), learning_rate, fused=fused)


def optimizer_step(
    loss: Tensor, optimizer: torch.optim.Adam, max_grad_norm: float, what: str
) -> float:
    """One step on a loss, its gradient clipped to a norm; returns the norm before clipping.

    FloatingPointError, and nothing changed, if that is not finite; `what` names the gradient.
    """
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_grad_norm)
    size = check_finite(norm, what)
    optimizer.step()
    return size


def check_finite(value: Tensor, what: str) -> float:
    """The number in a tensor; FloatingPointError if it is not finite."""
    number = value.item()
    if not np.isfinite(number):
        raise FloatingPointError(f"the {what} is {number}; nothing was changed by it")
    return number


def optimizer_state(optimizer: torch.optim.Adam) -> dict[str, Any]:
    """What steps have changed, copied: the learning rate, and moments of each parameter."""
    state = optimizer.state_dict()
    return {
        "learning_rate": state["param_groups"][0]["lr"],
        "moments": [
            {name: value.detach().clone() for name, value in moments.items()}
            for _, moments in sorted(state["state"].items())
        ],
    }


def load_optimizer_state(optimizer: torch.optim.Adam, state: Mapping[str, Any]) -> None:
    """Go back to what `optimizer_state` gave; ValueError if that is of other parameters.

    The kernel of a step would not ask.
    """
    now = optimizer.state_dict()
    parameters, moments = optimizer.param_groups[0]["params"], state["moments"]
    if moments and len(moments) != len(parameters):
        raise ValueError(f"an optimizer has {len(parameters)} parameters, not {len(moments)}")
    for parameter, own in zip(parameters, moments, strict=False):
        if own.keys() != {"step", "exp_avg", "exp_avg_sq"} or own["step"].shape != ():
            raise ValueError("these moments of an optimizer are not Adam's")
        for name in ("exp_avg", "exp_avg_sq"):
            if (own[name].shape, own[name].dtype) != (parameter.shape, parameter.dtype):
                raise ValueError(
                    f"{name} of an optimizer is {tuple(own[name].shape)}, not "
                    f"{tuple(parameter.shape)}"
                )
    now["state"] = dict(enumerate(state["moments"]))
    now["param_groups"][0]["lr"] = state["learning_rate"]
    optimizer.load_state_dict(now)
