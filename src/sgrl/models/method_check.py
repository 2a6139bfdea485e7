"""A method from outside the package is run once before it is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.network import ACTOR, CRITIC, GAUSSIAN_ACTOR, VALUE, Role
from sgrl.models.states import random_batch
from sgrl.morphology import resolve_bodies
from sgrl.plugins import in_a_line

if TYPE_CHECKING:
    from sgrl.models.methods import Method

ROLES = {
    "actor": ACTOR,
    "Gaussian actor": GAUSSIAN_ACTOR,
    "critic": CRITIC,
    "value function": VALUE,
}
SEE = "see docs/tutorials/own_network.md for what a method looks like"
LEAK = 1e-3
"""Change of a row's output, relative to its size, that can't be rounding."""


def check_method(method: Method, name: str) -> None:
    """Run each of a method's networks once; ValueError says what is wrong with it."""
    names = ("3d_hopper_3_shin", "3d_walker_7_full")
    bodies = resolve_bodies(names[:1] if method.one_body else names)
    batch = random_batch(bodies, 2, dtype=torch.float32)
    module = sys.modules.get(getattr(method.network, "__module__", ""))
    file = getattr(module, "__file__", None) or ""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        action = torch.rand(batch.layout.num_limbs, 3)
        for part, role in ROLES.items():
            try:
                network = method.build(role, bodies=bodies).eval()
                output, alone = (_call(network, role, *each) for each in _batches(batch, action))
            except Exception as error:
                raise ValueError(
                    f"{name} can't be used as {part}: {in_a_line(error, file)}; {SEE}"
                ) from error
            if problem := _problem(network, output, alone, (len(action), role.outputs)):
                raise ValueError(f"{name} can't be used as {part}: {problem}; {SEE}")


def _batches(batch: LimbBatch, action: Tensor) -> Iterator[tuple[LimbBatch, Tensor]]:
    """The batch with its actions, then its first row by itself."""
    yield batch, action
    body = batch.layout.bodies[0]
    limbs = slice(body.num_limbs)
    first = LimbBatch(
        batch.vectors[limbs],
        batch.scalars[limbs],
        batch.gravity[:1],
        batch.target[:1],
        layout_of((body,), [0]),
    )
    yield first, action[limbs]


def _call(network: nn.Module, role: Role, batch: LimbBatch, action: Tensor) -> object:
    output: object = network(batch, action) if role.reads_action else network(batch)
    return output


def _problem(
    network: nn.Module, output: object, alone: object, shape: tuple[int, int]
) -> str | None:
    if next(network.parameters(), None) is None:
        return "it has no parameters to learn"
    if not isinstance(output, Tensor) or not isinstance(alone, Tensor):
        return f"it gives a {type(output).__name__}, not a tensor"
    if output.shape != shape:
        return f"it gives {tuple(output.shape)}, not (limbs, role.outputs), which is {shape} here"
    if not output.isfinite().all():
        return "it gives numbers that are not finite"
    if (output[: len(alone)] - alone).abs().max() > LEAK * alone.abs().max():
        return (
            "its output for a row depends on the other rows of the batch; bring limbs together "
            "with batch.layout (row_mean, to_limbs, pad), not over the whole batch"
        )
    return None
