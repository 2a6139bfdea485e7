"""Networks that see the world in a frame of their own: +HN and +TN, one mechanism.

`Canonicalized` rotates its input about the vertical until a chosen direction lies along x, and
calls the network it wraps. If that direction rotates with the world, the network's input
does not change when the world rotates: whatever the network is, the result is invariant
under every rotation about the vertical. It is not invariant under reflections, since a
frame can be rotated but not mirrored.

- `heading` (+HN): the torso's x axis on the ground. It calls one side of a body its
  front; `bias`, an angle added to the heading, shows in evaluation what that costs.
- `target` (+TN): the direction of the target, which is observed as it is and needs no
  notion of forward.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from sgrl.envs.observation import VECTOR_NAMES
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.morphology import Morphology
from sgrl.symmetry import rotation_onto_x, transform

Frame = Literal["heading", "target"]

_AXIS_X = VECTOR_NAMES.index("axis_x")
_AXIS_Y = VECTOR_NAMES.index("axis_y")


class Canonicalized(nn.Module):
    """A network of the common interface, fed with the world as seen in a frame.

    `Canonicalized(actor)(batch)`, `Canonicalized(critic)(batch, action)`: what follows the batch is
    passed on. Actions and values have no direction and come back as they are.
    """

    def __init__(self, network: nn.Module, frame: Frame = "heading", bias: float = 0.0) -> None:
        """`bias` radians are added to the heading."""
        super().__init__()
        if frame not in ("heading", "target"):
            raise ValueError(f"unknown frame {frame!r}; there are heading and target")
        if frame == "target" and bias:
            raise ValueError("a bias rotates the notion of forward; the target frame has none")
        self.network = network
        self.frame = frame
        self.bias = bias

    def forward(self, batch: LimbBatch, *rest: Any) -> Any:
        return self.network(canonicalize(batch, self.frame, self.bias), *rest)

    @property
    def has_attention(self) -> bool:
        """Whether the network has attention to look at."""
        return getattr(self.network, "has_attention", False)

    def attention(self, batch: LimbBatch, *rest: Any) -> list[Tensor]:
        """The network's attention, see `LimbNetwork.attention`."""
        network: Any = self.network
        layers: list[Tensor] = network.attention(canonicalize(batch, self.frame, self.bias), *rest)
        return layers

    def extra_repr(self) -> str:
        return f"frame={self.frame}, bias={self.bias}"


def with_heading_bias(model: nn.Module, bias: float) -> nn.Module:
    """A copy of a model, for evaluation, whose headings are off by `bias` radians."""
    model = copy.deepcopy(model)
    frames = [module for module in model.modules() if isinstance(module, Canonicalized)]
    if not any(framed.frame == "heading" for framed in frames):
        raise ValueError("only a model in the heading frame (+hn) has a heading to bias")
    for framed in frames:
        framed.bias = bias
    return model


def canonicalize(batch: LimbBatch, frame: Frame, bias: float = 0.0) -> LimbBatch:
    """The batch rotated about the vertical, row by row, until the frame's direction is x."""
    rotation = rotation_onto_x(batch.target if frame == "target" else heading(batch))
    if bias:
        c, s = math.cos(bias), math.sin(bias)
        back = rotation.new_tensor([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        rotation = back @ rotation
    return transform(batch, rotation)


def heading(batch: LimbBatch) -> Tensor:
    """(rows, 3): each torso's x axis in the world, worked out from what is observed.

    An observation holds no axis of the torso. But the first hinge of a limb on the torso
    is fixed in the torso, so its world axis A is the torso's rotation R times the local
    axis a, which the body tells. The second hinge's world axis B is R times its local axis
    turned about a by the first hinge's angle, which is observed. A, the part of B across
    A, and their cross product are R times three known directions at right angles, and so
    give R·x exactly. In all of the paper's bodies a limb hangs on the torso with
    a = (±1, 0, 0), and R·x is just ±A.
    """
    sources = _sources(batch.layout)
    vectors = batch.vectors.index_select(0, sources.limbs)
    along, across, beyond = sources.weights.to(batch.vectors.dtype).unbind(1)
    first = vectors[:, _AXIS_X]
    found = along[:, None] * first
    if not sources.simple:
        second = vectors[:, _AXIS_Y]
        second = second - (second * first).sum(-1, keepdim=True) * first
        second = second / second.norm(dim=-1, keepdim=True)
        angle = batch.scalars.index_select(0, sources.limbs)[:, 0]
        c, s = angle.cos(), angle.sin()
        found = found + (c * across + s * beyond)[:, None] * second
        third = torch.linalg.cross(first, second)
        found = found + (c * beyond - s * across)[:, None] * third
    return found


@dataclass(frozen=True, eq=False)
class _Sources:
    """Where the heading of each row is read off."""

    limbs: Tensor
    """(rows,): a limb that hangs on the row's torso, as a index among the batch's limbs."""
    weights: Tensor
    """(rows, 3), see `_source`."""
    simple: bool
    """The first hinge's axis is enough in every row."""


_found: WeakKeyDictionary[BatchLayout, _Sources] = WeakKeyDictionary()


def _sources(layout: BatchLayout) -> _Sources:
    if layout not in _found:
        _found[layout] = _find_sources(layout)
    return _found[layout]


def _find_sources(layout: BatchLayout) -> _Sources:
    limbs, weights = zip(*(_source(body) for body in layout.bodies), strict=True)
    limb = torch.tensor(limbs, device=layout.device)[layout.body_index] + layout.torsos
    weight = torch.tensor(weights, dtype=torch.float64, device=layout.device)[layout.body_index]
    return _Sources(limb, weight, simple=not bool(weight[:, 1:].any()))


@lru_cache(maxsize=1024)
def _source(body: Morphology) -> tuple[int, tuple[float, float, float]]:
    """A limb on the torso, and the torso's x axis in the frame of that limb's hinges.

    The frame at angle 0: the first hinge's axis, the second's across it, their cross
    product. The limb whose first hinge lies closest to x is taken.
    """
    best: tuple[int, tuple[float, float, float]] | None = None
    for index, limb in enumerate(body.limbs):
        if limb.parent != body.limbs[0].name:
            continue
        first, second = (np.array(hinge.axis) for hinge in limb.hinges[:2])
        second = second - (second @ first) * first
        length = float(np.linalg.norm(second))
        if length < 1e-6 and abs(first[0]) < 1:
            continue
        second = second / max(length, 1e-6)
        weights = (float(first[0]), float(second[0]), float(np.cross(first, second)[0]))
        if best is None or abs(weights[0]) > abs(best[1][0]):
            best = index, weights
    if best is None:
        raise ValueError(
            f"{body.name}: no limb on the torso has two hinges that are not parallel, so the "
            "torso's heading can't be seen; use the target frame (+tn)"
        )
    return best
