"""`sgrl distil`: one policy of many."""

from __future__ import annotations

from collections.abc import Sequence


def distil(arguments: Sequence[str]) -> None:
    """Make one policy of many: a student learns what runs and policies would do.

    First the runs or shipped policies to learn from, then options as `sgrl train` has them.
    """
    from sgrl.training.command import train_command
    from sgrl.training.distil_command import parse_distillation

    train_command(parse_distillation(arguments, distil.__doc__))
