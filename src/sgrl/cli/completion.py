"""`sgrl completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from sgrl.algorithms.registry import ALGORITHMS
from sgrl.command_line import REGISTRY
from sgrl.training.train_options import DEFAULTS, options_class


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "tcsh"], tyro.conf.Positional],
) -> None:
    """Print what makes a shell complete commands and options: eval "$(sgrl completion bash)".

    Args:
        shell: Shell to print it for.
    """
    from sgrl.cli import COMMANDS, OWN_OPTIONS

    options = options_class(tuple(ALGORITHMS.values()), DEFAULTS)
    commands = COMMANDS | dict.fromkeys(OWN_OPTIONS, options)
    tyro.extras.subcommand_cli_from_dict(
        commands, prog="sgrl", args=["--tyro-print-completion", shell], registry=REGISTRY
    )
