"""Networks before any training, on real states and on wild ones."""

import pytest
import torch

from sgrl.models.batch import LimbBatch
from sgrl.models.methods import METHODS, PRESETS, make_actor, make_critic
from sgrl.models.states import rollout_batch
from sgrl.morphology import body_names, resolve_bodies

BODIES = resolve_bodies(body_names())


@pytest.fixture(scope="module")
def real() -> LimbBatch:
    return rollout_batch(BODIES, 2, dtype=torch.float32)


@pytest.fixture(scope="module")
def wild(real: LimbBatch) -> LimbBatch:
    """The same states with every limb at 10 m/s and 20 rad/s, more than is ever observed."""
    vectors = real.vectors.clone()
    for which, speed in ((1, 10.0), (2, 20.0)):
        length = vectors[:, which].norm(dim=-1, keepdim=True)
        vectors[:, which] *= speed / length.clamp_min(1e-6)
    return real.replace(vectors=vectors)


@pytest.fixture(params=["real", "wild"])
def batch(request: pytest.FixtureRequest) -> LimbBatch:
    found: LimbBatch = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", [m for m in METHODS if not m.startswith("monolithic")])
def test_actions_and_q(method, preset, batch):
    torch.manual_seed(0)
    with torch.no_grad():
        action = make_actor(method, preset)(batch)
        q = batch.layout.row_mean(make_critic(method, preset)(batch, action))
    assert 0.05 < action[~batch.layout.is_torso].std() < 0.9
    assert (action.abs() > 0.99).float().mean() < 0.05
    assert torch.isfinite(q).all()
    assert 0.01 < q.square().mean().sqrt() < 5


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("make", [make_actor, make_critic], ids=["actor", "critic"])
@pytest.mark.parametrize(
    "method",
    ["set", "set-g", "set-gd", "set-z", "set-in_invar", "set-out_invar", "swat", "amorpheus"],
)
def test_attention_is_neither_even_nor_on_one_limb(method, make, preset, batch):
    torch.manual_seed(0)
    network = make(method, preset).network
    action = None
    if make is make_critic:
        action = torch.rand(batch.layout.num_limbs, 3) * 2 - 1
    layout = batch.layout
    with torch.no_grad():
        layers = network.attention(batch, action)
    assert len(layers) == network.config.layers
    for weights in layers:
        torch.testing.assert_close(
            weights.sum(-1)[layout.mask[:, None].expand(-1, 2, -1)].mean(), torch.tensor(1.0)
        )
        entropy = -torch.special.xlogy(weights, weights).sum(dim=-1).transpose(1, 2)
        # Of what it could be at most, log(limbs); a mean over heads, limbs and rows.
        share = (entropy / layout.counts.log()[:, None, None])[layout.mask].mean()
        assert 0.5 < share < 0.98
