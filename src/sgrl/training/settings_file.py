"""settings.json: what a run was told, and what it was called when it was told.

One table has the names that settings had. A field of an algorithm has them in its config.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgrl.algorithms.registry import ALGORITHMS
from sgrl.morphology import get_body
from sgrl.setting import settings_of
from sgrl.training.settings import TrainSettings, config_from_fields

OLD_NAMES = {"copies": "envs_per_body"}
"""Names that fields of `TrainSettings` had, and those they have now."""
FIRST: str = settings_of(TrainSettings)["algorithm"].before
"""The algorithm of runs that record none."""
PATHS = ("runs", "resume", "init_from")


def settings_to_json(settings: TrainSettings) -> str:
    """Text that `settings_from_json` reads."""
    return json.dumps(dataclasses.asdict(settings), indent=2, default=str) + "\n"


def settings_from_json(text: str) -> TrainSettings:
    """Settings from what `settings_to_json` wrote, now or earlier; ValueError if it is something
    else.

    Nothing is imported for it: the config of an algorithm from outside the package stays as JSON
    has it.
    """
    try:
        earlier = {
            name: known.before
            for name, known in settings_of(TrainSettings).items()
            if not known.is_old
        }
        values = earlier | _renamed(_with_config(json.loads(text)), OLD_NAMES)
        values["bodies"] = tuple(values["bodies"])
        for name in PATHS:
            values[name] = None if values[name] is None else Path(values[name])
        if (row := ALGORITHMS.get(values["algorithm"])) and values["config"] is not None:
            values["config"] = config_from_fields(row.config_class(), values["config"])
        settings = TrainSettings(**values)
        for one in (settings, settings.config):
            _check_types(one)
        for name in settings.bodies:
            get_body(name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"settings that this version does not understand: {reason}") from None
    return settings


def _check_types(config: object) -> None:
    """Whether each field of a settings value, if it is one, is of the type that it says."""
    if not dataclasses.is_dataclass(config):
        return
    try:
        hints = typing.get_type_hints(type(config))
    except NameError:
        return  # of an algorithm from outside, which names types that only a type checker imports
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if not _fits(value, hints[field.name]):
            raise ValueError(f"{field.name} is {value!r:.60}")


def _fits(value: Any, hint: Any) -> bool:
    origin, kinds = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, kind) for kind in kinds)
    if origin is typing.Literal:
        return value in kinds
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, kinds[0]) for one in value)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _with_config(values: dict[str, Any]) -> dict[str, Any]:
    """Settings from when they had those of all algorithms, with those of their own alone."""
    if "config" in values:
        return values
    values, own = dict(values), {}
    for name, row in ALGORITHMS.items():
        config = row.config_class()
        fields = values.pop(name, {})
        moved = {now: values.pop(old) for old, now in config.moved_here.items() if old in values}
        if name == values.get("algorithm", FIRST):
            own = fields | moved
    return values | {"config": own}


def _renamed(values: Mapping[str, Any], old_names: Mapping[str, str]) -> dict[str, Any]:
    return {old_names.get(name, name): value for name, value in values.items()}
