"""The options of `sgrl train`, as one class that the command line is made from. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from sgrl.algorithms.registry import Algorithm
from sgrl.plugins import TrustOption
from sgrl.training.settings import TrainSettings

DEFAULTS = TrainSettings()


@dataclass(frozen=True)
class TrainOptions:
    """What `sgrl train` is told beside the settings of an algorithm."""

    settings: Annotated[TrainSettings, tyro.conf.arg(name="")] = DEFAULTS
    recipe: str | None = None
    """Settings to begin with: paper for the paper's (TD3, preset paper, 5 million steps, 10 million
    for several bodies)."""
    config: Path | None = None
    """Settings to begin with: those of a run or of its settings.json, without threads, device,
    folder and the like; --minutes None leaves the recorded minutes out."""
    trust: TrustOption = ()
    """Module of your own, such as mine or package.module, that may be imported if a run names it:
    this runs its code."""


def options_class(algorithms: Sequence[Algorithm], base: TrainSettings) -> type[TrainOptions]:
    """The options with those of some algorithms, all with the values of `base`."""
    shown = replace(base, config=None, network=None)  # which are no options
    fields: list[tuple[str, Any, Any]] = [
        ("settings", Annotated[TrainSettings, tyro.conf.arg(name="")], field(default=shown))
    ]
    for row in algorithms:
        own = row.name == base.algorithm
        config = base.algorithm_config() if own else row.config_class()()
        fields.append((row.options, type(config), field(default=config)))
    return make_dataclass("Options", fields, bases=(TrainOptions,), frozen=True)


def option_values(arguments: Sequence[str], name: str) -> list[str]:
    """Values that are given for an option, before anything is known of the others."""
    values = [
        argument.partition("=")[2] if "=" in argument else following
        for argument, following in zip(arguments, [*arguments, ""][1:], strict=True)
        if argument.partition("=")[0] == name
    ]
    return [value for value in values if value and not value.startswith("-")]
