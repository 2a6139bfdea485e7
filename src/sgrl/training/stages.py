"""Stages that led to a policy, one for each run, as cards and recorded histories have them.

A stage has the run's name, its commands and commits in their order, and what it took up to the
checkpoint that was used: steps, hours of wall clock and core-hours, which are hours of a process
times its threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

TOTALS = ("steps", "hours", "core_hours")
"""What is added up over the stages."""
DIRTY = "-dirty"
"""How a commit ends whose files were changed (see `run.current_commit`)."""

Stage = dict[str, Any]


def stages_of(history: Mapping[str, Any]) -> list[Stage]:
    """The stages of a history or a card. Those of before 0.2 know of all of them together.

    ValueError for those of a stranger that are not understood.
    """
    stages = history.get("stages", [{"name": ""} | dict(history)])
    if not isinstance(stages, list) or not all(map(_is_stage, stages)):
        raise ValueError("a card that does not say what led to the policy, or not as cards do")
    known = ("name", "commands", "commits", *TOTALS)
    return [{key: stage[key] for key in known} for stage in stages]


def _is_stage(stage: object) -> bool:
    if not isinstance(stage, dict) or not isinstance(stage.get("name"), str):
        return False
    commands, commits = stage.get("commands"), stage.get("commits")
    if not isinstance(commands, list) or not isinstance(commits, list):
        return False
    named = [isinstance(one, str) for one in commands]
    named += [one is None or isinstance(one, str) for one in commits]
    numbers = [stage.get(key) for key in TOTALS]
    return all(named) and all(
        isinstance(one, (int, float)) and math.isfinite(one) for one in numbers
    )


def commands_of(stages: Iterable[Stage]) -> list[str]:
    """The commands of stages in their order; one that trained several runs, once."""
    return list(dict.fromkeys(command for stage in stages for command in stage["commands"]))


def uncommitted(stages: Iterable[Stage]) -> list[str]:
    """The names of the stages that ran code which is in no commit."""
    found = (
        str(stage["name"])
        for stage in stages
        if any((commit or "").endswith(DIRTY) for commit in stage["commits"])
    )
    return list(dict.fromkeys(found))


def describe_commit(commit: str | None) -> str:
    """A commit in short, and whether files were changed in no commit."""
    if not commit:
        return "not recorded"
    short = commit.removesuffix(DIRTY)[:7]
    return f"{short} with changes in no commit" if commit.endswith(DIRTY) else short
