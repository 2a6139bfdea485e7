"""What it took to make a policy: its stages, also those of what it learned from."""

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
from sgrl.training.stages import TOTALS, Stage, stages_of

MOST_BYTES = 2**24
"""A recorded history is smaller."""


def history_of(run: Run, folder: Path) -> dict[str, Any]:
    """The stages that led to a checkpoint, the run's own last, and the sums over them.

    A run that several others started from or learned from counts once.
    """
    if run.is_published():
        return _history(stages_of(run.card()))
    settings = run.settings()
    earlier = [stage for one in source_histories(run) for stage in stages_of(one)]
    if start := settings.init_from:
        place, which = split_place(start)
        before = find_run(place)
        source = read_policy_weights(before, which)[0]
        earlier += stages_of(history_of(before, source))
    return _history([*earlier, _stage(run, folder)])


def _history(stages: Sequence[Stage]) -> dict[str, Any]:
    longest: dict[tuple[Any, ...], Stage] = {}
    for stage in stages:
        key = stage["name"], *stage["commands"][:1]
        if key not in longest or stage["steps"] > longest[key]["steps"]:
            longest[key] = stage
    once = list(longest.values())
    return {"stages": once} | {key: sum(stage[key] for stage in once) for key in TOTALS}


def _stage(run: Run, folder: Path) -> Stage:
    """What a run itself took up to a checkpoint."""
    settings, steps = run.settings(), int(folder.name)
    seconds = read_metadata(folder)["seconds"]
    processes = run.versions()["processes"]
    # A process that went on from later on has no part in the checkpoint.
    processes = processes[:1] + [one for one in processes[1:] if (one["steps"] or 0) < steps]
    starts = [one["seconds"] for one in processes]
    threads = [one["threads"] for one in processes]
    if processes and None not in (*starts, *threads):
        ends = [min(start, seconds) for start in starts[1:]] + [seconds]
        taken = zip(starts, ends, threads, strict=True)
        core_seconds = sum((end - start) * count for start, end, count in taken)
    else:  # of before 0.2
        core_seconds = seconds * settings.threads
    return {
        "name": run.path.name,
        "commands": [_public(one["command"]) for one in processes if one["command"]],
        "commits": list(dict.fromkeys(one["commit"] for one in processes)),
        "steps": steps,
        "hours": seconds / 3600,
        "core_hours": core_seconds / 3600,
    }


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
    if words[0] == "__main__.py":  # python -m sgrl, as runs of before 0.2 recorded it
        words[0] = "sgrl"
    if "--runs" in words:
        place = words.index("--runs")
        del words[place : place + 2]
    return shlex.join(_names(words))


def _names(words: Sequence[str]) -> list[str]:
    """Words, the paths among them without their folders."""
    return [Path(word).name if "/" in word else word for word in words]
