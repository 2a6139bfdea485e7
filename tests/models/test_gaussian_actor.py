"""The Gaussian actor: a mean as the deterministic actor's, a standard deviation as invariant."""

import itertools
import math

import pytest
import torch

from sgrl.models.methods import METHODS, get_method, make_actor, make_gaussian_actor
from sgrl.models.network import MAX_LOG_STD, MIN_LOG_STD, GaussianActor
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import resolve_bodies
from sgrl.symmetry import assert_equivariant, measure

BODIES = resolve_bodies(("3d_hopper_3_shin", "3d_walker_7_full", "3d_cheetah_14_full"))
METHOD_NAMES = [name for name in METHODS if not name.startswith("monolithic")]


@pytest.mark.parametrize("preset", ["fast", "many", "paper"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_starts_with_a_wide_and_nearly_constant_std(method: str, preset: str) -> None:
    torch.manual_seed(0)
    batch = rollout_batch(BODIES, 4, dtype=torch.float32)
    actor = make_gaussian_actor(method, preset)
    with torch.no_grad():
        mean, log_std = actor(batch)
    assert mean.shape == log_std.shape == (batch.layout.num_limbs, 3)
    assert mean[batch.layout.is_torso].abs().max() == 0
    assert 0.5 < log_std.exp().min() < log_std.exp().max() < 1.0
    assert log_std[~batch.layout.is_torso].std() > 0, "it depends on the state"
    torch.testing.assert_close(actor.mean(batch), torch.tanh(mean))


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_weights_of_a_deterministic_actor_fit_but_for_the_std(method: str) -> None:
    torch.manual_seed(0)
    batch = random_batch(BODIES, 2, dtype=torch.float32)
    actor, gaussian = make_actor(method), make_gaussian_actor(method)
    new = {name for name in gaussian.state_dict() if name.rpartition(".")[0].endswith("read_std")}
    loaded = gaussian.load_state_dict(actor.state_dict(), strict=False)
    assert set(loaded.missing_keys) == new
    assert len(new) == 2
    assert not loaded.unexpected_keys
    actions, moves = gaussian.mean(batch), batch.layout.actuated
    torch.testing.assert_close(actions[moves], actor(batch)[moves])
    assert (~moves).any()
    assert (actions[~moves] == 0).all(), "motors without a gear rest"

    back = make_actor(method).load_state_dict(gaussian.state_dict(), strict=False)
    assert set(back.unexpected_keys) == new
    assert not back.missing_keys


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_mean_and_std_keep_what_the_method_claims_and_nothing_more(method: str) -> None:
    torch.manual_seed(0)
    actor = make_gaussian_actor(method).double()
    # Large enough to see a symmetry that is not there.
    for module in actor.modules():
        if getattr(module, "read_std", None) is not None:
            torch.nn.init.normal_(module.read_std.weight)
    parts = {"mean": lambda b: actor(b)[0], "log_std": lambda b: actor(b)[1]}
    for batch in (random_batch(BODIES, 2), rollout_batch(BODIES, 2)):
        for part, change in itertools.product(parts, ("rotation", "reflection", "tilt")):
            with torch.no_grad():
                if change in get_method(method).symmetries:
                    assert_equivariant(parts[part], batch, group=change)
                else:
                    error = measure(parts[part], batch, group=change).error
                    assert error > 1e-2, f"{part} is blind to {change}"


class Fixed(torch.nn.Module):
    """A network that says the same of every limb."""

    def __init__(self, outputs: list[float]) -> None:
        super().__init__()
        self.outputs = torch.tensor(outputs)

    def forward(self, batch):
        return self.outputs.expand(batch.layout.num_limbs, -1)


def test_log_std_by_hand() -> None:
    batch = random_batch(BODIES[:1], dtype=torch.float32)
    outputs = [0.5, -2.0, 0.0, 0.0, 50.0, -50.0]
    actor = GaussianActor(Fixed(outputs))
    mean, log_std = actor(batch)
    torch.testing.assert_close(mean[1], torch.tensor([0.5, -2.0, 0.0]))
    expected = torch.tensor([(MIN_LOG_STD + MAX_LOG_STD) / 2, MAX_LOG_STD, MIN_LOG_STD])
    torch.testing.assert_close(log_std[1], expected)
    assert actor.mean(batch)[1, 0].item() == pytest.approx(math.tanh(0.5))
