"""What the options of a training are put on top of: a recipe, or the settings of a recorded run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sgrl.nearest import did_you_mean
from sgrl.setting import setting_of
from sgrl.training.run import Run, find_run
from sgrl.training.settings import TrainSettings, settled

T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """Settings that belong together, by a name."""

    settings: TrainSettings
    body_steps: int
    """Steps of a training on one body, if no others are asked for."""
    collection_steps: int
    """Steps of a training on several bodies."""

    def with_steps(self, settings: TrainSettings) -> TrainSettings:
        """Settings with the recipe's steps, if they have none."""
        if settings.steps is not None:
            return settings
        one = len(settings.morphologies()) <= 1
        return replace(settings, steps=self.body_steps if one else self.collection_steps)


RECIPES = {
    "paper": Recipe(TrainSettings(algorithm="td3", preset="paper"), 5_000_000, 10_000_000),
}
"""By the name that `--recipe` has for them. The paper's are TD3's defaults, the buffer's among
them, and the sizes of its table; it doesn't state how long it trains."""


def recipe_named(name: str) -> Recipe:
    """A recipe by its name; ValueError if there is none."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; {did_you_mean(name, RECIPES)}")
    return RECIPES[name]


def recorded_settings(where: Path) -> TrainSettings:
    """Settings to run a recorded run's again: those of a `settings.json`, or of a run.

    They have what makes the training the one it is. How and where it ran (threads, device, folder,
    name and such) is as by default. ValueError or OSError if there are none.
    """
    if where.suffix == ".json" and not where.exists():
        raise FileNotFoundError(f"there is no file {where}")
    if where.name == "settings.json":
        recorded = find_run(where.parent).settings()
    elif where.is_file():
        recorded = Run(where.parent).settings(where.name)
    else:
        recorded = find_run(where).settings()
    # The config of an algorithm from outside the package is still as JSON has it.
    recorded = replace(recorded, config=recorded.algorithm_config())
    return _left_open(_as_by_default(recorded))


def _as_by_default(value: Any) -> Any:
    """A dataclass of settings with the defaults of all that does not identify a run."""
    kept: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        if setting_of(field).identifies:
            kept[field.name] = _as_by_default(own) if field.name == "config" else own
    return type(value)(**kept)


def _left_open(settings: TrainSettings) -> TrainSettings:
    """Settings in which nothing is told that would come out the same if it were left open.

    So that it follows from the options that are given beside them: a larger buffer from more steps.
    """
    settings = _opened(settings, settled)
    config = settings.algorithm_config()
    config = _opened(config, lambda one: settled(replace(settings, config=one)).algorithm_config())
    return replace(settings, config=config)


def _opened(value: T, resolve: Callable[[T], T]) -> T:
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        own = getattr(value, field.name)
        if field.default is None and own is not None:
            without: T = replace(value, **{field.name: None})  # type: ignore[type-var]
            with suppress(ValueError):  # what has to be told
                if getattr(resolve(without), field.name) == own:
                    value = without
    return value
