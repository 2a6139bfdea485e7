"""Every method's function, pinned: outputs in float64 on fixed observations, recorded once.

Weights of fresh networks are set by their names, so names, shapes and the function are held, not
the draws of an initialization. `python tests/models/test_reference.py` records them anew.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sgrl
from sgrl.models.methods import METHODS, OURS, get_method
from sgrl.models.network import CRITIC, GAUSSIAN_ACTOR
from sgrl.models.states import random_batch
from sgrl.morphology import resolve_bodies
from sgrl.training.run import SHIPPED

FILE = Path(__file__).parent / "reference.npz"
ROLES = {"actor": GAUSSIAN_ACTOR, "critic": CRITIC}
BODIES = resolve_bodies(("3d_walker_5_foot", "3d_hopper_3_shin"))
POLICIES = sorted(folder.parent.name for folder in SHIPPED.glob("*/card.json"))
CASES = [
    f"{method} {preset} {role}"
    for method in METHODS
    if method in OURS
    for preset in (("fast", "many", "paper") if method in ("set", "swat") else ("fast",))
    for role in ROLES
]


def fill(network: nn.Module) -> None:
    """Weights that depend on their names alone."""
    for name, weight in network.named_parameters():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        size = weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.3
        values = size * rng.standard_normal(tuple(weight.shape))
        weight.data.copy_(torch.from_numpy(values + float("norm.weight" in name)))


def network_output(case: str) -> Tensor:
    """(limbs, outputs) of a method in a role."""
    name, preset, role = case.split(" ")
    method = get_method(name)
    bodies = BODIES[:1] if method.one_body else BODIES
    network = method.build(ROLES[role], preset, bodies=bodies).double()
    fill(network)
    batch = random_batch(bodies)
    actions = torch.linspace(-1, 1, 3 * batch.layout.num_limbs, dtype=torch.float64).view(-1, 3)
    actions = actions.masked_fill(batch.layout.is_torso.unsqueeze(-1), 0.0)
    with torch.no_grad():
        result: Tensor = network(batch, actions) if role == "critic" else network(batch)
    return result


def policy_output(name: str) -> Tensor:
    """(limbs, 3) of a shipped policy: on a body it knows, and on two that it may not know."""
    policy = sgrl.load_policy(name)
    return policy.to(torch.float64).actions(random_batch((policy.bodies[0], *BODIES)))


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(FILE) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("case", CASES)
def test_networks_compute_what_they_did(case, reference):
    np.testing.assert_allclose(network_output(case), reference[case], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", POLICIES)
def test_shipped_policies_act_as_they_did(name, reference):
    np.testing.assert_allclose(policy_output(name), reference[name], rtol=1e-9, atol=1e-11)


if __name__ == "__main__":
    recorded = {case: network_output(case) for case in CASES}
    recorded |= {name: policy_output(name) for name in POLICIES}
    np.savez_compressed(FILE, **{name: np.asarray(x) for name, x in recorded.items()})
