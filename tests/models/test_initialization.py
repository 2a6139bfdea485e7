"""Networks before any training, on real states and on wild ones."""

from collections.abc import Callable

import pytest
import torch

from sgrl.models.batch import LimbBatch
from sgrl.models.canonical import Canonicalized, canonicalize
from sgrl.models.methods import METHODS, PRESETS, get_method, make_actor, make_critic
from sgrl.models.states import rollout_batch
from sgrl.morphology import Morphology, body_names, resolve_bodies

BODIES = resolve_bodies(body_names())
SEEDS = 3
SIZES = [
    (method, preset)
    for method in METHODS
    for preset in PRESETS
    if preset == "fast" or get_method(method).config(preset) != get_method(method).fast
]
"""Methods and presets; a method of one size has one."""
LISTENING = [size for size in SIZES if size[0].startswith(("set", "swat", "amorpheus"))]


@pytest.fixture(scope="module")
def real() -> LimbBatch:
    return rollout_batch(BODIES, 2, steps=50, dtype=torch.float32)


def hurry(real: LimbBatch) -> LimbBatch:
    """The same states with every limb at 10 m/s and 20 rad/s, more than is ever observed."""
    vectors = real.vectors.clone()
    for which, speed in ((1, 10.0), (2, 20.0)):
        length = vectors[:, which].norm(dim=-1, keepdim=True)
        vectors[:, which] *= speed / length.clamp_min(1e-6)
    return real.replace(vectors=vectors)


@pytest.fixture(scope="module")
def wild(real: LimbBatch) -> LimbBatch:
    return hurry(real)


@pytest.fixture(params=["real", "wild"])
def batch(request: pytest.FixtureRequest) -> LimbBatch:
    found: LimbBatch = request.getfixturevalue(request.param)
    return found


def check_actions_and_q(method: str, preset: str, batch: LimbBatch) -> None:
    bodies = batch.layout.bodies
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        with torch.no_grad():
            action = make_actor(method, preset, bodies=bodies)(batch)
            q = batch.layout.row_mean(make_critic(method, preset, bodies=bodies)(batch, action))
        assert 0.05 < action[~batch.layout.is_torso].std() < 0.9
        assert (action.abs() > 0.99).float().mean() < 0.05
        assert torch.isfinite(q).all()
        assert 0.05 < q.square().mean().sqrt() < 5


@pytest.mark.parametrize(
    ("method", "preset"), [size for size in SIZES if not size[0].startswith("monolithic")]
)
def test_actions_and_q(method: str, preset: str, batch: LimbBatch) -> None:
    check_actions_and_q(method, preset, batch)


@pytest.mark.parametrize("method", ["monolithic", "monolithic+hn", "monolithic+tn"])
@pytest.mark.parametrize("body", BODIES[::4], ids=body_names()[::4])
def test_actions_and_q_of_one_body(method: str, body: Morphology) -> None:
    real = rollout_batch([body], 8, steps=25, dtype=torch.float32)
    for batch in (real, hurry(real)):
        check_actions_and_q(method, "fast", batch)


@pytest.mark.parametrize("make", [make_actor, make_critic], ids=["actor", "critic"])
@pytest.mark.parametrize(("method", "preset"), LISTENING)
def test_attention_is_neither_even_nor_on_one_limb(
    method: str, preset: str, make: Callable[..., torch.nn.Module], batch: LimbBatch
) -> None:
    """In every layer and head."""
    layout = batch.layout
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        network, seen = make(method, preset).network, batch
        if isinstance(network, Canonicalized):
            network, seen = network.network, canonicalize(batch, network.frame)
        action = torch.rand(layout.num_limbs, 3) * 2 - 1 if make is make_critic else None
        with torch.no_grad():
            layers = network.attention(seen, action)
        assert len(layers) == network.config.layers
        for weights in layers:
            summed = weights.sum(dim=-1).transpose(1, 2)[layout.mask]
            torch.testing.assert_close(summed, torch.ones_like(summed))
            entropy = -torch.special.xlogy(weights, weights).sum(dim=-1).transpose(1, 2)
            # Of what it could be at most, log(limbs); a mean over limbs and rows.
            share = (entropy / layout.counts.log()[:, None, None])[layout.mask].mean(dim=0)
            assert len(share) == network.config.heads
            assert share.min() > 0.3
            assert share.max() < 0.995
