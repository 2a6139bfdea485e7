"""Observations brought to a size of about 1, in a way that keeps every symmetry.

Statistics are shared by all limbs and bodies. A scalar is centred and divided by its spread.
A kind of vector is divided by one number, its root mean square length: never centred, never
one coordinate by another number than the others. So turning or mirroring before or after is
the same. What is of that size by nature stays as it is: hinge axes, gravity and target direction
have length 1, and angles are radians that the heading frame is worked out from.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sgrl.envs.observation import ANGLES, FEATURES, POSITION, SCALARS, VELOCITIES

SMALLEST_SPREAD = 0.1
"""A scalar that varies less is not blown up further. On a body that training did not see, what
was constant in training may not be."""
_VECTORS = (POSITION, *(slice(i, i + 3) for i in range(VELOCITIES.start, VELOCITIES.stop, 3)))
_SCALARS = slice(ANGLES.stop, SCALARS.stop)


class Normaliser(nn.Module):
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
        """Flat observations (rows, limbs * 41), normalised; padding becomes anything finite."""
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
        spread = (self.square - self.mean.square()).clamp_min_(0.0).sqrt_()[_SCALARS]
        scale = spread.clamp_min_(SMALLEST_SPREAD).reciprocal_()
        self.scale[_SCALARS] = scale.to(self.scale)
        self.shift[_SCALARS] = -(self.mean[_SCALARS] * scale).to(self.shift)
        for kind in _VECTORS:
            length = self.square[kind].sum().sqrt().clamp_min(SMALLEST_SPREAD)
            self.scale[kind] = length.reciprocal().to(self.scale)
