"""Monolithic: TD3's network, on its own body only."""

import pytest
import torch
from torch.nn.functional import relu

from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.canonical import Canonicalized
from sgrl.models.monolithic import Monolithic, MonolithicConfig, _labels
from sgrl.models.network import ACTOR, CRITIC, VALUE, Actor, Critic, Role, Value
from sgrl.models.normalizer import update_statistics
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


@pytest.mark.parametrize(
    "config",
    [MonolithicConfig(), MonolithicConfig((32, 32), columns="varying", layer_norm=True)],
    ids=lambda config: config.columns,
)
def test_an_actor_of_the_full_body_for_one_that_lacks_limbs(config: MonolithicConfig) -> None:
    """It does what the full body's does where nothing is observed of the limbs that it lacks."""
    full, body = get_body("3d_walker_7_full"), get_body("3d_walker_5_left_knee")
    torch.manual_seed(0)
    whole, part = (Monolithic(config, ACTOR, one).double() for one in (full, body))
    env = LocomotionVectorEnv([full], 4, threads=1)
    observations, _ = env.reset(seed=0)
    observations = env.step(env.action_space.sample())[0]
    flat = torch.from_numpy(observations).double()
    batch = LimbBatch.from_flat(flat, full)
    if whole.statistics is not None:
        update_statistics(whole, lambda: whole(batch))
    weights = Monolithic.actor_of_cut_body(whole.state_dict(), config, full, body)
    part.load_state_dict(weights)

    kept = [full.limb_names.index(name) for name in body.limb_names]
    rows = batch.layout.num_rows
    cut = flat.view(rows, full.num_limbs, 41)[:, kept].flatten(1)
    found = part(LimbBatch.from_flat(cut, body)).view(rows, -1, 3)
    # The columns of the other limbs without weights.
    labels = _labels(config, full)[0]
    lost = [i for i, (limb, _) in enumerate(labels) if limb not in (*body.limb_names, "target")]
    with torch.no_grad():
        whole.layers[0].weight[:, lost] = 0.0
    expected = whole(batch).view(rows, -1, 3)[:, kept]
    torch.testing.assert_close(found, expected)
    assert expected.std() > 0


def test_an_actor_of_a_body_without_a_limb_that_is_needed() -> None:
    full, body = get_body("3d_walker_7_full"), get_body("3d_walker_5_left_knee")
    actor = Monolithic(MonolithicConfig(), ACTOR, body).state_dict()
    with pytest.raises(ValueError, match="has no left_shin, left_foot, which 3d_walker_7"):
        Monolithic.actor_of_cut_body(actor, MonolithicConfig(), body, full)
