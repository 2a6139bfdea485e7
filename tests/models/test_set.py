"""SET: its equations by hand, its symmetry, its ablations."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sgrl.models import attention
from sgrl.models import set as set_
from sgrl.models.attention import attention_weights, weighted_values, weighted_vectors
from sgrl.models.batch import layout_of
from sgrl.models.network import ACTOR, CRITIC, VALUE
from sgrl.models.set import (
    ABLATIONS,
    PRESETS,
    SET,
    GramLinear,
    SETConfig,
    SETLayer,
    ablate,
    rms_norm,
)
from sgrl.models.states import random_batch
from sgrl.morphology import body_names, resolve_bodies
from sgrl.symmetry import transform

BODIES = resolve_bodies(
    ("3d_walker_2_right_leg_left_knee", "3d_cheetah_14_full", "3d_hopper_5_full")
)


def test_attention_by_hand(grow):
    """Two limbs, one head, one number each for query, key and value."""
    packing = layout_of((grow(2),), [0]).packing
    q, k, v = torch.tensor([[1.0, 0.0], [0.0, math.log(3.0)], [2.0, 10.0]]).view(3, 2, 1, 1)
    vectors = torch.tensor([[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    # Limb 0 has logits (0, ln 3): weights 1/4 and 3/4. Limb 1 has (0, 0): a half each.
    alpha = attention_weights(q, k, None, packing)
    torch.testing.assert_close(alpha[0, 0], torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    values = weighted_values(alpha, v, packing)
    torch.testing.assert_close(values[:, 0], torch.tensor([[8.0], [6.0]]))
    moved = weighted_vectors(alpha, vectors.unsqueeze(2), packing)[:, 0, :, 0]
    torch.testing.assert_close(moved, torch.tensor([[0.25, 3.0, 0.0], [0.5, 2.0, 0.0]]))
    # A bias of ln 3 on limb 1's attention to itself: a quarter and three quarters.
    bias = torch.tensor([[[[0.0, 0.0], [0.0, math.log(3.0)]]]])
    values = weighted_values(attention_weights(q, k, bias, packing), v, packing)
    torch.testing.assert_close(values[:, 0], torch.tensor([[8.0], [8.0]]))


def test_one_layer_is_the_equations(grow):
    """Two limbs through one layer, against the equations written out in NumPy."""
    torch.manual_seed(0)
    heads, width, channels = 2, 4, 3
    config = SETConfig(layers=1, heads=heads, embedding=width, hidden=6, matrix=5)
    config = replace(config, matrix_hidden=7, gram_hidden=8)
    layer = SETLayer(config, first=False, last=False).double()
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

    layout = layout_of((grow(2),), [0])
    gd = torch.from_numpy(np.stack(stacked)[..., channels:])
    got_h, got, _ = layer(torch.from_numpy(h), torch.from_numpy(vectors), gd, layout)
    np.testing.assert_allclose(got_h.detach(), new_h, atol=1e-12)
    np.testing.assert_allclose(got.detach(), new_vectors, atol=1e-12)


def test_a_map_of_inner_products():
    torch.manual_seed(0)
    vectors = torch.randn(4, 3, 5, dtype=torch.float64)
    gram = GramLinear(5, 7, 1.0, bias=False).double()
    first, second = torch.triu_indices(5, 5)
    expected = (vectors.mT @ vectors)[:, first, second] @ gram.weight.T
    torch.testing.assert_close(gram(vectors), expected)


def test_rms_norm_leaves_short_vectors_and_shortens_long_ones():
    vectors = torch.randn(4, 3, 5, dtype=torch.float64)
    scale = (1 + vectors.square().sum(dim=(1, 2), keepdim=True) / 5).rsqrt()
    torch.testing.assert_close(rms_norm(vectors), vectors * scale)
    torch.testing.assert_close(rms_norm(1e-9 * vectors), 1e-9 * vectors)
    length = rms_norm(1e9 * vectors).square().sum(dim=1).mean(dim=1)
    torch.testing.assert_close(length, torch.ones_like(length))


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
    network = SET(config, role).double()
    batch = random_batch(BODIES, 4)
    action = torch.rand(batch.layout.num_limbs, 3, dtype=torch.float64) if role == CRITIC else None
    before = network(batch, action)
    for name, turn in _turns(0).items():
        error = (network(transform(batch, turn), action) - before).abs().max()
        assert error < 1e-9 if name in kept else error > 1e-3, name


def test_gd_is_blind_to_a_turn_of_the_vectors_alone():
    torch.manual_seed(0)
    network = SET(ablate(PRESETS["fast"], "gd"), ACTOR).double()
    batch = random_batch(BODIES, 4)
    turned = batch.replace(vectors=batch.vectors @ _turns(0)["any"].T)
    assert (network(turned) - network(batch)).abs().max() < 1e-9


def test_z_does_not_see_the_height():
    torch.manual_seed(0)
    batch = random_batch(BODIES, 2)
    raised = batch.replace(scalars=batch.scalars + torch.eye(17)[-1])
    for ablation, blind in (("z", True), ("g", False)):
        network = SET(ablate(PRESETS["fast"], ablation), ACTOR).double()
        assert (network(raised) - network(batch)).abs().max().item() < 1e-12 or not blind
        assert (network(raised) - network(batch)).abs().max().item() > 1e-3 or blind


def test_torques_follow_the_hinge_axes():
    """An action is the torque on an axis: turn an axis around and it changes its sign."""
    torch.manual_seed(0)
    network = SET(PRESETS["fast"], ACTOR).double()
    batch = random_batch(BODIES)
    h, vectors, fields, _ = network._run(batch, None)
    stacked = torch.cat((vectors, fields), dim=-1)
    factors = network.read_out(torch.relu(network.hidden(network.invariants(h, stacked))))
    torque = torch.einsum("lik,lk->li", stacked, factors)
    expected = torch.einsum("li,lai->la", torque, batch.vectors[:, 3:])
    torch.testing.assert_close(network(batch), expected)
    assert network(batch)[batch.layout.is_torso].abs().max() == 0


def test_ablations_are_settings():
    assert set(ABLATIONS) == {"g", "gd", "z", "in_invar", "out_invar"}
    with pytest.raises(ValueError, match="no torque to project"):
        SETConfig(geometry="scalar")
    with pytest.raises(ValueError, match="evenly"):
        SETConfig(embedding=31)
    with pytest.raises(ValueError, match="room for a channel"):
        SETConfig(matrix=2)


def test_paper_preset_has_the_sizes_of_the_paper():
    config = PRESETS["paper"]
    assert (config.layers, config.heads, config.embedding, config.hidden) == (3, 2, 128, 256)
    assert (config.matrix, config.matrix_hidden, config.gram_hidden) == (32, 512, 512)
    network = SET(config, ACTOR)
    batch = random_batch(resolve_bodies(body_names()), dtype=torch.float32)
    assert network(batch).shape == (batch.layout.num_limbs, 3)


def lines_in_docs() -> list[str]:
    """The lines of code in the table of equations."""
    page = Path(__file__).parents[2] / "docs" / "explanation" / "set.md"
    _, table = page.read_text(encoding="utf-8").split("| equation | line of code |")
    rows = [line for line in table.split("\n\n")[0].splitlines() if line.startswith("| ")]
    return [row.split("|", 2)[2].strip(" |").strip("`") for row in rows if "---" not in row]


def test_each_equation_has_its_line() -> None:
    code = [Path(module.__file__).read_text(encoding="utf-8") for module in (set_, attention)]
    lines = [line.split("  #")[0].strip() for file in code for line in file.splitlines()]
    assert len(lines_in_docs()) > 15
    assert [line for line in lines_in_docs() if line not in lines] == []
    for label in ("eq:z", "eq:M", "eq:h", "eq:mz", "eq:readout", "eq:action"):
        assert any(label in line for line in code[0].splitlines() if "  #" in line), label
