"""`sgrl train`: the options, and a training with its messages and exit codes.

Reading options and printing help need no torch.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from sgrl.algorithms.registry import ALGORITHMS, algorithm_named
from sgrl.command_line import read_options
from sgrl.markup import plain_lines
from sgrl.models.plugins import TRUST, TrustOption
from sgrl.training.settings import TrainSettings


@dataclass(frozen=True)
class _Options:
    """What `sgrl train` is told beside the settings of an algorithm."""

    settings: Annotated[TrainSettings, tyro.conf.arg(name="")] = field(
        default_factory=TrainSettings
    )
    trust: TrustOption = ()


def parse_settings(
    arguments: Sequence[str], description: str | None = None, prog: str = "sgrl train"
) -> TrainSettings:
    """Settings from the options of `sgrl train`.

    ValueError for options of an algorithm other than the one that learns. The modules that the
    user names in them are trusted.
    """
    algorithms = option_values(arguments, "--algorithm")
    TRUST.add_named(algorithms)
    rows = {row.options: row for row in ALGORITHMS.values()}
    for name in algorithms:
        if ":" in name:
            TRUST.add(option_values(arguments, "--trust"))
            rows.setdefault(algorithm_named(name).options, algorithm_named(name))
    configs = {options: row.config_class() for options, row in rows.items()}
    fields = [(name, config, field(default_factory=config)) for name, config in configs.items()]
    options = make_dataclass("Options", fields, bases=(_Options,), frozen=True)
    parsed: Any = read_options(options, prog, arguments, description)
    TRUST.add(parsed.trust)
    TRUST.add_named((parsed.settings.method,))
    read = {name: getattr(parsed, name) for name in configs}
    given = {name: config for name, config in read.items() if config != configs[name]()}
    return _with_config(parsed.settings, given, {name: row.name for name, row in rows.items()})


def _with_config(
    settings: TrainSettings, given: dict[str, Any], names: dict[str, str]
) -> TrainSettings:
    """Settings with the one config that is not at its defaults, if it is their algorithm's.

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
    return replace(settings, config=next(iter(given.values()), None))


def option_values(arguments: Sequence[str], name: str) -> list[str]:
    """Values that are given for an option, before anything is known of the others."""
    values = [
        argument.partition("=")[2] if "=" in argument else following
        for argument, following in zip(arguments, [*arguments, ""][1:], strict=True)
        if argument.partition("=")[0] == name
    ]
    return [value for value in values if value and not value.startswith("-")]


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
        raise SystemExit(f"sgrl: {plain_lines(str(error))}") from None


def _say(line: str) -> None:
    from sgrl.training.interrupt import output_may_close

    with output_may_close():
        print(line, flush=True)
