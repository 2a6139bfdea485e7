"""Twin critics of SAC: flat ones, which need not generalize, or the method's own.

A flat critic is a plain network of the whole body in the target frame. It reads the limbs of a
body in their positions in the full body of its family, where limbs that are missing are zero, and
which body it is. Each family has its own; so has a body without a family. It only serves training
and never ships with a policy.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sgrl.envs.observation import NUM_SCALARS, NUM_VECTORS, POSITION
from sgrl.models.batch import BatchLayout, LimbBatch
from sgrl.models.canonical import canonicalize
from sgrl.models.network import TwinCritic
from sgrl.models.normalizer import ColumnStatistics
from sgrl.morphology import Morphology
from sgrl.morphology.families import family_of

TWINS = 2
HIDDEN_LAYERS = 2
OUTPUT_SCALE = 0.01
"""Size of the last layer's weights at the start: all values begin near 0."""
_VECTOR_NUMBERS = 3 * NUM_VECTORS
_LIMB_NUMBERS = _VECTOR_NUMBERS + 3 + 1
"""Numbers of a limb that vary: vectors, angles, height."""


class TwinMLP(nn.Module):
    """Two MLPs side by side, as stacked products: linear, LayerNorm and ReLU in each layer."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.gains, self.shifts = nn.ParameterList(), nn.ParameterList()
        for _ in range(HIDDEN_LAYERS):
            weight = torch.randn(TWINS, inputs, width) / math.sqrt(inputs)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(TWINS, 1, width)))
            self.gains.append(nn.Parameter(torch.ones(TWINS, 1, width)))
            self.shifts.append(nn.Parameter(torch.zeros(TWINS, 1, width)))
            inputs = width
        last = torch.randn(TWINS, width, 1) * (OUTPUT_SCALE / math.sqrt(width))
        self.last_weight = nn.Parameter(last)
        self.last_bias = nn.Parameter(torch.zeros(TWINS, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(2, rows) of (rows, inputs)."""
        x = x.expand(TWINS, -1, -1)
        layers = zip(self.weights, self.biases, self.gains, self.shifts, strict=True)
        for weight, bias, gain, shift in layers:
            x = torch.baddbmm(bias, x, weight)
            x = torch.addcmul(shift, functional.layer_norm(x, x.shape[-1:]), gain)
            x = functional.relu(x)
        return torch.baddbmm(self.last_bias, x, self.last_weight).squeeze(-1)


class FlatCritic(nn.Module):
    """Q of the rows of batches that all have one layout: (2, rows)."""

    _order: Tensor

    def __init__(self, layout: BatchLayout, width: int) -> None:
        super().__init__()
        rows_of: dict[str, list[int]] = {}
        names = [_critic_name(body) for body in layout.bodies]
        for row, body in enumerate(layout.body_index.tolist()):
            rows_of.setdefault(names[body], []).append(row)
        self.parts = nn.ModuleDict(
            {name: _Part(layout, rows, width) for name, rows in rows_of.items()}
        )
        order = np.argsort(np.concatenate(list(rows_of.values())), kind="stable")
        self.register_buffer("_order", torch.from_numpy(order), persistent=False)

    def forward(self, batch: LimbBatch, action: Tensor) -> Tensor:
        """(2, rows) for actions (limbs, 3)."""
        limbs = self._limbs(batch)
        values: list[Tensor] = [part(limbs, action) for part in self.parts.values()]
        if len(values) == 1:
            return values[0]
        return torch.cat(values, dim=1).index_select(1, self._order)

    def _limbs(self, batch: LimbBatch) -> Tensor:
        """(limbs, 22): what varies of each limb, in the target frame."""
        seen = canonicalize(batch, "target")
        height = seen.scalars[:, NUM_SCALARS - 1 :]
        return torch.cat((seen.vectors.flatten(1), seen.scalars[:, :3], height), dim=1)


