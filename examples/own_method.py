"""Put a network of your own beside SET: here PyTorch's transformer, with the limbs as its tokens.

    python examples/own_method.py --minutes 10

or, without this script, `sgrl train --method examples.own_method:LimbTransformer`, and the same
name in `sgrl eval` and `sgrl certify`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import tyro
from torch import Tensor, nn

import sgrl
from sgrl.models.batch import LimbBatch
from sgrl.models.certificate import certify, format_certificate
from sgrl.models.network import FLAT_FEATURES, Role

BODIES = "3d_hopper++"


class LimbTransformer(nn.Module):
    """Limbs attend to the limbs of their body; a limb is known by what it observes."""

    def __init__(self, role: Role, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(FLAT_FEATURES + role.action_inputs, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.attend = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.decide = nn.Linear(width, role.outputs)

    def forward(self, batch: LimbBatch, action: Tensor | None = None) -> Tensor:
        """Numbers (limbs, outputs) for each limb; a critic gets actions (limbs, 3)."""
        limbs = batch.flat if action is None else torch.cat((batch.flat, action), dim=-1)
        tokens = batch.layout.pad(self.embed(limbs))  # (bodies, limbs of the largest, width)
        tokens = self.attend(tokens, src_key_padding_mask=~batch.layout.mask)
        return self.decide(batch.layout.unpad(tokens))


def main(minutes: float = 10.0, episodes: int = 20, runs: Path = Path("runs")) -> None:
    """Measure the symmetry of the method, train it, and evaluate it body by body.

    Args:
        minutes: How long to train.
        episodes: Episodes of the evaluation.
        runs: Folder that the run's own is made in.
    """
    sgrl.register_method("transformer", LimbTransformer)
    # With +hn it sees the world in the heading frame, and so gains the rotations.
    methods = ["transformer", "transformer+hn"]
    print(format_certificate(certify(methods, ["3d_hopper_3_shin"], samples=2)))

    settings = sgrl.TrainSettings(
        bodies=(BODIES,),
        method="transformer+hn",
        algorithm="ppo",
        minutes=minutes,
        name="transformer",
        runs=runs,
    )
    policy = sgrl.load_policy(sgrl.train(settings))
    for result in sgrl.evaluate(policy, BODIES, episodes=episodes):
        print(f"{result.body:24} {result.mean('total_reward'):8,.0f}")


if __name__ == "__main__":
    tyro.cli(main)
