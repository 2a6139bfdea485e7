"""What `sgrl eval` found of the runs in a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from sgrl.report.groups import Group
from sgrl.report.runs import RunRecord
from sgrl.report.tables import Html, note, show_mean, table
from sgrl.training.results import format_mean

Result = dict[str, Any]
"""A line of an evaluation's summary."""
STATISTICS = ("total_reward", "length", "speed", "targets")


class Case(NamedTuple):
    """What was evaluated on what."""

    method: str
    trained_on: str
    body: str
    seen: str
    task: str
    start: str


def evaluations_table(groups: Sequence[Group]) -> Html | None:
    """A line for each case, over seeds; None if nothing was evaluated."""
    found: dict[Case, list[Result]] = {}
    for group in groups:
        for record in group.runs:
            for case, result in _newest(record, group).items():
                found.setdefault(case, []).append(result)
    if not found:
        return None
    rows = [
        (
            *case,
            str(len(results)),
            str(sum(result["episodes"] for result in results)),
            *(_over_seeds(results, name) for name in STATISTICS),
            f"{fmean(result['fell'] for result in results):.0%}",
        )
        for case, results in sorted(found.items(), key=lambda item: item[0].body)
    ]
    words = ("method", "trained on", "body", "seen", "task", "start")
    numbers = ("seeds", "episodes", "return", "length", "speed (m/s)", "targets", "fell")
    said = (
        "The newest evaluation of each run, without exploration. Mean ± standard error over seeds; "
        "of a single seed, over its episodes."
    )
    return Html(table((*words, *numbers), rows, left=len(words)) + note(said))


def _newest(record: RunRecord, group: Group) -> dict[Case, Result]:
    """The last result of a run in each case."""
    newest = {}
    for evaluation in record.evaluations():
        about = evaluation["about"]
        yaw = about.get("yaw")
        for result in evaluation["results"]:
            own = result["policy"] == about.get("method")
            case = Case(
                group.label if own else f"{result['policy']} (beside {group.label})",
                group.task,
                result["body"],
                "yes" if result["body"] in group.bodies else "no",
                result["variant"],
                "any" if yaw is None else f"{math.degrees(yaw):.0f}°",
            )
            newest[case] = result
    return newest


def _over_seeds(results: Sequence[Result], name: str) -> str:
    if len(results) > 1:
        return show_mean([result[f"{name}_mean"] for result in results])
    error = results[0][f"{name}_se"]
    return format_mean(results[0][f"{name}_mean"], math.nan if error is None else error)
