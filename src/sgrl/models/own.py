"""A method from outside the package: found in its module, and tried out before it is used."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.network import ACTOR, CRITIC, GAUSSIAN_ACTOR, VALUE, Role
from sgrl.models.states import random_batch
from sgrl.morphology import resolve_bodies

if TYPE_CHECKING:
    from sgrl.models.methods import Method

ROLES = {
    "actor": ACTOR,
    "Gaussian actor": GAUSSIAN_ACTOR,
    "critic": CRITIC,
    "value function": VALUE,
}
SEE = "see docs/extending.md for what a method looks like"
LEAK = 1e-3
"""Change of a row's output, relative to its size, that can't be rounding."""


def find_attribute(spec: str) -> object:
    """What `module:name` stands for; ValueError says what to do if it can't be had.

    The module is imported, from the working folder too, as with `python -m`.
    """
    module_name, _, name = spec.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise ValueError(
                f"the method {spec} needs the module {missing}, which can't be found from {here}: "
                "go to the folder that it lies in, install it, or add its folder to PYTHONPATH"
            ) from None
        # `import_module` refuses an empty or relative name with a TypeError or ValueError.
        raise ValueError(f"the method {spec} can't be imported: {_told(error, None)}") from error
    if not hasattr(module, name):
        classes = [
            own
            for own, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, nn.Module)
        ]
        near = difflib.get_close_matches(name, classes, n=1, cutoff=0.3) or classes[-1:]
        hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
        raise ValueError(f"the module {module_name} has no {name!r}{hint}")
    found: object = getattr(module, name)
    return found


def try_out(method: Method, name: str) -> None:
    """Run each of a method's networks once; ValueError says what is wrong with it."""
    names = ("3d_hopper_3_shin", "3d_walker_7_full")
    bodies = resolve_bodies(names[:1] if method.one_body else names)
    batch = random_batch(bodies, 2, dtype=torch.float32)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        action = torch.rand(batch.layout.num_limbs, 3)
        for part, role in ROLES.items():
            try:
                network = method.build(role, bodies=bodies).eval()
                said, alone = (_say(network, role, *each) for each in _batches(batch, action))
            except Exception as error:
                raise ValueError(
                    f"{name} can't be used as {part}: {_told(error, method.network)}; {SEE}"
                ) from error
            if problem := _problem(network, said, alone, (len(action), role.outputs)):
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


def _say(network: nn.Module, role: Role, batch: LimbBatch, action: Tensor) -> object:
    said: object = network(batch, action) if role.reads_action else network(batch)
    return said


def _problem(network: nn.Module, said: object, alone: object, shape: tuple[int, int]) -> str | None:
    if next(network.parameters(), None) is None:
        return "it has no parameters to learn"
    if not isinstance(said, Tensor) or not isinstance(alone, Tensor):
        return f"it gives a {type(said).__name__}, not a tensor"
    if said.shape != shape:
        return f"it gives {tuple(said.shape)}, not (limbs, role.outputs), which is {shape} here"
    if not said.isfinite().all():
        return "it gives numbers that are not finite"
    if (said[: len(alone)] - alone).abs().max() > LEAK * alone.abs().max():
        return (
            "what it says of a row depends on the other rows of the batch; bring limbs together "
            "with batch.layout (row_mean, spread, pad), not over the whole batch"
        )
    return None


def _told(error: Exception, network: object) -> str:
    """An error in one line, with where it came up: in the file of a network's class, if given."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames[1:] if "importlib" not in frame.filename]
    if network is not None:
        module = sys.modules.get(getattr(network, "__module__", ""))
        own = [frame for frame in own if frame.filename == getattr(module, "__file__", None)]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}{place}"
