"""Columns of a table normalized by running statistics, for networks without the symmetry."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

CLIP = 5.0
"""Largest size of a normalized number."""
SMALLEST_VARIANCE = 1e-4
INITIAL_COUNT = 1e-4


class ColumnStatistics(nn.Module):
    """Columns centred, divided by their running standard deviation and clipped."""

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
