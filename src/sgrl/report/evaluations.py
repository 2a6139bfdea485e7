"""What `sgrl eval` found of the runs in a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple, cast, get_args

from sgrl.envs.variant import Variant
from sgrl.markup import Html, html_table
from sgrl.report.cards import PolicyRecord
from sgrl.report.groups import Group, task_of
from sgrl.report.run_tables import NOTHING, note, show_mean
from sgrl.report.runs import RunRecord
from sgrl.training.references import KINDS, reference_return
from sgrl.training.results import format_mean

Result = dict[str, Any]
"""A line of an evaluation's summary."""
STATISTICS = ("length", "speed", "gained", "targets")


class Case(NamedTuple):
    """What was evaluated on what."""

    method: str
    trained_on: str
    body: str
    seen: str
    task: str
    start: str


def evaluations_table(
    groups: Sequence[Group], policies: Sequence[PolicyRecord] = ()
) -> Html | None:
    """A line for each case, over seeds; None if nothing was evaluated."""
    found: dict[Case, list[Result]] = {}
    for group in groups:
        for record in group.runs:
            newest = _newest(record, group.label, group.task, group.bodies)
            for case, result in newest.items():
                found.setdefault(case, []).append(result)
    for policy in policies:
        newest = _newest(policy, policy.name, task_of(policy.bodies), policy.bodies)
        for case, result in newest.items():
            found.setdefault(case, []).append(result)
    if not found:
        return None
    # Numbers stand next to whom they are of, so that they are seen without scrolling.
    rows = [
        (
            *(case.body, case.task, case.method),
            _over_seeds(results, "total_reward"),
            *_show_references(case),
            _show_lasting([result["fell"] for result in results]),
            *(_over_seeds(results, name) for name in STATISTICS),
            str(sum(result["episodes"] for result in results)),
            str(len(results)),
            *(case.seen, case.start, case.trained_on),
        )
        for case, results in sorted(
            found.items(), key=lambda item: (item[0].body, item[0].task, item[0].start)
        )
    ]
    words = ("body", "task", "method")
    numbers = ("return", *KINDS, "lasts", "length", "speed (m/s)", "gained (m)", "targets")
    counts, more = ("episodes", "seeds"), ("seen", "start", "trained on")
    said = (
        "The newest evaluation of each run and policy, without exploration. Mean ± standard error "
        "over seeds; of a single seed, over its episodes. Beside it the return of random actions "
        "and of the body's specialist, the best of any run of the project on it, where known. "
        "Gained are metres nearer to the targets; lasts, the share of episodes of all steps."
    )
    titles = (*words, *numbers, *counts, *more)
    return Html(html_table(titles, rows, left=len(words), right=len(more)) + note(said))


def _newest(
    record: RunRecord | PolicyRecord, label: str, task: str, bodies: Sequence[str]
) -> dict[Case, Result]:
    """The last result of a run or a policy in each case."""
    newest = {}
    for evaluation in record.evaluations():
        about = evaluation["about"]
        yaw = about.get("yaw")
        for result in evaluation["results"]:
            own = result["policy"] == about.get("method")
            case = Case(
                label if own else f"{result['policy']} (beside {label})",
                task,
                result["body"],
                "yes" if result["body"] in bodies else "no",
                result["variant"],
                "any" if yaw is None else f"{math.degrees(yaw):.0f}°",
            )
            newest[case] = result
    return newest


def _show_lasting(fell: Sequence[float | None]) -> str:
    known = [1.0 - share for share in fell if share is not None]
    return f"{fmean(known):.0%}" if known else NOTHING


def _show_references(case: Case) -> Iterator[str]:
    for kind in KINDS:
        value = None
        if case.task in get_args(Variant):
            value = reference_return(kind, [case.body], cast(Variant, case.task))
        yield NOTHING if value is None else f"{value:,.1f}"


def _over_seeds(results: Sequence[Result], name: str) -> str:
    """Nothing for a statistic that one of them, of an earlier version, does not have."""
    means = [result.get(f"{name}_mean") for result in results]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return NOTHING
    if len(known) > 1:
        return show_mean(known)
    error = results[0][f"{name}_se"]
    return format_mean(known[0], math.nan if error is None else error)
