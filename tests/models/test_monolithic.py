"""Monolithic: TD3's network, on its own body only."""

import pytest
import torch
from torch.nn.functional import relu

from sgrl.models.canonical import Canonicalized
from sgrl.models.monolithic import Monolithic, MonolithicConfig
from sgrl.models.network import ACTOR, CRITIC, VALUE, Actor, Critic, Role, Value
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import get_body
from sgrl.symmetry import assert_equivariant, measure

HOPPER = get_body("3d_hopper_5_full")


def make(role: Role = ACTOR) -> Monolithic:
    torch.manual_seed(0)
    return Monolithic(MonolithicConfig(), role, HOPPER).double()


def test_is_one_mlp_of_the_whole_observation() -> None:
    batch = random_batch([HOPPER], 3)
    network = make()
    assert [layer.out_features for layer in network.layers[::2]] == [256, 256, 12]
    first, second, last = network.layers[::2]
    observation = batch.flat.reshape(3, 5 * 41)
    expected = last(relu(second(relu(first(observation)))))
    found = batch.layout.actions_to_rows(network(batch))
    torch.testing.assert_close(found, expected)


def test_a_value_is_the_same_for_all_limbs_of_a_body() -> None:
    batch = random_batch([HOPPER], 3)
    action = torch.rand(15, 3).double()
    for values in (Critic(make(CRITIC))(batch, action), Value(make(VALUE))(batch)):
        rows = values.view(3, 5)
        assert torch.equal(rows, rows[:, :1].expand(3, 5))
        assert rows[:, 0].std() > 0
    # The torso has no motors; whatever stands in its row is not read.
    other = action.clone()
    other[batch.layout.is_torso] = 9.0
    critic = Critic(make(CRITIC))
    assert torch.equal(critic(batch, action), critic(batch, other))


@pytest.mark.parametrize("bodies", [("3d_hopper_4_lower_shin",), (HOPPER.name, "3d_walker_7_full")])
def test_refuses_another_body_and_says_what_to_use(bodies: tuple[str, ...]) -> None:
    batch = random_batch([get_body(name) for name in bodies])
    message = f"made for 3d_hopper_5_full and can't take {bodies[-1]}.* use set, swat, amorpheus"
    with pytest.raises(ValueError, match=message):
        make()(batch)


@pytest.mark.parametrize("role", [ACTOR, CRITIC, VALUE])
def test_gradients_reach_every_weight(role: Role) -> None:
    batch = rollout_batch([HOPPER], 4)
    network = make(role)
    action = torch.rand(20, 3).double()
    network(batch, *[action] * role.reads_action).square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0
    # Not a single output weight is wasted on the torso, which has no motors.
    assert network.layers[-1].weight.grad.abs().sum(dim=1).min() > 0


@pytest.mark.parametrize("frame", ["heading", "target"])
def test_framed_is_monolithic_hn_and_tn(frame) -> None:
    batch = rollout_batch([HOPPER], 4)
    plain, framed = Actor(make()), Actor(Canonicalized(make(), frame))
    assert measure(plain, batch, group="rotation").error > 1e-2
    assert_equivariant(framed, batch, group="rotation")
    assert measure(framed, batch, group="reflection").error > 1e-2


def test_at_the_start_actions_are_neither_constant_nor_saturated() -> None:
    action = Actor(make())(rollout_batch([HOPPER], 20))
    hinges = action.view(20, 5, 3)[:, 1:]
    assert hinges.std(dim=0).min() > 0.05
    assert hinges.std() < 0.9