class _Part(nn.Module):
    """The critic of one family's rows."""

    _column: Tensor
    _column_present: Tensor
    _motor: Tensor
    _motor_present: Tensor
    _body: Tensor

    def __init__(self, layout: BatchLayout, rows: list[int], width: int) -> None:
        super().__init__()
        body_index = layout.body_index[rows].tolist()
        kinds = sorted(set(body_index))
        starts = layout.torsos[rows].numpy()
        full = _full_body(layout.bodies[kinds[0]])
        columns_of = {kind: _columns(full, layout.bodies[kind]) for kind in kinds}
        motors_of = {kind: _motors(full, layout.bodies[kind]) for kind in kinds}
        moved = np.any([motors >= 0 for motors in motors_of.values()], axis=0)
        columns = np.stack([columns_of[kind] for kind in body_index])
        motors = np.stack([motors_of[kind][moved] for kind in body_index])
        self._register("_column", columns, starts * _LIMB_NUMBERS)
        self._register("_motor", motors, starts * 3)
        one_hot = np.zeros((len(rows), len(kinds) if len(kinds) > 1 else 0), np.float32)
        if len(kinds) > 1:
            one_hot[np.arange(len(rows)), [kinds.index(body) for body in body_index]] = 1.0
        self.register_buffer("_body", torch.from_numpy(one_hot), persistent=False)
        self.statistics = ColumnStatistics(columns.shape[1])
        self.network = TwinMLP(columns.shape[1] + one_hot.shape[1] + motors.shape[1], width)

    def _register(self, name: str, indices: NDArray[np.intp], starts: NDArray[np.intp]) -> None:
        present = indices >= 0
        indices = np.where(present, indices + starts[:, None], 0)
        self.register_buffer(name, torch.from_numpy(indices), persistent=False)
        mask = torch.from_numpy(present.astype(np.float32))
        self.register_buffer(f"{name}_present", mask, persistent=False)

    def forward(self, limbs: Tensor, action: Tensor) -> Tensor:
        """(2, rows) of all limbs' numbers (limbs, 22) and actions (limbs, 3)."""
        columns = limbs.reshape(-1)[self._column] * self._column_present
        motors = action.reshape(-1)[self._motor] * self._motor_present
        inputs = (self.statistics(columns), self._body, motors)
        result: Tensor = self.network(torch.cat(inputs, dim=1))
        return result


class MethodCritic(nn.Module):
    """Q of a row is the mean of its limbs' Q."""

    def __init__(self, twins: TwinCritic) -> None:
        super().__init__()
        self.twins = twins

    def forward(self, batch: LimbBatch, action: Tensor) -> Tensor:
        """(2, rows) for actions (limbs, 3)."""
        return torch.stack([batch.layout.row_mean(q) for q in self.twins(batch, action)])


def _critic_name(body: Morphology) -> str:
    """Which critic a body has."""
    family = family_of(body)
    whole = family is not None and _full_body(body) is family.body
    return body.family if whole else body.name.replace(".", "_")


def _full_body(body: Morphology) -> Morphology:
    """The full body of its family, of which it has some limbs, or the body itself."""
    family = family_of(body)
    if family is None or not set(body.limb_names) <= set(family.body.limb_names):
        return body
    return family.body


def _limbs(full: Morphology, body: Morphology) -> NDArray[np.intp]:
    """(limbs of the full body, 1): the index of each in the body, -1 if it is missing."""
    index = {name: i for i, name in enumerate(body.limb_names)}
    return np.array([[index.get(name, -1)] for name in full.limb_names])


def _columns(full: Morphology, body: Morphology) -> NDArray[np.intp]:
    """Where each number that varies in the full body lies among those of the body's limbs
    (limbs * 22); -1 if it is missing."""
    varies = np.ones((full.num_limbs, _LIMB_NUMBERS), np.bool_)
    varies[0, POSITION] = False
    hinges = np.repeat(full.hinge_mask, 3, axis=1)
    varies[:, _VECTOR_NUMBERS - hinges.shape[1] : -1] = np.hstack((hinges, full.hinge_mask))
    limbs = _limbs(full, body)
    columns = np.where(limbs < 0, -1, limbs * _LIMB_NUMBERS + np.arange(_LIMB_NUMBERS))
    return columns[varies]


def _motors(full: Morphology, body: Morphology) -> NDArray[np.intp]:
    """Where each motor of the full body, (limbs * 3,), lies among those of the body's limbs; -1 if
    it is missing or moves nothing."""
    limbs = _limbs(full, body)
    moved = body.by_limb(body.actuated)[limbs[:, 0]] & (limbs >= 0)
    return np.where(moved, limbs * 3 + np.arange(3), -1).ravel()
