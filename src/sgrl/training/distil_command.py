"""`sgrl distil`: a training by distillation, with the runs to learn from named first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from sgrl.training.command import option_values, parse_settings
from sgrl.training.place import split_place
from sgrl.training.run import find_run
from sgrl.training.settings import TrainSettings

DEFAULTS = {"--method": "set", "--preset": "many", "--variant": "mixed"}


def parse_distillation(arguments: Sequence[str], description: str | None = None) -> TrainSettings:
    """Settings from the options of `sgrl distil`: runs, then options as `sgrl train` has them.

    Bodies are those that the runs were trained on, if no others are named.
    """
    runs = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = list(arguments[len(runs) :])
    if {"-h", "--help"} & set(options):
        return parse_settings(["--algorithm", "distil", "--help"], description, prog="sgrl distil")
    if not runs:
        raise ValueError("name the runs or policies to learn from: sgrl distil RUN RUN ...")
    given = {word.partition("=")[0] for word in options}
    for option, value in DEFAULTS.items():
        if option not in given:
            options += [option, value]
    if not given & {"--bodies", "--body"}:
        folder = Path((option_values(arguments, "--runs") or ["runs"])[-1])
        trained = [
            name for run in runs for name in find_run(split_place(run)[0], folder).settings().bodies
        ]
        options += ["--bodies", *dict.fromkeys(trained)]
    options += ["--algorithm", "distil", "--distil.teachers", *runs]
    return parse_settings(options, description, prog="sgrl distil")
