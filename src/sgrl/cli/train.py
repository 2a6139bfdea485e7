"""`sgrl train`: its options depend on the algorithm."""

from __future__ import annotations

from collections.abc import Sequence


def train(arguments: Sequence[str]) -> None:
    """Train a policy on one body or many; stop it when you like and go on with --resume."""
    from sgrl.training.command import parse_settings, train_command

    train_command(parse_settings(arguments, train.__doc__))
