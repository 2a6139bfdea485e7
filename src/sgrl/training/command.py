"""`sgrl train`: from its options to settings, and a training with its messages and exit codes.

Reading options and printing help need no torch, but for the settings of a recorded run.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from sgrl.algorithms.registry import ALGORITHMS, algorithm_named
from sgrl.command_line import read_options
from sgrl.markup import error_lines, one_line
from sgrl.plugins import TRUST
from sgrl.training.recipes import Recipe, recipe_named, recorded_settings
from sgrl.training.settings import TrainSettings
from sgrl.training.train_help import asks_for_help, print_help
from sgrl.training.train_options import DEFAULTS, option_values, options_class


def parse_settings(
    arguments: Sequence[str],
    description: str | None = None,
    prog: str = "sgrl train",
    defaults: TrainSettings = DEFAULTS,
    left_out: Sequence[str] = (),
) -> TrainSettings:
    """Settings from the options of `sgrl train`, or of a command with other defaults.

    `left_out` are options that the command does not have; without `algorithm` it has that of the
    defaults alone. ValueError for options of an algorithm other than the one that learns. The
    modules that the user names are trusted, those that only a recorded run names are not.
    """
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    if words:
        raise ValueError(f"name bodies after --bodies: {prog} --bodies {' '.join(words)}")
    named = option_values(arguments, "--algorithm")
    TRUST.add(option_values(arguments, "--trust"))
    TRUST.add_named((*named, *option_values(arguments, "--method")))
    if asks_for_help(arguments):
        print_help(arguments, prog, description, defaults, left_out)
        raise SystemExit(0)
    for option in left_out:
        if option_values(arguments, f"--{option}"):
            raise ValueError(f"--{option} is an option of sgrl train, not of {prog}")
    recipe, base = _beginning(arguments, defaults)
    alone = "algorithm" in left_out
    algorithm = defaults.algorithm if alone else (named or [base.algorithm])[-1]
    if algorithm != base.algorithm:
        base = replace(base, algorithm=algorithm, config=None)
    rows = {row.options: row for row in ALGORITHMS.values()}
    if alone or ":" in algorithm:
        own = algorithm_named(algorithm)
        rows = {own.options: own} if alone else rows | {own.options: own}
    options = options_class(tuple(rows.values()), base)
    parsed, before = read_options(options, prog, arguments, description), options()
    TRUST.add(parsed.trust)
    settings = parsed.settings
    if (settings.method, settings.preset) == (base.method, base.preset):
        settings = replace(settings, network=base.network)
    told = {name: getattr(parsed, name) for name in rows}
    given = {name: one for name, one in told.items() if one != getattr(before, name)}
    names = {name: row.name for name, row in rows.items()}
    settings = _with_config(replace(settings, config=base.config), given, names)
    return settings if recipe is None else recipe.with_steps(settings)


def _beginning(
    arguments: Sequence[str], defaults: TrainSettings
) -> tuple[Recipe | None, TrainSettings]:
    """What the options are put on top of, and the recipe if that is one."""
    recipes, recorded = (option_values(arguments, name) for name in ("--recipe", "--config"))
    if recipes and recorded:
        raise ValueError("--recipe and --config both say what to begin with: give one of them")
    if (recipes or recorded) and option_values(arguments, "--resume"):
        option = "--recipe" if recipes else "--config"
        raise ValueError(
            f"a resumed run keeps its settings: leave {option} out, or start a new run without "
            "--resume"
        )
    if recipes:
        recipe = recipe_named(recipes[-1])
        return recipe, recipe.settings
    return None, recorded_settings(Path(recorded[-1])) if recorded else defaults


def _with_config(
    settings: TrainSettings, given: Mapping[str, Any], names: Mapping[str, str]
) -> TrainSettings:
    """Settings with the one config that was given on the command line, if it is their algorithm's.

    A run that is resumed has an algorithm already: that one compares it to what was recorded.
    """
    own = settings.algorithm
    others = [name for name in given if names[name] != own]
    if settings.resume is not None:
        others = list(given)[1:]
    for name in others:
        config, default = given[name], type(given[name])()
        changed = ", ".join(
            f"--{name}.{one.name.replace('_', '-')}"
            for one in dataclasses.fields(config)
            if getattr(config, one.name) != getattr(default, one.name)
        )
        raise ValueError(f"{changed}: only with --algorithm {names[name]}, not {own}")
    return replace(settings, config=next(iter(given.values()), settings.config))


def train_command(settings: TrainSettings) -> Path:
    """Train as `sgrl train` does: messages for people, and exit codes. Returns the run's folder."""
    from sgrl.training.interrupt import InterruptedTrainingError
    from sgrl.training.loop import TrainingFailedError, train

    try:
        return train(settings)
    except InterruptedTrainingError as stop:
        _say(str(stop))
        # What a shell reports of a process that a signal ended.
        raise SystemExit(128 + stop.number) from None
    except KeyboardInterrupt:
        _say("stopped at once: what came after the last checkpoint is lost")
        raise SystemExit(128 + signal.SIGINT) from None
    except (TrainingFailedError, ValueError, OSError) as error:
        raise SystemExit(f"sgrl: {error_lines(error)}") from None


def _say(line: str) -> None:
    from sgrl.training.interrupt import output_may_close

    with output_may_close():
        print(one_line(line), flush=True)
