"""What `sgrl train --help` prints: the options that most need, and others on request."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Annotated, Any

import tyro

from sgrl.algorithms.registry import ALGORITHMS, Algorithm, algorithm_named
from sgrl.command_line import read_options
from sgrl.nearest import did_you_mean
from sgrl.setting import texts_of
from sgrl.training.settings import TrainSettings
from sgrl.training.train_options import TrainOptions, option_values

FLAGS = {"-h", "--help"}
SHORT = (
    *("bodies", "recipe", "method", "preset", "variant", "algorithm", "steps", "minutes"),
    *("seed", "threads", "name", "resume", "init_from", "config"),
)
"""Options that the short help has, in its order."""
Field = tuple[str, Any, Any]


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether help is among the options."""
    return not FLAGS.isdisjoint(arguments)


def print_help(
    arguments: Sequence[str],
    prog: str,
    description: str | None,
    defaults: TrainSettings,
    left_out: Sequence[str] = (),
) -> None:
    """Print what `--help` and the words after it ask for: nothing else, all, or an algorithm.

    `left_out` are options that the command does not have; without `algorithm` it has that of the
    defaults alone.
    """
    command = prog.partition(" RUN")[0]
    own = ALGORITHMS[defaults.algorithm]
    rows = {own.name: own} if "algorithm" in left_out else ALGORITHMS
    at = next(index for index, word in enumerate(arguments) if word in FLAGS)
    asked = list(takewhile(lambda word: not word.startswith("-"), arguments[at + 1 :]))
    asked += option_values(arguments, "--algorithm")
    every = {one[0]: one for one in _fields(defaults) if one[0] not in left_out}
    fields: list[Field] = []
    if not asked:
        fields = [every[name] for name in SHORT if name in every]
    for word in asked:
        if word == "all":
            fields += [*every.values(), *map(_group, rows.values())]
        elif word in rows or ":" in word:
            fields.append(_group(rows[word] if word in rows else algorithm_named(word)))
        else:
            raise ValueError(f"no help on {word!r}; {did_you_mean(word, ['all', *rows])}")
    with suppress(SystemExit):
        read_options(dataclasses.make_dataclass("Help", fields), prog, ["--help"], description)
    if not asked:
        print(f"All: {command} --help all; an algorithm's own: --help {'|'.join(rows)}")


def _fields(defaults: TrainSettings) -> Iterator[Field]:
    """Every option of a training that is not an algorithm's."""
    for one, no_options in ((defaults, ("config", "network")), (TrainOptions(), ("settings",))):
        texts, hints = texts_of(type(one)), typing.get_type_hints(type(one), include_extras=True)
        for field in dataclasses.fields(one):
            if field.name not in no_options:
                yield _field(field.name, hints[field.name], texts, getattr(one, field.name))


def _group(row: Algorithm) -> Field:
    """The options of an algorithm."""
    config = row.config_class()
    texts, hints = texts_of(config), typing.get_type_hints(config, include_extras=True)
    fields = [
        _field(one.name, hints[one.name], texts, getattr(config(), one.name))
        for one in dataclasses.fields(config)
    ]
    group = dataclasses.make_dataclass(config.__name__, fields)
    group.__doc__ = config.__doc__
    return row.options, group, dataclasses.field(default_factory=group)


def _field(name: str, hint: Any, texts: dict[str, str], value: Any) -> Field:
    """A field that shows its text on one line, as tyro reads none from a class made so."""
    hint_of_default = "" if value in (None, ()) else None  # by default there is nothing, or tyro's
    about = tyro.conf.arg(help=texts.get(name), help_behavior_hint=hint_of_default)
    return name, Annotated[hint, about, tyro.conf.DisallowNone], dataclasses.field(default=value)
