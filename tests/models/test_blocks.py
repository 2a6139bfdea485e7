"""Blocks of a transformer against their formulas, with their gradients."""

import pytest
import torch
from torch.nn import functional

from sgrl.models.blocks import embed, feed_forward, project, rectify, renew


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("limbs", [1, 3, 6], ids=["bias", "alike", "mix"])
def test_embed(limbs):
    x, weight, place = randn(6, 5), randn(4, 5), randn(limbs, 4)
    expected = x @ weight.T + place.repeat(6 // limbs, 1)
    torch.testing.assert_close(embed(x, weight, place), expected)
    assert torch.autograd.gradcheck(embed, (x, weight, place))


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


@pytest.mark.parametrize("limbs", [None, 1, 3, 6])
def test_project(limbs):
    x, weight = randn(6, 5), randn(8, 5)
    place = None if limbs is None else randn(limbs, 8)
    expected = x @ weight.T
    expected = expected if place is None else expected + place.repeat(6 // limbs, 1)
    projected = project(x, weight, 4, place)
    torch.testing.assert_close(projected.transpose(0, 1).flatten(1), expected)
    assert torch.autograd.gradcheck(
        lambda *inputs: project(*inputs[:2], 4, *inputs[2:]),
        (x, weight) if place is None else (x, weight, place),
    )


def test_renew():
    x, heard, weight, norm = randn(6, 4), randn(2, 6, 3), randn(4, 6), norm_of(4)
    expected = norm(x + heard.transpose(0, 1).flatten(1) @ weight.T)
    torch.testing.assert_close(renew(x, heard, weight, norm), expected)

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


def test_gradients_go_through_frozen_weights():
    x, weight, bias = randn(6, 4), randn(4, 4), randn(4)
    norm, first = norm_of(4), torch.nn.Linear(4, 4).double()

    def gradient(weight, bias):
        h = rectify(embed(x, weight, bias.view(1, -1)), weight, bias)
        h = renew(h, project(h, weight, 2), weight, norm)
        found = feed_forward(h, first, weight, norm)[0].square().sum()
        return torch.autograd.grad(found, x)

    expected = gradient(weight, bias)
    norm.requires_grad_(False)
    first.requires_grad_(False)
    torch.testing.assert_close(gradient(weight.detach(), bias.detach()), expected)
