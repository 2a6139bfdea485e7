"""SMP: one pass up and down against numbers worked out limb by limb."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sgrl.models.batch import LimbBatch
from sgrl.models.network import (
    ACTOR,
    CRITIC,
    VALUE,
    Actor,
    Critic,
    GaussianPolicy,
    TwinCritic,
    Value,
)
from sgrl.models.smp import SMP, SMPConfig
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import body_names, get_body

BODIES = [get_body(name) for name in body_names()]
FORKED = get_body("3d_walker_4_right_knee_left_foot")
"""torso - right_thigh, torso - left_thigh - left_shin."""
SMALL = SMPConfig(message=2, up=3, down=(4, 3))


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).sum())


def set_weights(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Small round numbers, different everywhere: 0.1, -0.2, 0.3, ... in every tensor."""
    weights = {}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            count = parameter.numel()
            numbers = np.arange(1, count + 1) % 7 * 0.1 * (-1.0) ** np.arange(count)
            parameter.copy_(torch.from_numpy(numbers.reshape(parameter.shape)))
            weights[name] = numbers.reshape(parameter.shape)
    return weights


def test_one_pass_up_and_down_by_hand() -> None:
    assert FORKED.limb_names == ("torso", "right_thigh", "left_thigh", "left_shin")
    network = SMP(SMALL, VALUE).double()
    network.up.observe = torch.nn.Linear(2, 3, dtype=torch.float64)
    w = set_weights(network)
    # One row: what the four limbs observe, two numbers each.
    observed = np.array([[1.0, -0.5], [0.2, 0.8], [-0.6, 0.4], [0.9, 0.1]])
    torso, right_thigh, left_thigh, left_shin = observed

    def up(own: np.ndarray, *children: np.ndarray) -> np.ndarray:
        embedded = np.tanh(unit(w["up.observe.weight"] @ own + w["up.observe.bias"]))
        heard = sum((np.tanh(child) for child in children), np.zeros(2))
        # The published layer on (own, messages) side by side.
        side_by_side = np.hstack([w["up.mix_own.weight"], w["up.mix_children.weight"]])
        mixed = side_by_side @ np.concatenate([embedded, heard]) + w["up.mix_own.bias"]
        return unit(w["up.speak.weight"] @ np.tanh(mixed) + w["up.speak.bias"])

    def mlp(name: str, x: np.ndarray) -> np.ndarray:
        for layer in (0, 2):
            x = np.maximum(w[f"{name}.{layer}.weight"] @ x + w[f"{name}.{layer}.bias"], 0)
        return w[f"{name}.4.weight"] @ x + w[f"{name}.4.bias"]

    shin_up = up(left_shin)
    left_up = up(left_thigh, shin_up)
    right_up = up(right_thigh)
    torso_up = up(torso, right_up, left_up)

    torso_known = np.tanh(np.concatenate([torso_up, np.zeros(2)]))
    from_torso = unit(mlp("down", torso_known))
    right_known = np.tanh(np.concatenate([right_up, from_torso]))
    left_known = np.tanh(np.concatenate([left_up, from_torso]))
    from_left = unit(mlp("down", left_known))
    shin_known = np.tanh(np.concatenate([shin_up, from_left]))
    expected = np.array(
        [mlp("decide", known) for known in (torso_known, right_known, left_known, shin_known)]
    )

    layout = random_batch([FORKED]).layout
    found = network.pass_messages(torch.from_numpy(observed), layout).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.ptp(expected) > 1e-3, "the four limbs should not all come out the same"
    # The numbers themselves, so that code and test can't drift together.
    golden = [0.2619885531, 0.3577609519, 0.3558199900, 0.3585571911]
    np.testing.assert_allclose(found[:, 0], golden, rtol=0, atol=1e-9)


def make(config: SMPConfig = SMPConfig(), role=ACTOR, seed: int = 0) -> SMP:  # noqa: B008
    torch.manual_seed(seed)
    return SMP(config, role).double()


def influence(config: SMPConfig, changed: str) -> set[str]:
    """The limbs whose output depends on what one limb observes."""
    batch = random_batch([FORKED])
    network = make(config)
    other = batch.scalars.clone()
    other[FORKED.limb_names.index(changed)] += 1.0
    difference = (network(batch) - network(batch.replace(scalars=other))).abs().amax(-1)
    return {name for name, d in zip(FORKED.limb_names, difference, strict=True) if d > 1e-9}


def test_messages_reach_every_limb() -> None:
    everyone = set(FORKED.limb_names)
    assert influence(SMPConfig(), "left_shin") == everyone
    assert influence(SMPConfig(), "torso") == everyone


