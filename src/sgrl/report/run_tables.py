"""The tables of a report, as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from statistics import fmean, stdev

from sgrl.markup import Html, escape, html_table
from sgrl.morphology import get_body
from sgrl.report.groups import Group, differing_settings
from sgrl.report.runs import RunRecord
from sgrl.training.results import format_mean

NOTHING = "-"


def note(text: str) -> Html:
    """A line of small print."""
    return Html(f'<p class="note">{escape(text)}</p>')


def mean_with_error(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Mean and standard error of what is known; the error of a single value is NaN."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return fmean(known), stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan


def show_mean(values: Sequence[float | None]) -> str:
    """Mean ± standard error."""
    found = mean_with_error(values)
    return NOTHING if found is None else format_mean(*found)


def show_time(seconds: float | None) -> str:
    """Hours, minutes or seconds, whichever is readable."""
    if seconds is None:
        return NOTHING
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds:.0f} s"


def _rate(record: RunRecord) -> float | None:
    steps, seconds = record.last["steps"], record.last.get("wall/seconds")
    return steps / seconds if steps and seconds else None


def _mean(values: Sequence[float | None]) -> float | None:
    found = mean_with_error(values)
    return None if found is None else found[0]


def _named(group: Group, series: Sequence[str]) -> Html:
    """A group's label beside the color of its curves."""
    index = series.index(group.label)
    return Html(f'<i class="swatch s{index % 8}"></i>{html.escape(group.label)}')


def series_of(groups: Sequence[Group]) -> list[str]:
    """Labels in the order of their colors."""
    return list(dict.fromkeys(group.label for group in groups))


def summary_table(groups: Sequence[Group]) -> Html:
    """A line a group: how long it trained, and where it ended."""
    series = series_of(groups)
    rows = []
    for group in groups:
        last = [record.last for record in group.runs]
        rates = [_rate(record) for record in group.runs]
        steps = _mean([row.get("steps") for row in last])
        rate = _mean(rates)
        unfinished = sum(not record.finished for record in group.runs)
        rows.append(
            (
                _named(group, series),
                group.task,
                ", ".join(str(record.settings.seed) for record in group.runs),
                show_mean([row.get("return") for row in last]),
                show_mean([row.get("length") for row in last]),
                f"{steps:,.0f}{'*' if unfinished else ''}" if steps else NOTHING,
                f"{rate:,.0f}" if rate else NOTHING,
                show_time(_mean([row.get("wall/seconds") for row in last])),
            )
        )
    titles = ("method", "trained on", "seeds", "return", "length", "steps", "steps/s", "time")
    made = html_table(titles, rows, left=3)
    said = (
        "Return and length of the latest training episodes at the end of each run, exploration "
        "included: mean ± standard error over seeds. Steps, rate and time are means over seeds."
    )
    if any("*" in row[5] for row in rows):
        said += " * not all of the steps that were asked for."
    for group in groups:
        seeds = [record.settings.seed for record in group.runs]
        twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
        if twice:
            said += (
                f" {group.label} on {group.task} has seed {', '.join(map(str, twice))} more than "
                "once: such runs are no independent seeds, and the error is too small."
            )
    return Html(made + note(said))


def returns_table(groups: Sequence[Group]) -> Html:
    """Final returns: a line a body and a family, a column a label."""
    series = series_of(groups)
    families: dict[str, list[str]] = {}
    for body in dict.fromkeys(body for group in groups for body in group.bodies):
        families.setdefault(str(get_body(body).family), []).append(body)

    def line(title: str, bodies: Sequence[str]) -> list[str]:
        found = [_final(groups, label, bodies) for label in series]
        means = [mean_with_error(values) for values in found]
        best = max((mean[0] for mean in means if mean is not None), default=None)
        cells = []
        for mean in means:
            text = NOTHING if mean is None else format_mean(*mean)
            leads = mean is not None and mean[0] == best and len(series) > 1
            cells.append(Html(f"<b>{text}</b>") if leads else text)
        return [title, *cells]

    rows = []
    for family, bodies in families.items():
        rows += [line(body, [body]) for body in bodies]
        if len(bodies) > 1:
            rows.append(line(f"mean of {len(bodies)} in {family}", bodies))
    every = [body for bodies in families.values() for body in bodies]
    if len(families) > 1:
        rows.append(line(f"mean of all {len(every)}", every))
    rows = [row for row in rows if {*row[1:]} != {NOTHING}]
    return Html(
        html_table(("body", *series), rows)
        + note(
            "Mean ± standard error over seeds. A mean over bodies is of runs that have them all."
        )
    )


def _final(groups: Sequence[Group], label: str, bodies: Sequence[str]) -> list[float | None]:
    """Of each run of a label that has all these bodies, its last return, their mean."""
    found = []
    for group in groups:
        if group.label == label and set(bodies) <= set(group.bodies):
            for record in group.runs:
                values = [record.last.get(f"return/{body}") for body in bodies]
                found.append(None if None in values else _mean(values))
    return found


def settings_table(groups: Sequence[Group]) -> Html:
    """Every setting that differs, a column a group."""
    differing = differing_settings(groups)
    if not differing:
        return note("All runs have the same settings but for their seeds.")
    several = len({group.task for group in groups}) > 1
    titles = [f"{group.label} on {group.task}" if several else group.label for group in groups]
    rows = [(name, *values) for name, values in differing.items()]
    return html_table(("setting", *titles), rows, left=1 + len(groups))


def runs_table(groups: Sequence[Group]) -> Html:
    """Every run with its command."""
    rows = [
        (
            record.name,
            group.label,
            str(record.settings.seed),
            "yes" if record.finished else "no",
            f"{record.last['steps'] or 0:,.0f}",
            show_mean([record.last.get("return")]),
            (record.commit or NOTHING)[:10],
            Html(f"<code>{html.escape(record.command or NOTHING)}</code>"),
        )
        for group in groups
        for record in group.runs
    ]
    titles = ("run", "method", "seed", "finished", "steps", "return", "commit", "command")
    return html_table(titles, rows, left=4, right=2)
