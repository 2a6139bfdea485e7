"""`sgrl distil`: a training by distillation, with the runs to learn from named first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from sgrl.training.command import parse_settings
from sgrl.training.place import split_place
from sgrl.training.run import find_run
from sgrl.training.settings import TrainSettings
from sgrl.training.train_help import asks_for_help
from sgrl.training.train_options import option_values

DEFAULTS = TrainSettings(algorithm="distil", method="set", preset="many", variant="mixed")
LEFT_OUT = ("algorithm", "recipe")


def parse_distillation(arguments: Sequence[str], description: str | None = None) -> TrainSettings:
    """Settings from the options of `sgrl distil`: runs, then options as `sgrl train` has them.

    Bodies are those that the runs were trained on, if no others are named.
    """
    runs = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = list(arguments[len(runs) :])
    given = {word.partition("=")[0] for word in options}
    if runs:
        options += ["--distil.teachers", *runs]
    elif not asks_for_help(arguments) and "--config" not in given:
        raise ValueError("name the runs or policies to learn from: sgrl distil RUN RUN ...")
    if runs and not given & {"--bodies", "--body", "--config", "-h", "--help"}:
        folder = Path((option_values(arguments, "--runs") or ["runs"])[-1])
        trained = [
            name for run in runs for name in find_run(split_place(run)[0], folder).settings().bodies
        ]
        options += ["--bodies", *dict.fromkeys(trained)]
    prog = "sgrl distil RUN [RUN ...]"
    return parse_settings(options, description, prog, DEFAULTS, LEFT_OUT)
