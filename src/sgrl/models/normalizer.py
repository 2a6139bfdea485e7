"""Numbers brought to a size of about 1 by running statistics.

`Normalizer` is for observations and keeps every symmetry. Its statistics are shared by all limbs
and bodies. A scalar is centered and divided by its standard deviation. A kind of vector is divided
by one number, its root mean square length: never centered, never one coordinate by another number
than the others. So rotating or mirroring before or after is the same. What is of that size by
nature stays as it is: hinge axes, gravity and target direction have length 1, and angles are
radians that the heading frame is worked out from.

`ColumnStatistics` is for tables of numbers, in networks without the symmetry.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sgrl.envs.observation import ANGLES, FEATURES, POSITION, SCALARS, VELOCITIES

SMALLEST_STD = 0.1
"""Standard deviation below which a scalar is not blown up further. On a body that training did not
see, what was constant in training may not be."""
CLIP = 5.0
"""Largest size of a normalized number."""
SMALLEST_VARIANCE = 1e-4
INITIAL_COUNT = 1e-4
_VECTORS = (POSITION, *(slice(i, i + 3) for i in range(VELOCITIES.start, VELOCITIES.stop, 3)))
_SCALARS = slice(ANGLES.stop, SCALARS.stop)


class Normalizer(nn.Module):
    """Running statistics of what limbs observe; without any, observations stay as they are."""

    count: Tensor
    mean: Tensor
    square: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        # Sums over millions of limbs, so float64.
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(FEATURES, dtype=torch.float64))
        self.register_buffer("square", torch.zeros(FEATURES, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))

    def forward(self, observations: Tensor) -> Tensor:
        """Flat observations (rows, limbs * 41), normalized; padding becomes anything finite."""
        limbs = observations.reshape(*observations.shape[:-1], -1, FEATURES)
        scaled = torch.addcmul(self.shift.to(limbs), limbs, self.scale.to(limbs))
        return scaled.flatten(-2)

    @torch.no_grad()
    def update(self, limbs: Tensor) -> None:
        """Count in what limbs observed, (limbs, 41)."""
        seen = limbs.to(self.mean)
        total = self.count + len(seen)
        self.mean.add_((seen.mean(dim=0) - self.mean) * (len(seen) / total))
        self.square.add_((seen.square().mean(dim=0) - self.square) * (len(seen) / total))
        self.count.copy_(total)
        self.shift.zero_()
        self.scale.fill_(1.0)
        std = (self.square - self.mean.square()).clamp_min_(0.0).sqrt_()[_SCALARS]
        scale = std.clamp_min_(SMALLEST_STD).reciprocal_()
        self.scale[_SCALARS] = scale.to(self.scale)
        self.shift[_SCALARS] = -(self.mean[_SCALARS] * scale).to(self.shift)
        for kind in _VECTORS:
            length = self.square[kind].sum().sqrt().clamp_min(SMALLEST_STD)
            self.scale[kind] = length.reciprocal().to(self.scale)


class ColumnStatistics(nn.Module):
    """Columns centered, divided by their running standard deviation and clipped."""

    reads_raw = True
    """See the function of that name."""

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((), INITIAL_COUNT, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("variance", torch.ones(columns))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, columns) of the same."""
        scaled = (x - self.mean) * (self.variance + SMALLEST_VARIANCE).rsqrt()
        return scaled.clamp(-CLIP, CLIP)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Count in rows (rows, columns)."""
        n, before = len(x), float(self.count)
        total = before + n
        away = x.mean(0) - self.mean
        within = self.variance * before + x.var(0, correction=0) * n
        self.variance.copy_((within + away.square() * (before * n / total)) / total)
        self.mean.add_(away * (n / total))
        self.count.fill_(total)


def reads_raw(model: nn.Module) -> bool:
    """Whether a model reads observations as they are: it normalizes them itself, or mirrors them,
    and would see them change under its hands."""
    return any(getattr(module, "reads_raw", False) for module in model.modules())


@torch.no_grad()
def update_statistics(model: nn.Module, run: Callable[[], object]) -> None:
    """Call `run`, a forward pass, and count in what the statistics of the model are given by it."""
    hooks = [
        module.register_forward_pre_hook(lambda statistics, inputs: statistics.update(inputs[0]))
        for module in model.modules()
        if isinstance(module, ColumnStatistics)
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
