"""The first layer of SET on what was observed, against the same layer on its channels."""

import pytest
import torch

from sgrl.models.batch import layout_of
from sgrl.models.observed import (
    Observed,
    mix,
    observed_products,
    shorten_products,
    weights_of_products,
)
from sgrl.models.set import SetConfig, SetLayer
from sgrl.models.vectors import shorten


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("fields", [0, 1, 2])
def test_observed_products_are_all_inner_products(fields):
    vectors, shared = randn(4, 3, 6), randn(4, 3, fields)
    both = torch.cat((vectors, shared), dim=-1)
    all_products = both.transpose(1, 2) @ both
    pairs = [(i, j) for i in range(6) for j in range(i, 6)]
    pairs += [(i, j) for j in range(6, 6 + fields) for i in range(6)]
    pairs += [(i, j) for i in range(6, 6 + fields) for j in range(i, 6 + fields)]
    expected = torch.stack([all_products[:, i, j] for i, j in pairs], dim=1)
    torch.testing.assert_close(observed_products(vectors, shared), expected)


@pytest.mark.parametrize("fields", [0, 1, 2])
def test_weights_for_channels_as_weights_for_what_they_are_made_of(fields):
    vectors, shared, mixture = randn(4, 3, 6), randn(4, 3, fields), randn(3, 6)
    channels = vectors @ mixture.T
    size = len(mixture) + fields
    rows, columns = torch.triu_indices(size, size)
    both = torch.cat((channels, shared), dim=-1)
    weight = randn(5, len(rows))
    mapped, square = weights_of_products(weight, mixture, fields)
    products = observed_products(vectors, shared)
    expected = (both.transpose(1, 2) @ both)[:, rows, columns] @ weight.T
    torch.testing.assert_close(products @ mapped.T, expected)
    mean_square = channels.square().sum(dim=(1, 2)) / len(mixture)
    torch.testing.assert_close(products[:, : len(square)] @ square, mean_square)


def test_shortened_products_and_their_gradients():
    vectors, shared = randn(4, 3, 3), randn(4, 3, 2)
    products = observed_products(vectors, shared).detach().requires_grad_()
    square = torch.rand(6, dtype=torch.float64, requires_grad=True)

    def shortened(products, square):
        return shorten_products(products, square, 3, 2)

    found, scale = shortened(products, square)
    torch.testing.assert_close(scale, (1 + products[:, :6] @ square).rsqrt().unsqueeze(1))
    torch.testing.assert_close(found, observed_products(vectors * scale.unsqueeze(2), shared))
    assert torch.autograd.gradcheck(shortened, (products.abs(), square))


def test_mixtures_of_blocks():
    blocks, weights = (randn(4, 3, 2), randn(4, 3, 5)), (randn(3, 2), randn(3, 5))
    mixed = mix(tuple(block.flatten(1) for block in blocks), weights, room=2)
    expected = blocks[0] @ weights[0].T + blocks[1] @ weights[1].T
    torch.testing.assert_close(mixed, torch.nn.functional.pad(expected, (0, 2)))


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("gram_hidden", [None, 8])
@pytest.mark.parametrize("shared", ["both", "target", "none"])
def test_the_first_layer_makes_of_observed_vectors_what_it_makes_of_channels(
    grow, last, gram_hidden, shared
):
    """Outputs and gradients of all weights and inputs."""
    kinds = {
        "both": {},
        "target": {"gravity": "scalar"},
        "none": {"gravity": "scalar", "target": "scalar"},
    }
    config = SetConfig(
        embedding=4, hidden=6, matrix=5, matrix_hidden=7, gram_hidden=gram_hidden, **kinds[shared]
    )
    layer = SetLayer(config, first=True, last=last).double()
    layout = layout_of((grow(2), grow(4)), [0, 1, 0])
    packing, fields = layout.packing, config.num_fields
    limbs = layout.num_limbs
    inputs = randn(limbs, 4), randn(limbs, 3, 6), randn(layout.num_rows, 3, fields)
    mixture = randn(config.channels, 6)
    h, vectors, by_row = inputs
    given = layout.spread(by_row)

    channels = torch.nn.functional.pad(vectors @ mixture.T, (0, fields))
    expected = layer(packing, h, shorten(channels, given))
    seen = Observed(vectors, given, observed_products(vectors, given))
    found = layer.at_first(packing, h, seen, mixture)
    leaves = [*layer.parameters(), *inputs, mixture]
    gradients = []
    for results in (expected, found):
        total = sum(torch.sin(x).sum() for x in results[:2])
        gradients.append(torch.autograd.grad(total, leaves, retain_graph=True))
    for one, other in zip((*expected, *gradients[0]), (*found, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other)
