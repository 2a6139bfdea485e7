"""Twin critics that are the method's own networks, as in the paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sgrl.models.batch import LimbBatch
from sgrl.models.network import TwinCritic


class MethodCritic(nn.Module):
    """Q of a row is the mean of its limbs' Q."""

    def __init__(self, twins: TwinCritic) -> None:
        super().__init__()
        self.twins = twins

    def forward(self, batch: LimbBatch, action: Tensor) -> Tensor:
        """(2, rows) for actions (limbs, 3)."""
        return torch.stack([batch.layout.row_mean(q) for q in self.twins(batch, action)])
