"""What it took to make a policy: steps, hours and commands, also of what it learned from."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sgrl.training.checkpoint import read_metadata
from sgrl.training.place import split_place
from sgrl.training.policy import read_policy_weights
from sgrl.training.run import Run, find_run

MOST_BYTES = 2**24
"""A recorded history is smaller."""
COUNTED = ("steps", "hours", "core_hours", "commands", "commits")


def history_of(run: Run, folder: Path) -> dict[str, Any]:
    """What it took to come to a checkpoint: also in the run that its weights started from, and in
    those whose policies it learned from."""
    processes, settings = run.versions()["processes"], run.settings()
    hours = read_metadata(folder)["seconds"] / 3600
    last = {
        "steps": int(folder.name),
        "hours": hours,
        "core_hours": hours * settings.threads,
        "commands": [_public(one["command"]) for one in processes if one["command"]],
        "commits": [one["commit"] for one in processes],
    }
    earlier = source_histories(run)
    if start := settings.init_from:
        place, which = split_place(start)
        before = find_run(place)
        earlier.append(
            before.card()
            if before.is_published()
            else history_of(before, read_policy_weights(before, which)[0])
        )
    total = {key: sum((one[key] for one in (*earlier, last)), type(last[key])()) for key in COUNTED}
    return total | {"commits": list(dict.fromkeys(total["commits"]))}


def list_sources(run: Run) -> list[Run]:
    """The copied policies in a run, in the order in which they were named (see `sources`)."""
    if not run.files.mode("sources"):
        return []
    return [Run(run.sources / name) for name in sorted(run.files.folders("sources"))]


def source_histories(run: Run) -> list[dict[str, Any]]:
    """What it took to make the policies that were copied into a run."""
    files = [copied.files for copied in list_sources(run)]
    return [json.loads(one.read("history.json", MOST_BYTES)) for one in files]


def _public(command: str) -> str:
    """A command without the folder that its runs were put in, and others by their names alone."""
    parts = (
        word.split("=", 1) if word.startswith("--") else [word] for word in shlex.split(command)
    )
    words = [word for part in parts for word in part]
    if "--runs" in words:
        place = words.index("--runs")
        del words[place : place + 2]
    return shlex.join(_names(words))


def _names(words: Sequence[str]) -> list[str]:
    """Words, the paths among them without their folders."""
    return [Path(word).name if "/" in word else word for word in words]
