"""What a grid shows meanwhile: one table on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sgrl.experiments.findings import read_curve
from sgrl.experiments.runner import Event, Job
from sgrl.training.progress import format_seconds

REFRESH_PER_SECOND = 0.5
"""How often the table is drawn anew, which reads the metrics of every job that runs."""
ROWS = 24
"""Jobs in the table at most; finished ones give way first."""


class GridProgress:
    """A context that shows how far the jobs of a grid are; `report` is for the runner."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        self._console = console
        self._events: dict[str, Event | None] = {job.name: None for job in jobs}
        self._reasons: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._jobs = list(jobs)
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                console=console,
                get_renderable=self.table,
                refresh_per_second=REFRESH_PER_SECOND,
            )

    def __enter__(self) -> GridProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, job: Job, event: Event, reason: str) -> None:
        """Show what happened to a job."""
        self._events[job.name] = event
        self._since.setdefault(job.name, time.monotonic())
        if reason:
            self._reasons[job.name] = reason
        if self._live is not None:
            return
        ended = sum(known not in (None, "started") for known in self._events.values())
        line = f"[{ended}/{len(self._events)}] {job.label}: {event}"
        if event != "started":
            line += f" after {format_seconds(time.monotonic() - self._since[job.name])}"
            line += _standing(job)
        if reason:
            line += f": {reason} (see {job.log})"
        self._console.print(line, markup=False)

    def table(self) -> Table:
        """All jobs, or those that matter most if there are many."""
        known = list(self._events.values())
        done, failed = known.count("done"), known.count("failed")
        title = f"{done} of {len(known)} done" + (f", {failed} failed" if failed else "")
        table = Table(title=title, title_justify="left")
        for column in ("job", "state", "how far"):
            table.add_column(column, overflow="fold")
        order = {"failed": 0, "started": 1, "stopped": 2, None: 3, "done": 4}
        shown = sorted(self._jobs, key=lambda job: order[self._events[job.name]])
        for job in shown[:ROWS]:
            event = self._events[job.name]
            state = {None: "waiting", "started": "running"}.get(event, event)
            about = _standing(job).removeprefix(", ") if event else ""
            if job.name in self._reasons:
                about = f"{self._reasons[job.name]} (see {job.log})"
            # As text: what is in brackets is not markup.
            table.add_row(Text(job.label), state, Text(about))
        if len(shown) > ROWS:
            table.add_row(f"and {len(shown) - ROWS} more", "", "")
        return table


def _standing(job: Job) -> str:
    """Steps and recent return of a job, as its metrics tell."""
    steps, returns = read_curve(job.folder)
    if not len(steps):
        return ""
    return f", {int(steps[-1]):,} steps, return {returns[-1]:,.1f}"
