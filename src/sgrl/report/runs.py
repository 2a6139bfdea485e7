"""What a report reads of a run: its settings, its metrics, what lies in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgrl.report.cards import read_evaluations
from sgrl.training.checkpoint import list_checkpoints, read_metadata
from sgrl.training.place import split_place
from sgrl.training.run import Run, find_run
from sgrl.training.settings import TrainSettings, is_over

MOST_POINTS = 400
"""Points of a curve in the page; of a longer one neighbors are averaged."""
REPLAY_SUFFIXES = (".html", ".mp4", ".gif")

Column = list[float | None]
PROGRESS = ("steps", "updates", "episodes", "wall/seconds")
"""Columns that count up: of several rows the last one counts, not the mean."""


@dataclass(frozen=True)
class RunRecord:
    """A run as it is reported."""

    run: Run
    settings: TrainSettings
    columns: dict[str, Column]
    """Those of metrics.csv, at most `MOST_POINTS` long."""
    last: dict[str, float | None]
    """The last row of metrics.csv."""
    command: str | None
    commit: str | None
    """Those of the first process."""

    @property
    def name(self) -> str:
        return self.run.path.resolve().name

    @property
    def finished(self) -> bool:
        """Whether its newest checkpoint has all the steps, or minutes, that it was told to make."""
        try:
            newest = list_checkpoints(self.run.checkpoints)[-1]
            metadata = read_metadata(newest)
            return is_over(self.settings, metadata["steps"], metadata["seconds"])
        except (IndexError, OSError, ValueError):
            return False  # no checkpoint that could tell

    def evaluations(self) -> list[dict[str, Any]]:
        """What `sgrl eval` wrote for it, oldest first: `about` and `results`."""
        return read_evaluations(self.run.files)

    def replays(self) -> list[str]:
        """Names of the pages and videos in its folder, or one folder further down."""
        files = self.run.files
        names = files.files()
        for folder in files.folders():
            names += [f"{folder}/{name}" for name in files.files(folder)]
        return sorted(name for name in names if name.lower().endswith(REPLAY_SUFFIXES))


class NothingToShowError(ValueError):
    """A folder that a report can do without: among other runs it is left out."""


def read_runs(
    where: Iterable[str | Path], left_out: Callable[[str], None] = lambda _: None
) -> list[RunRecord]:
    """The runs at some paths or of some names, each once; an error says which can't be read.

    Folders beside runs that are none, as `runs/*` names them too, are left out, and so are runs
    without metrics; `left_out` hears why. If nothing else is there, it is an error.
    """
    records: dict[Path, RunRecord] = {}
    reasons: list[NothingToShowError] = []
    for one in where:
        try:
            run = _find(one)
            path = run.path.resolve()
            if path not in records:
                records[path] = _read(run)
        except NothingToShowError as reason:
            reasons.append(reason)
    if not records:
        raise (
            reasons[0]
            if reasons
            else ValueError("name the runs to report on: sgrl report runs/NAME ... -o report.html")
        )
    for why in reasons:
        left_out(str(why))
    return list(records.values())


def _find(where: str | Path) -> Run:
    try:
        return find_run(split_place(where)[0])
    except FileNotFoundError as error:
        if not Path(where).is_dir():
            raise
        inside = sorted(path.parent for path in Path(where).glob("*/settings.json"))
        if inside:
            raise NothingToShowError(
                f"{where} is not a run but a folder of {len(inside)}; name those: "
                f"{Path(where) / '*'}"
            ) from None
        raise NothingToShowError(str(error)) from None


def _read(run: Run) -> RunRecord:
    settings = run.settings()
    rows = run.metrics()
    if not rows:
        raise NothingToShowError(
            f"{run.path} has no row of metrics yet; there is one every {settings.log_every:,} steps"
        )
    first: dict[str, str | None] = next(iter(run.versions()["processes"]), {})
    return RunRecord(run, settings, thin(rows), rows[-1], first.get("command"), first.get("commit"))


def thin(rows: Sequence[Mapping[str, float | None]], most: int = MOST_POINTS) -> dict[str, Column]:
    """Columns of at most `most` numbers: means of neighboring rows, of counters the last."""
    ends = [round((i + 1) * len(rows) / most) for i in range(most)]
    if len(rows) <= most:
        ends = list(range(1, len(rows) + 1))
    starts = [0, *ends[:-1]]
    columns: dict[str, Column] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        parts = [values[start:end] for start, end in zip(starts, ends, strict=True)]
        columns[name] = [part[-1] if name in PROGRESS else _mean(part) for part in parts]
    return columns


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
