"""What holds for every method of the table, in every role."""

import copy

import pytest
import torch
from torch import nn

from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.methods import (
    METHODS,
    PRESETS,
    get_method,
    make_actor,
    make_critic,
    make_gaussian_policy,
    make_twin_critic,
    make_value,
    parameter_counts,
)
from sgrl.models.set import SETConfig
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import Morphology, body_names, get_body, resolve_bodies

FAMILIES = resolve_bodies(
    ("3d_hopper_3_shin", "3d_walker_7_full", "3d_humanoid_9_full", "3d_cheetah_14_full")
)
WALKER = FAMILIES[1]
SIDED = get_body("3d_walker_6_right_foot")
ANY_BODY = [name for name in METHODS if not name.startswith("monolithic")]
"""Methods that are not made for one body."""


def outputs(
    method: str, batch: LimbBatch, seed: int = 0, preset: str = "fast"
) -> dict[str, torch.Tensor]:
    """Everything a method says of a batch, (limbs, ...) each; the same weights for a seed."""
    torch.manual_seed(seed)
    bodies = batch.layout.bodies
    actor, critics = (
        make_actor(method, preset, bodies=bodies),
        make_twin_critic(method, preset, bodies=bodies),
    )
    value, policy = (
        make_value(method, preset, bodies=bodies),
        make_gaussian_policy(method, preset, bodies=bodies),
    )
    for module in (actor, critics, value, policy):
        module.to(batch.vectors.dtype)
    action = actor(batch)
    q1, q2 = critics(batch, action)
    mean, log_std = policy(batch)
    return {
        "action": action,
        "q1": q1,
        "q2": q2,
        "v": value(batch),
        "mean": mean,
        "spread": log_std,
    }


def rows_of(batch: LimbBatch, rows: list[int]) -> LimbBatch:
    """Some rows of a batch, in this order."""
    layout = batch.layout
    limbs = torch.cat([(layout.limb_row == row).nonzero().flatten() for row in rows])
    bodies = [layout.bodies[index] for index in layout.body_index[rows]]
    used = tuple(dict.fromkeys(bodies))
    return LimbBatch(
        batch.vectors[limbs],
        batch.scalars[limbs],
        batch.gravity[rows],
        batch.target[rows],
        layout_of(used, [used.index(body) for body in bodies]),
    )


@pytest.mark.parametrize("method", METHODS)
def test_shapes_and_ranges(method):
    batch = random_batch((WALKER,), 3, dtype=torch.float32)
    said = outputs(method, batch)
    assert said["action"].shape == said["mean"].shape == said["spread"].shape == (21, 3)
    assert said["q1"].shape == said["q2"].shape == said["v"].shape == (21,)
    assert not torch.equal(said["q1"], said["q2"])
    assert said["action"].abs().max() < 1
    assert said["action"][batch.layout.is_torso].abs().max() == 0
    assert all(torch.isfinite(part).all() and part.dtype == torch.float32 for part in said.values())


SIZES = [*((method, "fast") for method in ANY_BODY), ("set", "many"), ("swat", "many")]


