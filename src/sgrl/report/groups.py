"""Runs that differ only by their seed, together; and what sets the others apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from sgrl.morphology import COLLECTIONS, MIRRORED
from sgrl.report.runs import RunRecord
from sgrl.setting import settings_of
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, plain

TELLING = ("method", "algorithm", "preset", "variant", "network", "config", "init_from")
"""Settings that a label names first, the most telling before the others."""
PLAIN = ("method", "algorithm", "preset", "variant", "bodies", "network")
"""Settings whose value says enough without their name."""

Settings = dict[str, str]
"""Settings by name, nested ones as `config.td3.gamma`, as they are shown."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only by their seed."""

    label: str
    """What sets it apart from other groups on the same bodies."""
    task: str
    """The bodies it was trained on, in a word."""
    settings: Settings
    runs: tuple[RunRecord, ...]

    @property
    def bodies(self) -> tuple[str, ...]:
        return self.runs[0].settings.bodies


def make_groups(records: Iterable[RunRecord]) -> list[Group]:
    """Groups in the order of their first runs, each with its runs in the order of seeds."""
    grouped: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in records:
        grouped.setdefault(tuple(flat_settings(record.settings).items()), []).append(record)
    settings = [dict(key) for key in grouped]
    labels = make_labels(settings, [set(runs[0].settings.bodies) for runs in grouped.values()])
    return [
        Group(label, own["bodies"], own, tuple(sorted(runs, key=lambda one: one.settings.seed)))
        for label, own, runs in zip(labels, settings, grouped.values(), strict=True)
    ]


def make_labels(settings: Sequence[Settings], bodies: Sequence[set[str]]) -> list[str]:
    """A label for each of some settings: the same only for the same method on other bodies.

    Rivals, which have a body in common, never share one. A label names no more settings than
    it needs to tell its own from its rivals.
    """
    indices = range(len(settings))
    rivals = [(i, j) for i, j in combinations(indices, 2) if bodies[i] & bodies[j]]

    def telling(pairs: Iterable[tuple[int, int]]) -> list[str]:
        return telling_settings([(settings[i], settings[j]) for i, j in pairs])

    keys = telling(rivals)
    kinds = [tuple(own.get(key) for key in ("method", *keys)) for own in settings]
    needed: dict[tuple[str | None, ...], set[str]] = {}
    for index in indices:
        needed.setdefault(kinds[index], set()).update(telling(p for p in rivals if index in p))
    labels = [
        _label(own, [key for key in keys if key in needed[kind]])
        for own, kind in zip(settings, kinds, strict=True)
    ]
    for label in set(labels):
        own_indices = [index for index in indices if labels[index] == label]
        if len({kinds[index] for index in own_indices}) > 1:
            for index in own_indices:
                labels[index] = _label(settings[index], keys)
    return labels


def flat_settings(settings: TrainSettings) -> Settings:
    """What two runs are compared by."""
    values = {
        name: getattr(settings, name)
        for name, known in settings_of(settings).items()
        if known.identifies and name not in ("seed", "config", "network")
    }
    values["bodies"] = task_of(settings.bodies)
    if settings.init_from is not None:
        values["init_from"] = _origin(settings.init_from)
    config = plain(settings.config) or {}
    if (config.get("buffer_size") or 0) >= (settings.steps or 0):
        config["buffer_size"] = "all"  # a run that was cut short keeps that of its first steps
    for name, value in config.items():
        if isinstance(value, list) and value.count(value[0]) == len(value):
            config[name] = value[0]  # the same for every body
    sizes = None if settings.network == settings.preset_sizes() else settings.network
    flat = dict(_flatten(values | {"config": {settings.algorithm: config}}))
    flat["network"] = "preset sizes" if sizes is None else "own sizes"
    return flat | dict(_flatten({"network": sizes or {}}))


def _origin(path: Path) -> str:
    """The run that another one started from, without its seed where that can be told."""
    run = Run(path)
    if not run.settings_file.is_file():
        return str(path)
    before = flat_settings(run.settings())
    return " ".join(before[name] for name in ("method", "algorithm", "bodies", "steps"))


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _show(value)


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    return str(value)


def task_of(bodies: Sequence[str]) -> str:
    """Bodies in a word: the one, the collection they are, maybe with mirror images, or how many."""
    if len(bodies) == 1:
        return bodies[0]
    images = {name for name in bodies if name.endswith(MIRRORED)}
    for name, collection in COLLECTIONS.items():
        if set(bodies) - images == set(collection.train):
            return f"{name} and {len(images)} mirror images" if images else name
    short = ", ".join(bodies)
    return short if len(bodies) <= 3 else f"{len(bodies)} bodies ({short})"


def telling_settings(rivals: Sequence[tuple[Settings, Settings]]) -> list[str]:
    """A few settings by which the two of every pair can be told apart."""
    names = dict.fromkeys(name for pair in rivals for own in pair for name in own)
    chosen: list[str] = []
    left = list(rivals)
    for name in sorted(names, key=_rank):
        alike = [(a, b) for a, b in left if a.get(name) == b.get(name)]
        if len(alike) < len(left):
            chosen.append(name)
            left = alike
    return chosen


def _rank(name: str) -> int:
    head = name.partition(".")[0]
    return TELLING.index(head) if head in TELLING else len(TELLING)


def _label(settings: Settings, keys: Sequence[str]) -> str:
    parts = [settings["method"]]
    for key in keys:
        if key != "method" and key in settings:
            value = settings[key]
            parts.append(value if key in PLAIN else f"{key.rpartition('.')[2]} {value}")
    return " · ".join(parts)


def differing_settings(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Settings that are not the same in all groups that have them, and their values in each."""
    names = sorted(dict.fromkeys(name for group in groups for name in group.settings), key=_rank)
    rows = {name: [group.settings.get(name, "") for group in groups] for name in names}
    return {name: values for name, values in rows.items() if len({*values} - {""}) > 1}
