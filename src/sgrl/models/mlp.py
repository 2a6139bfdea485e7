"""A plain multi-layer perceptron."""

from __future__ import annotations

import math

from torch import nn

RECTIFIED = 2**0.5
"""Gain of a layer whose outputs are rectified, which halves their mean square."""
OUTPUT_GAIN = 0.5
"""Of the last layer at the start: actions neither 0 nor ±1, values below 1 in size."""


def mlp(
    inputs: int,
    hidden: tuple[int, ...],
    outputs: int,
    input_size: float = 1.0,
    *,
    layer_norm: bool = False,
) -> nn.Sequential:
    """Linear layers with ReLU between them, normalized before it if asked for, the last one bare.

    Weights start orthogonal and biases at 0, scaled so that inputs of root mean square
    `input_size` keep numbers of order 1 in every layer.
    """
    layers: list[nn.Module] = []
    for units in hidden:
        layers.append(linear(inputs, units, math.sqrt(2) / input_size))
        layers += [nn.LayerNorm(units), nn.ReLU()] if layer_norm else [nn.ReLU()]
        inputs, input_size = units, 1.0
    return nn.Sequential(*layers, linear(inputs, outputs, OUTPUT_GAIN / input_size))


def linear(inputs: int, outputs: int, gain: float, bias: bool = True) -> nn.Linear:
    """A linear layer that makes numbers `gain` times as large, with a bias of 0."""
    layer = nn.Linear(inputs, outputs, bias)
    initialize(layer, gain)
    return layer


def initialize(layer: nn.Linear, gain: float) -> None:
    """Orthogonal weights that make numbers `gain` times as large, and a bias of 0."""
    nn.init.orthogonal_(
        layer.weight, gain * math.sqrt(max(1.0, layer.out_features / layer.in_features))
    )
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