@pytest.mark.parametrize(("method", "preset"), SIZES)
def test_mixed_batch_is_each_body_alone(method, preset):
    batch = rollout_batch((*FAMILIES, SIDED), 2, dtype=torch.float32)
    mixed = outputs(method, batch, preset=preset)
    for row in range(batch.layout.num_rows):
        alone = outputs(method, rows_of(batch, [row]), preset=preset)
        limbs = batch.layout.limb_row == row
        for name, part in mixed.items():
            torch.testing.assert_close(part[limbs], alone[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["set", "swat", "smp"])
def test_the_gradient_of_a_mixed_batch_is_the_sum_of_each_body_alone(method):
    """Of weights and of the actions, whose gradient teaches an actor."""
    torch.manual_seed(0)
    batch = random_batch(resolve_bodies(body_names()), 2)
    rows = [int(row) for row in torch.randperm(batch.layout.num_rows)]
    critic = make_critic(method).double()
    action = torch.rand(batch.layout.num_limbs, 3, dtype=torch.float64) * 2 - 1

    def gradients(rows: list[int]) -> list[torch.Tensor]:
        limbs = torch.cat([(batch.layout.limb_row == row).nonzero().flatten() for row in rows])
        given = action[limbs].requires_grad_()
        total = critic(rows_of(batch, rows), given).sum()
        *of_weights, of_action = torch.autograd.grad(total, [*critic.parameters(), given])
        return [*of_weights, torch.zeros_like(action).index_copy(0, limbs, of_action)]

    alone = [gradients([row]) for row in rows]
    for mixed, *parts in zip(gradients(rows), *alone, strict=True):
        total = torch.stack(parts).sum(dim=0)
        torch.testing.assert_close(mixed, total, rtol=1e-9, atol=1e-12 * float(total.abs().max()))


@pytest.mark.parametrize("method", ANY_BODY)
def test_order_of_the_batch_does_not_matter(method):
    batch = random_batch(FAMILIES, 2)
    order = [6, 1, 7, 0, 3, 5, 2, 4]
    mixed, shuffled = outputs(method, batch), outputs(method, rows_of(batch, order))
    limbs = torch.cat([(batch.layout.limb_row == row).nonzero().flatten() for row in order])
    for name, part in mixed.items():
        torch.testing.assert_close(part[limbs], shuffled[name], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_gradients_reach_every_parameter(method, preset):
    torch.manual_seed(0)
    bodies = (WALKER,) if method.startswith("monolithic") else FAMILIES
    batch = rollout_batch(bodies, 2, dtype=torch.float32)
    limbs = ~batch.layout.is_torso

    def check(module: nn.Module, loss: torch.Tensor) -> None:
        loss.backward()
        dead = [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
        assert not dead

    actor = make_actor(method, preset, bodies=bodies)
    check(actor, actor(batch)[limbs].square().sum())
    critic = make_critic(method, preset, bodies=bodies)
    action = (torch.rand(batch.layout.num_limbs, 3) * 2 - 1).requires_grad_()
    check(critic, batch.layout.row_mean(critic(batch, action)).sum())
    assert action.grad[limbs].abs().min() > 0
    value = make_value(method, preset, bodies=bodies)
    check(value, batch.layout.row_mean(value(batch)).sum())
    policy = make_gaussian_policy(method, preset, bodies=bodies)
    mean, log_std = policy(batch)
    check(policy, torch.distributions.Normal(mean, log_std.exp()).log_prob(action)[limbs].sum())


@pytest.mark.parametrize("method", ANY_BODY)
def test_unseen_bodies(method, grow):
    """From 2 limbs to more than there are embeddings for, as chains, stars and trees."""
    bodies = (
        grow(2),
        grow(3, "chain"),
        grow(3, "star"),
        *(grow(limbs, seed=limbs) for limbs in (6, 17, 29)),
        *(grow(40, shape) for shape in ("chain", "star", "random")),
        grow(70),
    )
    batch = random_batch(bodies, dtype=torch.float32)
    for name, part in outputs(method, batch).items():
        assert torch.isfinite(part).all(), name
    limbs = batch.layout.limb_row == 6
    alone = outputs(method, rows_of(batch, [6]))
    torch.testing.assert_close(outputs(method, batch)["action"][limbs], alone["action"])


@pytest.mark.parametrize("method", ["monolithic", "monolithic+hn", "monolithic+tn"])
def test_monolithic_is_of_one_body(method):
    with pytest.raises(ValueError, match="exactly one body"):
        make_actor(method)
    with pytest.raises(ValueError, match="exactly one body"):
        make_critic(method, bodies=FAMILIES)
    actor = make_actor(method, bodies=[WALKER])
    other = get_body("3d_walker_6_right_foot")
    with pytest.raises(ValueError, match="3d_walker_7_full and can't take 3d_walker_6_right_foot"):
        actor(random_batch((other,), dtype=torch.float32))


@pytest.mark.parametrize("method", METHODS)
def test_a_network_is_a_pure_function(method):
    """Calls on other bodies in between change nothing, nor does copying the network."""
    torch.manual_seed(0)
    bodies: tuple[Morphology, ...] = (WALKER,)
    actor = make_actor(method, bodies=bodies)
    batch = random_batch(bodies, 2, dtype=torch.float32)
    before = actor(batch)
    if method in ANY_BODY:
        actor(random_batch(FAMILIES, dtype=torch.float32))
    assert torch.equal(actor(batch), before)
    assert torch.equal(copy.deepcopy(actor)(batch), before)
    twin = make_actor(method, bodies=bodies)
    twin.load_state_dict(actor.state_dict())
    assert torch.equal(twin(batch), before)


def test_names():
    assert {"set", "set-g", "set-gd", "set-z", "set-in_invar", "set-out_invar"} < set(METHODS)
    for name in ("swat", "amorpheus", "smp", "monolithic"):
        assert {name, f"{name}+hn", f"{name}+tn"} < set(METHODS)
    with pytest.raises(ValueError, match="did you mean swat"):
        get_method("swatt")
    with pytest.raises(ValueError, match="unknown preset 'huge'"):
        make_actor("set", "huge")


def test_a_config_takes_the_place_of_the_preset():
    small = make_actor("set", config=SETConfig(layers=1, embedding=8, hidden=8, matrix=5))
    assert sum(p.numel() for p in small.parameters()) < 10_000


def test_parameter_counts():
    counts = parameter_counts("monolithic", "paper", bodies=[WALKER])
    inputs = 7 * 41
    assert counts["actor"] == inputs * 256 + 256 + 256 * 256 + 256 + 256 * 18 + 18
    assert counts["critic"] == (inputs + 18) * 256 + 256 + 256 * 256 + 256 + 257
    assert parameter_counts("set")["actor"] < parameter_counts("set", "paper")["actor"] / 10


def test_fields_of_a_config_are_found_under_their_old_names():
    old = {"layers": 1, "embedding": 8, "hidden": 8, "matrix": 5, "whole": True}
    config = make_actor("set", config=old).network.config
    assert config == SETConfig(layers=1, embedding=8, hidden=8, matrix=5, canonical_positions=True)


def test_a_config_of_another_method_is_refused():
    with pytest.raises(ValueError, match="SWAT takes a SWATConfig, not a SETConfig"):
        make_actor("swat", config=SETConfig())
