"""Statistics of observations by hand, and that they keep the symmetry."""

import numpy as np
import pytest
import torch

from sgrl.envs.observation import (
    ANGLES,
    AXES,
    FEATURES,
    GRAVITY,
    HEIGHT,
    POSITION,
    TARGET,
    VELOCITIES,
)
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_gaussian_policy
from sgrl.models.normalizer import SMALLEST_STD, Normalizer
from sgrl.morphology import get_body
from sgrl.symmetry import rotation

BODY = get_body("3d_hopper_5_full")


def limbs(count, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.5, 4.0, FEATURES)
    found = rng.standard_normal((count, FEATURES)) * sizes + rng.uniform(-2, 2, FEATURES)
    return torch.from_numpy(found)


def test_without_statistics_nothing_changes():
    observed = limbs(10).reshape(2, -1)
    assert torch.equal(Normalizer()(observed), observed)


def test_scalars_are_centred_and_vectors_only_shortened():
    parts = [limbs(30, seed=1), limbs(70, seed=2)]
    normalizer = Normalizer()
    for part in parts:
        normalizer.update(part)
    seen = torch.cat(parts)
    scaled = normalizer.double()(seen.reshape(20, -1)).reshape(100, FEATURES)

    scalars = scaled[:, ANGLES.stop :]
    assert torch.allclose(scalars.mean(dim=0), torch.zeros(14).double(), atol=1e-5)
    assert torch.allclose(scalars.std(dim=0, correction=0), torch.ones(14).double(), atol=1e-5)
    for start in (POSITION.start, *range(VELOCITIES.start, VELOCITIES.stop, 3)):
        kind = slice(start, start + 3)
        length = seen[:, kind].square().sum(dim=1).mean().sqrt()
        assert torch.allclose(scaled[:, kind], seen[:, kind] / length, atol=1e-5)
    for kept in (GRAVITY, TARGET, AXES, ANGLES):
        assert torch.equal(scaled[:, kept], seen[:, kept])


def test_what_never_varied_is_not_blown_up():
    normalizer = Normalizer()
    normalizer.update(torch.ones(50, FEATURES))
    other = torch.ones(1, FEATURES)
    other[:, HEIGHT] += 0.3
    assert torch.allclose(normalizer(other)[:, HEIGHT], torch.tensor(0.3 / SMALLEST_STD))


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_policy_behind_it_keeps_its_symmetry(mirrored):
    normalizer, policy = Normalizer(), make_gaussian_policy("set").double()
    normalizer.update(limbs(200, seed=3))
    normalizer.double()
    observed = limbs(4 * BODY.num_limbs, seed=4)
    observed[:, GRAVITY] = torch.tensor([0.0, 0.0, -1.0]).double()
    observed[:, TARGET] = torch.tensor([0.6, 0.8, 0.0]).double()
    turn = torch.from_numpy(rotation(1.1))
    if mirrored:
        turn = turn @ torch.diag(torch.tensor([1.0, -1.0, 1.0])).double()
    turned = observed.clone()
    turned[:, : AXES.stop] = (observed[:, : AXES.stop].reshape(-1, 8, 3) @ turn.T).flatten(1)

    def act(rows):
        return policy(LimbBatch.from_flat(normalizer(rows.reshape(4, -1)), BODY))

    for one, other in zip(act(observed), act(turned), strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    assert act(observed)[0].abs().max() > 1e-2
