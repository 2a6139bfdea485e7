"""What must be so for a run to go on from a checkpoint: it is of this run, and of this form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sgrl.setting import settings_of
from sgrl.training.identity import identity_of
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

FREE = {known.key for known in settings_of(TrainSettings).values() if known.may_change}
"""Keys of settings that may have changed since a checkpoint was written."""
HELD_BACK = 2
"""Checkpoints that may have been due before the first is on the disk: one is written while the
training goes on to the next."""


def binding(settings: TrainSettings) -> dict[str, Any]:
    """Whose checkpoint it is: what identifies the run, as JSON has it."""
    # The config of an algorithm from outside the package may still be as JSON has it.
    resolved = replace(settings, config=settings.algorithm_config())
    return {key: value for key, value in identity_of(resolved).items() if key not in FREE}


def check_binding(metadata: Mapping[str, Any], settings: TrainSettings) -> None:
    """ValueError if a checkpoint says that a run of other settings wrote it."""
    own = binding(settings)
    found = metadata.get("settings", own)
    if not isinstance(found, dict):
        raise ValueError("the checkpoint is not of this run: its settings are no object")
    for key in dict.fromkeys((*own, *found)):
        if found.get(key) != own.get(key):
            raise ValueError(
                f"the checkpoint is not of this run: its {key} is {found.get(key)!r:.200}, not "
                f"{own.get(key)!r:.200}; start a new run from its weights with --init-from"
            )


@contextmanager
def refused_in_a_line() -> Iterator[None]:
    """Whatever goes wrong with a state that somebody made is a ValueError of one line."""
    try:
        yield
    except KeyError as missing:
        raise ValueError(f"the checkpoint is not of this run: it has no {missing}") from None
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError, ArithmeticError) as e:
        reason = (str(e).splitlines() or [type(e).__name__])[0]
        if not reason.startswith("the checkpoint "):
            reason = f"the checkpoint does not fit this run: {reason}"
        raise ValueError(reason) from None


def check_form(found: Any, expected: Any, name: str) -> None:
    """ValueError unless a state has the keys, types and shapes of another.

    Where one has nothing yet, None or an empty list or dict, the other may have what it likes.
    """
    if any(one is None or one == [] or one == {} for one in map(_plain, (found, expected))):
        return
    match expected:
        case dict():
            if not isinstance(found, dict) or found.keys() != expected.keys():
                raise _misfit(name, found, expected)
            for key, value in expected.items():
                check_form(found[key], value, f"{name}.{key}")
        case list() | tuple():
            if not isinstance(found, (list, tuple)) or len(found) != len(expected):
                raise _misfit(name, found, expected)
            for index, value in enumerate(expected):
                check_form(found[index], value, f"{name}.{index}")
        case torch.Tensor() | np.ndarray():
            same = type(found) is type(expected) and found.shape == expected.shape
            if not (same and (_is_text(found, expected) or found.dtype == expected.dtype)):
                raise _misfit(name, found, expected)
        case bool() | str():
            if type(found) is not type(expected):
                raise _misfit(name, found, expected)
        case int() | float():
            if isinstance(found, bool) or not isinstance(found, (int, float)):
                raise _misfit(name, found, expected)


def begin_anew(run: Run, settings: TrainSettings, say: Callable[[str], None]) -> None:
    """Prepare a run that has no checkpoint to start from its beginning.

    ValueError if it had one: then its checkpoints are lost, and its metrics stay as they are. One
    that died before its first starts again; the rows that it had written are set aside.
    """
    rows = run.metrics()
    if not rows:
        return
    first, last = (row["steps"] or 0.0 for row in (rows[0], rows[-1]))
    if last > HELD_BACK * (settings.checkpoint_every + first):
        raise ValueError(
            f"{run.path} has trained for {last:,.0f} steps and has no checkpoint to go on from: "
            f"put {run.checkpoints} back, or start a new run with the same settings; this one is "
            "left as it is"
        )
    aside, number = "metrics.csv.old", 1
    while run.files.mode(aside):
        number += 1
        aside = f"metrics.csv.old-{number}"
    run.files.rename("metrics.csv", aside)
    say(
        f"{run.path} stopped at {last:,.0f} steps, before its first checkpoint: starting again, "
        f"its rows of metrics are in {aside}"
    )


def check_time_left(run: Run, settings: TrainSettings, steps: int, seconds: float) -> None:
    """ValueError if a resumed run would stop at once, because its time is over."""
    minutes = settings.minutes
    if minutes is not None and seconds >= 60.0 * minutes and steps < (settings.steps or 0):
        raise ValueError(
            f"{run.path} has used its {minutes:g} minutes, at {steps:,} of {settings.steps:,} "
            f"steps; to go on: sgrl train --resume {run.path} "
            f"--minutes {minutes + max(minutes, 1.0):g}, the earlier ones included"
        )


def _plain(value: Any) -> Any:
    """A value that may be compared with `==`."""
    return value if isinstance(value, (dict, list)) or value is None else ...


def _is_text(one: Any, other: Any) -> bool:
    return all(isinstance(each, np.ndarray) and each.dtype.kind == "U" for each in (one, other))


def _misfit(name: str, found: Any, expected: Any) -> ValueError:
    return ValueError(
        f"the checkpoint does not fit this run: {name} is {_form(found)}, not {_form(expected)}"
    )


def _form(value: Any) -> str:
    match value:
        case torch.Tensor() | np.ndarray():
            return f"{value.dtype} {tuple(value.shape)}"
        case dict():
            return f"{{{', '.join(map(str, sorted(value, key=str)))}}}"[:200]
        case list() | tuple():
            return f"a list of {len(value)}"
    return type(value).__name__
