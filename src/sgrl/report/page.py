"""The page: data and tables in a template, everything in one file."""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, get_args
from urllib.parse import quote

import sgrl
from sgrl.envs.variant import Variant
from sgrl.files import writable
from sgrl.markup import Html
from sgrl.morphology import get_body
from sgrl.plugins import TRUST
from sgrl.report import run_tables
from sgrl.report.cards import PolicyRecord, find_policies
from sgrl.report.certificates import certificate_table
from sgrl.report.evaluations import evaluations_table
from sgrl.report.groups import Group, make_groups
from sgrl.report.run_tables import note, series_of
from sgrl.report.runs import Column, RunRecord, read_runs
from sgrl.training.references import KINDS, reference_return

SCRIPTS = ("curves.js", "chart.js", "page.js")
"""In the order in which they build on each other."""
LARGEST_EMBEDDED = 4_000_000
"""Bytes of a replay that goes into the page; a larger one is linked to."""
MOST_EMBEDDED = 24_000_000
"""Bytes of all of them together."""


def write_report(
    runs: Sequence[str | Path],
    out: Path,
    title: str | None = None,
    left_out: Callable[[str], None] = lambda _: None,
    *,
    trust: Sequence[str] = (),
) -> int:
    """Write a page about runs and policies, by folder or name; returns how many there are.

    `left_out` hears of folders that have nothing to show beside those that do, and why. `trust`
    names modules that may be imported for methods `module:Class`.
    """
    TRUST.add(trust)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{out}: a report is an .html file")
    policies, others = find_policies(runs)
    records = read_runs(others, left_out) if others or not policies else []
    groups = make_groups(records)
    page = make_page(groups, title or "Learning report", out.parent, policies)
    try:
        with writable(out) as draft:
            draft.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OSError(f"{out} can't be written: {error.strerror or error}") from None
    return len(records) + len(policies)


def make_page(
    groups: Sequence[Group], title: str, folder: Path, policies: Sequence[PolicyRecord] = ()
) -> str:
    """The page as text; `folder` is where it will lie, for links to what is not in it."""
    runs = sum(len(group.runs) for group in groups)
    counts = ((runs, "run", "runs"), (len(policies), "policy", "policies"))
    counted = [f"{count} {one if count == 1 else more}" for count, one, more in counts if count]
    about = f"{' and '.join(counted)} · {time.strftime('%d %B %Y, %H:%M')}"
    evaluations = evaluations_table(groups, policies)
    sections = {
        "Final returns": run_tables.summary_table(groups),
        "Returns by body": run_tables.returns_table(groups),
        "Settings that differ": run_tables.settings_table(groups),
        "Symmetry certificate": certificate_table(groups),
        "Evaluations": evaluations,
        "Replays": _replay_list(groups),
        "Runs": run_tables.runs_table(groups),
    }
    if not groups:
        sections = {"Evaluations": evaluations}
    elif len(dict.fromkeys(body for group in groups for body in group.bodies)) == 1:
        del sections["Returns by body"]
    shown = [_section(name, content) for name, content in sections.items() if content]
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        about=html.escape(f"{about} · sgrl {sgrl.__version__}"),
        style=_asset("page.css"),
        script="\n".join(map(_asset, SCRIPTS)),
        sections="\n".join(shown),
        data=embed(_data(groups)),
        replays=embed(_replays(groups, folder)),
    )


def embed(value: Any) -> str:
    """JSON for a script element, which nothing in it can end."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("sgrl.report").joinpath(name).read_text(encoding="utf-8")


def _section(name: str, content: Html) -> str:
    return f"<section><h2>{html.escape(name)}</h2>\n{content}\n</section>"


def _data(groups: Sequence[Group]) -> dict[str, Any]:
    """What the curves are drawn from."""
    series = series_of(groups)
    bodies = dict.fromkeys(body for group in groups for body in group.bodies)
    return {
        "series": series,
        "families": {body: str(get_body(body).family) for body in bodies},
        "references": {
            kind: {
                variant: {
                    body: value
                    for body in bodies
                    if (value := reference_return(kind, [body], variant)) is not None
                }
                for variant in get_args(Variant)
            }
            for kind in KINDS
        },
        "groups": [
            {
                "series": series.index(group.label),
                "task": group.task,
                "variant": group.runs[0].settings.variant,
                "bodies": group.bodies,
                "runs": [
                    {"seed": record.settings.seed, "columns": _columns(record)}
                    for record in group.runs
                ],
            }
            for group in groups
        ],
    }


def _columns(record: RunRecord) -> dict[str, Column]:
    """Without the overall return and length, which are means of the bodies'; six digits do."""
    return {
        name: [None if value is None else float(f"{value:.6g}") for value in column]
        for name, column in record.columns.items()
        if name not in ("return", "length")
    }


def _all_replays(groups: Sequence[Group]) -> list[tuple[RunRecord, str]]:
    """The runs and the names of the files in them, in the order in which they are listed."""
    return [
        (record, name) for group in groups for record in group.runs for name in record.replays()
    ]


def _replay_list(groups: Sequence[Group]) -> Html | None:
    """Where the script puts them."""
    if not _all_replays(groups):
        return None
    return Html('<div id="replays"></div>' + note("A replay is loaded when you open it."))


def _replays(groups: Sequence[Group], folder: Path) -> list[dict[str, Any]]:
    """Small pages as text, everything else as links relative to the report's folder."""
    found, left = [], MOST_EMBEDDED
    for record, name in _all_replays(groups):
        path = record.run.path / name
        size = path.stat().st_size
        entry: dict[str, Any] = {"name": f"{record.name}: {path.name}", "link": _link(path, folder)}
        if path.suffix.lower() == ".html" and size <= min(LARGEST_EMBEDDED, left):
            left -= size
            page = record.run.files.read(name, LARGEST_EMBEDDED)
            entry["page"] = page.decode("utf-8", "replace")
        found.append(entry)
    return found


def _link(path: Path, folder: Path) -> str:
    try:
        return quote(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix())
    except ValueError:  # on another drive
        return path.resolve().as_uri()
