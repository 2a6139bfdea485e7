"""The plan of a request: what is done, what is missing, and how long that may take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table
from rich.text import Text

from sgrl.experiments.runner import Job, State
from sgrl.training.progress import format_seconds


@dataclass(frozen=True)
class GridPlan:
    """Jobs with their states."""

    jobs: tuple[Job, ...]
    states: tuple[State, ...]

    def unfinished(self) -> list[Job]:
        """In the order of the grid."""
        pairs = zip(self.jobs, self.states, strict=True)
        return [job for job, state in pairs if state.phase != "done"]

    def count(self, phase: str) -> int:
        return sum(state.phase == phase for state in self.states)

    def expected_seconds(self, processes: int) -> float:
        """Until all are done, with so many at once: an estimate; NaN if there is none."""
        remaining = self._remaining()
        if any(map(math.isnan, remaining)):
            return math.nan
        return max(sum(remaining) / processes, *remaining, 0.0)

    def _remaining(self) -> list[float]:
        """Seconds that each unfinished job still takes, NaN where nothing is known."""
        rates: dict[str, list[float]] = {}
        for job, state in zip(self.jobs, self.states, strict=True):
            if state.steps and state.seconds:
                rates.setdefault(job.settings.method, []).append(state.steps / state.seconds)
        everyone = [rate for own in rates.values() for rate in own]
        found = []
        for job, state in zip(self.jobs, self.states, strict=True):
            if state.phase == "done":
                continue
            known = rates.get(job.settings.method, everyone)
            steps, minutes = job.settings.steps or 0, job.settings.minutes
            by_steps = (steps - state.steps) / fmean(known) if known else math.nan
            by_time = math.nan if minutes is None else 60 * minutes - state.seconds
            limits = [limit for limit in (by_steps, by_time) if not math.isnan(limit)]
            found.append(max(0.0, min(limits)) if limits else math.nan)
        return found

    def table(self) -> Table:
        """A line for each job."""
        table = Table(title_justify="left")
        for column in ("job", "state", "steps so far"):
            table.add_column(column, justify="right" if column == "steps so far" else "left")
        for job, state in zip(self.jobs, self.states, strict=True):
            table.add_row(Text(job.label), state.phase, f"{state.steps:,}" if state.steps else "")
        return table

    def summary(self, processes: int) -> str:
        """In a line: how many, and how long."""
        missing, partial = self.count("missing"), self.count("partial")
        counts = f"{len(self.jobs)} trainings: {self.count('done')} done, "
        counts += f"{partial} to go on with, {missing} to start"
        if not missing + partial:
            return counts
        seconds = self.expected_seconds(processes)
        if math.isnan(seconds):
            return f"{counts}; no estimate of the time before one of them has run"
        return f"{counts}; about {format_seconds(seconds)} with {processes} at once (an estimate)"


def make_plan(jobs: Sequence[Job]) -> GridPlan:
    """What the folders say now is done and what is to do."""
    return GridPlan(tuple(jobs), tuple(job.state() for job in jobs))


def waves(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs in groups that can run at once: what starts from another's weights comes after it."""
    left, groups = list(jobs), []
    while left:
        names = {job.folder for job in left}
        ready = [job for job in left if job.settings.init_from not in names]
        groups.append(ready)
        left = [job for job in left if job not in ready]
    return groups
