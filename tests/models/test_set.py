"""SET: its equations by hand, its symmetry, its ablations."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sgrl.models.attention import attend, attention_weights
from sgrl.models.batch import layout_of
from sgrl.models.network import ACTOR, CRITIC, VALUE
from sgrl.models.set import ABLATIONS, PRESETS, Set, SetConfig, SetLayer, ablate
from sgrl.models.states import random_batch
from sgrl.models.vectors import combine, inner_products, shorten
from sgrl.morphology import body_names, resolve_bodies
from sgrl.symmetry import transform

BODIES = resolve_bodies(
    ("3d_walker_2_right_leg_left_knee", "3d_cheetah_14_full", "3d_hopper_5_full")
)


def test_attention_by_hand(grow):
    """Two limbs, one head, one number each for query, key and value."""
    packing = layout_of((grow(2),), [0]).packing
    queries, keys, values = [1.0, 0.0], [0.0, math.log(3.0)], [2.0, 10.0]
    qkv = torch.tensor([queries, keys, values]).unsqueeze(2)
    vectors = torch.tensor([[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    # Limb 0 has logits (0, ln 3): weights 1/4 and 3/4. Limb 1 has (0, 0): a half each.
    weights = attention_weights(packing, qkv)
    torch.testing.assert_close(weights[0, 0], torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    (scalars,), (moved,) = attend(packing, qkv, None, vectors)
    torch.testing.assert_close(scalars, torch.tensor([[8.0], [6.0]]))
    torch.testing.assert_close(moved, torch.tensor([[0.25, 3.0, 0.0], [0.5, 2.0, 0.0]]))
    # A bias of ln 3 on what limb 1 hears from itself: a quarter and three quarters.
    bias = torch.tensor([[[[0.0, 0.0], [0.0, math.log(3.0)]]]])
    (scalars,), _ = attend(packing, qkv, bias)
    torch.testing.assert_close(scalars, torch.tensor([[8.0], [8.0]]))


def test_one_layer_is_the_equations(grow):
    """Two limbs through one layer, against the equations written out in NumPy."""
    torch.manual_seed(0)
    heads, width, channels = 2, 4, 3
    config = SetConfig(layers=1, heads=heads, embedding=width, hidden=6, matrix=5)
    config = replace(config, matrix_hidden=7, gram_hidden=8)
    layer = SetLayer(config, first=False, last=False).double()
    h = np.random.default_rng(0).normal(size=(2, width))
    vectors = np.random.default_rng(1).normal(size=(2, 3, channels))
    gravity, target = np.array([0.0, 0.0, -1.0]), np.array([0.6, 0.8, 0.0])
    w = {name: p.detach().numpy() for name, p in layer.named_parameters()}

    def norm(x, name):
        centred = x - x.mean()
        return (
            centred / np.sqrt((centred**2).mean() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]
        )

    def relu(x):
        return np.maximum(x, 0.0)

    stacked = [np.column_stack((z, gravity, target)) for z in vectors]
    embeddings = []
    for limb in range(2):
        products = [
            stacked[limb][:, i] @ stacked[limb][:, j] for i in range(5) for j in range(i, 5)
        ]
        inner = relu(w["invariants.gram_in.weight"] @ products + w["invariants.gram_in.bias"])
        read = w["invariants.read.weight"] @ h[limb] + w["invariants.read.bias"]
        embeddings.append(relu(read + w["invariants.gram_out.weight"] @ inner))
    q, k, v = (np.array(embeddings) @ part.T for part in np.split(w["qkv.weight"], 3))
    new_h, new_vectors = [], []
    for limb in range(2):
        heard, moved = [], []
        for part in (slice(0, 2), slice(2, 4)):
            logits = np.array([q[limb, part] @ k[other, part] for other in range(2)]) / np.sqrt(2)
            alpha = np.exp(logits) / np.exp(logits).sum()
            heard.append(alpha[0] * v[0, part] + alpha[1] * v[1, part])
            moved.append(alpha[0] * stacked[0] + alpha[1] * stacked[1])
        after = norm(h[limb] + w["out.weight"] @ np.concatenate(heard), "norm")
        z = vectors[limb] + np.column_stack(moved) @ w["move.weight"].T
        hidden = relu(w["hidden.weight"] @ after + w["hidden.bias"])
        new_h.append(norm(after + w["feed_forward.weight"] @ hidden[:6], "feed_forward_norm"))
        matrix = (w["matrix.weight"] @ hidden[6:]).reshape(5, channels)
        z = z + np.column_stack((z, gravity, target)) @ matrix
        new_vectors.append(z / np.sqrt(1 + (z**2).sum() / channels))

    packing = layout_of((grow(2),), [0]).packing
    got_h, got, _ = layer(packing, torch.from_numpy(h), torch.from_numpy(np.stack(stacked)))
    np.testing.assert_allclose(got_h.detach(), new_h, atol=1e-12)
    np.testing.assert_allclose(got.detach()[..., :channels], new_vectors, atol=1e-12)
    np.testing.assert_allclose(got.detach()[..., channels:], np.stack(stacked)[..., channels:])


@pytest.mark.parametrize("outputs", [4, 20], ids=["few", "many"])
def test_maps_of_inner_products(outputs):
    torch.manual_seed(0)
    vectors = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(outputs, 15, dtype=torch.float64, requires_grad=True)
    rows, columns = torch.triu_indices(5, 5)
    expected = (vectors.transpose(1, 2) @ vectors)[:, rows, columns] @ weight.T

    def mapped(vectors, weight):
        products, weight = inner_products(vectors, weight)
        return products @ weight.T

    torch.testing.assert_close(mapped(vectors, weight), expected)
    assert torch.autograd.gradcheck(mapped, (vectors, weight))


def test_shorten_has_the_right_gradients():
    torch.manual_seed(0)
    vectors = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    fields = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)

    def shortened(vectors, fields):
        return shorten(torch.nn.functional.pad(vectors, (0, fields.shape[-1])), fields)

    scale = (1 + vectors.square().sum(dim=(1, 2), keepdim=True) / 5).rsqrt()
    expected = torch.cat((vectors * scale, fields), dim=-1)
    torch.testing.assert_close(shortened(vectors, fields), expected)
    assert torch.autograd.gradcheck(shortened, (vectors, fields))
    assert torch.autograd.gradcheck(shortened, (vectors, fields[..., :0].detach()))


def test_combine_has_the_right_gradients():
    torch.manual_seed(0)
    vectors = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    expected = torch.einsum("nxm,nm->nx", vectors, factors)
    torch.testing.assert_close(combine(vectors, factors), expected)
    assert torch.autograd.gradcheck(combine, (vectors, factors))


@pytest.mark.parametrize("rows", [[0, 1, 0], [1, 1], [0, 0, 1, 0]], ids=["full", "alike", "gaps"])
def test_attention_has_the_right_gradients(grow, rows):
    torch.manual_seed(0)
    packing = (layout := layout_of((grow(2), grow(4)), rows)).packing
    qkv = torch.randn(6, layout.num_limbs, 2, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(layout.num_limbs, 6, dtype=torch.float64, requires_grad=True)

    def scalars_and_vectors(qkv, bias, vectors):
        scalars, moved = attend(packing, qkv, bias, vectors)
        return scalars, *moved

    for bins in (1, packing.bins):
        shape = (2, bins, packing.size, packing.size)
        bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(scalars_and_vectors, (qkv, bias, vectors))
    assert torch.autograd.gradcheck(lambda x: attend(packing, x)[0], (qkv,))


def _turns(seed: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    cos, sin = np.cos(angle := rng.uniform(0, 2 * np.pi)), np.sin(angle)
    about_vertical = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    any_of_o3 = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return {
        "rotation": torch.from_numpy(about_vertical),
        "reflection": torch.from_numpy(about_vertical @ np.diag([1.0, -1.0, 1.0])),
        "any": torch.from_numpy(any_of_o3),
    }


@pytest.mark.parametrize("role", [ACTOR, CRITIC, VALUE], ids=["actor", "critic", "value"])
@pytest.mark.parametrize(
    ("ablation", "kept"),
    [
        (None, {"rotation", "reflection"}),
        ("z", {"rotation", "reflection"}),
        ("out_invar", {"rotation", "reflection"}),
        ("g", {"rotation", "reflection", "any"}),
        ("gd", set()),
        ("in_invar", set()),
    ],
)
def test_symmetry(ablation, kept, role):
    torch.manual_seed(0)
    config = PRESETS["fast"] if ablation is None else ablate(PRESETS["fast"], ablation)
    network = Set(config, role).double()
    batch = random_batch(BODIES, 4)
    action = torch.rand(batch.layout.num_limbs, 3, dtype=torch.float64) if role == CRITIC else None
    before = network(batch, action)
    for name, turn in _turns(0).items():
        error = (network(transform(batch, turn), action) - before).abs().max()
        assert error < 1e-9 if name in kept else error > 1e-3, name


def test_gd_is_blind_to_a_turn_of_the_vectors_alone():
    torch.manual_seed(0)
    network = Set(ablate(PRESETS["fast"], "gd"), ACTOR).double()
    batch = random_batch(BODIES, 4)
    turned = batch.replace(vectors=batch.vectors @ _turns(0)["any"].T)
    assert (network(turned) - network(batch)).abs().max() < 1e-9


def test_z_does_not_see_the_height():
    torch.manual_seed(0)
    batch = random_batch(BODIES, 2)
    raised = batch.replace(scalars=batch.scalars + torch.eye(17)[-1])
    for ablation, blind in (("z", True), ("g", False)):
        network = Set(ablate(PRESETS["fast"], ablation), ACTOR).double()
        assert (network(raised) - network(batch)).abs().max().item() < 1e-12 or not blind
        assert (network(raised) - network(batch)).abs().max().item() > 1e-3 or blind


def test_torques_follow_the_hinge_axes():
    """An action is the torque on an axis: turn an axis around and it changes its sign."""
    torch.manual_seed(0)
    network = Set(PRESETS["fast"], ACTOR).double()
    batch = random_batch(BODIES)
    h, stacked, _ = network._run(batch, None)
    factors = network.read_out(torch.relu(network.hidden(network.invariants(h, stacked))))
    torque = torch.einsum("lik,lk->li", stacked, factors)
    expected = torch.einsum("li,lai->la", torque, batch.vectors[:, 3:])
    torch.testing.assert_close(network(batch), expected)
    assert network(batch)[batch.layout.is_torso].abs().max() == 0


def test_ablations_are_settings():
    assert set(ABLATIONS) == {"g", "gd", "z", "in_invar", "out_invar"}
    with pytest.raises(ValueError, match="no torque to project"):
        SetConfig(geometry="scalar")
    with pytest.raises(ValueError, match="evenly"):
        SetConfig(embedding=31)
    with pytest.raises(ValueError, match="room for a channel"):
        SetConfig(matrix=2)


def test_paper_preset_has_the_sizes_of_the_paper():
    config = PRESETS["paper"]
    assert (config.layers, config.heads, config.embedding, config.hidden) == (3, 2, 128, 256)
    assert (config.matrix, config.matrix_hidden, config.gram_hidden) == (32, 512, 512)
    network = Set(config, ACTOR)
    batch = random_batch(resolve_bodies(body_names()), dtype=torch.float32)
    assert network(batch).shape == (batch.layout.num_limbs, 3)