def test_each_direction_can_be_turned_off() -> None:
    up = SMPConfig(top_down=False)
    assert influence(up, "left_shin") == {"torso", "left_thigh", "left_shin"}
    assert influence(up, "torso") == {"torso"}
    down = SMPConfig(bottom_up=False)
    assert influence(down, "left_shin") == {"left_shin"}
    assert influence(down, "left_thigh") == {"left_thigh", "left_shin"}
    alone = SMPConfig(bottom_up=False, top_down=False)
    assert influence(alone, "left_thigh") == {"left_thigh"}


def test_messages_have_length_one() -> None:
    seen: list[torch.Tensor] = []
    network = make()
    network.up.register_forward_hook(lambda module, inputs, output: seen.append(output))
    network(random_batch(BODIES))
    torch.testing.assert_close(seen[0].norm(dim=-1), torch.ones(len(seen[0])).double())


@pytest.mark.parametrize("role", [ACTOR, CRITIC, VALUE])
def test_a_mixed_batch_is_each_body_alone_in_any_order(role) -> None:
    network = make(role=role)
    mixed = rollout_batch(BODIES, 2)
    action = torch.rand(mixed.layout.num_limbs, 3).double()
    together = network(mixed, *[action] * role.reads_action)
    for index, body in enumerate(BODIES):
        # Both rows of the body, the later one first.
        rows = [2 * index + 1, 2 * index]
        mine = torch.cat([(mixed.layout.limb_row == row).nonzero()[:, 0] for row in rows])
        alone = LimbBatch(
            mixed.vectors[mine],
            mixed.scalars[mine],
            mixed.gravity[rows],
            mixed.target[rows],
            random_batch([body], 2).layout,
        )
        found = network(alone, *[action[mine]] * role.reads_action)
        torch.testing.assert_close(found, together[mine], rtol=0, atol=1e-12)


def chain(limbs: int):
    hopper = BODIES[2]
    link = hopper.limb("shin")
    links = [hopper.limbs[0], replace(link, name="link_1", parent="torso")]
    for i in range(2, limbs):
        links.append(replace(link, name=f"link_{i}", parent=f"link_{i - 1}"))
    return replace(hopper, name=f"chain_{limbs}", limbs=tuple(links))


def star(limbs: int):
    hopper = BODIES[2]
    links = [replace(hopper.limb("shin"), name=f"leg_{i}", parent="torso") for i in range(1, limbs)]
    return replace(hopper, name=f"star_{limbs}", limbs=(hopper.limbs[0], *links))


@pytest.mark.parametrize("body", [chain(2), chain(40), star(40)], ids=lambda body: body.name)
def test_runs_on_bodies_of_any_size_and_branching(body) -> None:
    batch = random_batch([body, *BODIES], 2)
    action = Actor(make())(batch)
    assert action.shape == (batch.layout.num_limbs, 3)
    assert torch.isfinite(action).all()
    assert action.abs().max() <= 1
    assert (action[batch.layout.is_torso] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_head_gets_gradients_to_every_weight(dtype: torch.dtype) -> None:
    batch = rollout_batch(BODIES, dtype=dtype)
    action = torch.rand(batch.layout.num_limbs, 3, dtype=dtype)
    heads = {
        Actor(SMP(SMPConfig(), ACTOR)): (),
        GaussianPolicy(SMP(SMPConfig(), ACTOR)): (),
        Value(SMP(SMPConfig(), VALUE)): (),
        TwinCritic(Critic(SMP(SMPConfig(), CRITIC)), Critic(SMP(SMPConfig(), CRITIC))): (action,),
    }
    for head, rest in heads.items():
        output = head.to(dtype)(batch, *rest)
        parts = output if isinstance(output, tuple) else (output,)
        assert all(part.dtype == dtype for part in parts)
        sum(part.square().sum() for part in parts).backward()
        for name, parameter in head.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name


def test_at_the_start_actions_are_neither_constant_nor_saturated() -> None:
    slow = rollout_batch(BODIES, 4)
    for seed in range(3):
        fast = slow.vectors.clone()
        fast[:, 1:3] *= 10 / fast[:, 1:3].norm(dim=-1, keepdim=True).clamp_min(1e-6)
        for batch in (slow, slow.replace(vectors=fast)):
            action = Actor(make(seed=seed))(batch)[~batch.layout.is_torso]
            assert (action.std(dim=0) > 0.05).all(), "the same in every state"
            assert action.std() < 0.9
            q = make(role=CRITIC, seed=seed)(batch, torch.zeros_like(batch.vectors[:, 0]))
            assert q.abs().max() < 10


def test_an_action_too_few_or_too_many_is_refused() -> None:
    batch = random_batch([FORKED])
    with pytest.raises(ValueError, match="needs the action"):
        make(role=CRITIC)(batch)
    with pytest.raises(ValueError, match="takes no action"):
        make()(batch, torch.zeros(batch.layout.num_limbs, 3))
