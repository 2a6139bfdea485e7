"""SET under torch.compile: one graph, and the same values and gradients as without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.methods import get_method
from sgrl.models.network import CRITIC, GAUSSIAN_ACTOR
from sgrl.models.set import SETConfig
from sgrl.models.states import random_batch
from sgrl.morphology import resolve_bodies

BODIES = resolve_bodies(("3d_hopper_3_shin", "3d_walker_7_full"))
TINY = SETConfig(layers=2, embedding=8, hidden=8, matrix=5, matrix_hidden=6)


def mixed_batch() -> LimbBatch:
    return random_batch(BODIES, 3)


def gradients(network: torch.nn.Module, output: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(output.square().mean(), list(network.parameters())))


def compare(network: torch.nn.Module, batch: LimbBatch, backend: str) -> None:
    # A layout works out its index tensors when it is first asked for them, which is not traced.
    expected = network(batch)
    compiled = torch.compile(network, fullgraph=True, dynamic=False, backend=backend)
    output = compiled(batch)
    torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
    pairs = zip(gradients(network, output), gradients(network, expected), strict=True)
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("method", ["set", "set-in_invar", "swat", "amorpheus"])
@pytest.mark.parametrize("rows", ["mix", "one body"])
def test_an_actor_is_one_graph(method, rows):
    torch._dynamo.reset()
    network = get_method(method).build(GAUSSIAN_ACTOR).double()
    compare(network, mixed_batch() if rows == "mix" else random_batch(BODIES[:1], 3), "aot_eager")


def test_a_critic_is_one_graph():
    torch._dynamo.reset()
    network, batch = get_method("set").build(CRITIC).double(), mixed_batch()
    action = torch.rand(batch.layout.num_limbs, 3, dtype=torch.float64)
    expected = network(batch, action)
    compiled = torch.compile(network, fullgraph=True, dynamic=False, backend="aot_eager")
    torch.testing.assert_close(compiled(batch, action), expected)


@pytest.mark.nightly
def test_generated_code_computes_the_same():
    torch._dynamo.reset()
    compare(
        get_method("set").build(GAUSSIAN_ACTOR, config=TINY).double(), mixed_batch(), "inductor"
    )


def test_a_batch_of_the_same_bodies_is_not_compiled_again():
    """Equal layouts are one object, and another of the same shape finds its own indices."""
    torch._dynamo.reset()
    network = get_method("set").build(GAUSSIAN_ACTOR, config=TINY).double()
    compiled = torch.compile(network, fullgraph=True, dynamic=False, backend="aot_eager")
    batch = mixed_batch()
    network(batch), compiled(batch)
    other = random_batch(BODIES, 3, seed=1)
    shuffled = other.select(np.array([5, 0, 3, 1, 4, 2]))
    assert shuffled.layout is not layout_of(BODIES, [0, 0, 0, 1, 1, 1])
    expected = network(shuffled)
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(other), network(other))
        torch.testing.assert_close(compiled(shuffled), expected)
