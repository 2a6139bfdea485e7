"""Blocks of a transformer against their formulas, with their gradients."""

import pytest
import torch
from torch.nn import functional

from sgrl.models.blocks import embed, feed_forward, rectify, renew


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("shape", [(1, 1, 4), (1, 3, 4), (2, 3, 4)], ids=["bias", "alike", "bins"])
def test_embed(shape):
    x, weight, per_bin = randn(6, 5), randn(4, 5), randn(*shape)
    expected = ((x @ weight.T).view(2, 3, 4) + per_bin).view(6, 4)
    torch.testing.assert_close(embed(x, weight, per_bin), expected)
    assert torch.autograd.gradcheck(embed, (x, weight, per_bin))


def test_rectify():
    x, weight, bias, also, by = randn(6, 5), randn(4, 5), randn(4), randn(6, 3), randn(4, 3)
    torch.testing.assert_close(rectify(x, weight, bias), torch.relu(x @ weight.T + bias))
    expected = torch.relu(x @ weight.T + bias + also @ by.T)
    torch.testing.assert_close(rectify(x, weight, bias, also, by), expected)
    assert torch.autograd.gradcheck(rectify, (x, weight, bias))
    assert torch.autograd.gradcheck(rectify, (x, weight, bias, also, by))


def norm_of(width):
    norm = torch.nn.LayerNorm(width, eps=1e-3).double()
    with torch.no_grad():
        norm.weight.copy_(torch.rand(width) + 0.5)
        norm.bias.copy_(torch.randn(width))
    return norm


def test_renew():
    x, heard, weight, norm = randn(6, 4), randn(6, 5), randn(4, 5), norm_of(4)
    torch.testing.assert_close(renew(x, heard, weight, norm), norm(x + heard @ weight.T))

    def renewed(*inputs):
        return renew(*inputs[:3], norm)

    assert torch.autograd.gradcheck(renewed, (x, heard, weight, *norm.parameters()))


@pytest.mark.parametrize("left", [0, 2])
def test_feed_forward(left):
    x, second, norm = randn(6, 4), randn(4, 5), norm_of(4)
    first = torch.nn.Linear(4, 5 + left).double()
    hidden = torch.relu(first(x))
    renewed, rest = feed_forward(x, first, second, norm)
    torch.testing.assert_close(renewed, norm(x + functional.linear(hidden[:, :5], second)))
    assert (rest is None) == (left == 0)
    if rest is not None:
        torch.testing.assert_close(rest, hidden[:, 5:])

    def both(*inputs):
        found = feed_forward(inputs[0], first, inputs[1], norm)
        return tuple(one for one in found if one is not None)

    weights = *first.parameters(), *norm.parameters()
    assert torch.autograd.gradcheck(both, (x, second, *weights))
