"""What an experiment has found: trials, learning curves, and their files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from sgrl.files import write_csv
from sgrl.training.results import Episode
from sgrl.training.run import Run

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Means over episodes, step by step, (points,) each.

    An episode that has ended keeps its reward and its distance, and has no height any more.
    """

    step: Array
    reward: Array
    """Summed since the start."""
    distance: Array
    """To the target, m."""
    height: Array
    """Mean height of all limbs above the ground, m; NaN once all episodes have ended."""
    running: Array
    """Share of the episodes that go on."""


SERIES_COLUMNS = tuple(one.name for one in dataclasses.fields(Series))


@dataclass(frozen=True)
class EvaluationResult:
    """One trained run on one body in one condition."""

    method: str
    task: str
    """The body or collection it was trained on."""
    seed: int
    """Seed of the training."""
    condition: str
    """What sets this trial apart from others of the run: a start angle, a bias; or nothing."""
    body: str
    variant: str
    steps: int
    """That the policy was trained for."""
    episodes: tuple[Episode, ...]
    series: Series | None = None

    def mean(self, statistic: str) -> float:
        """Mean of a field of the episodes."""
        return fmean(float(getattr(episode, statistic)) for episode in self.episodes)

    def about(self) -> dict[str, str | int]:
        """The columns that tell trials apart."""
        names = ("method", "task", "seed", "condition", "body", "variant", "steps")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Curve:
    """The learning curve of a run: (points,) each."""

    method: str
    task: str
    seed: int
    variant: str
    steps: Array
    returns: Array
    """Means of recent episodes, all bodies counting the same."""


@dataclass(frozen=True)
class Results:
    """All that a table or a figure is made of."""

    trials: tuple[EvaluationResult, ...]
    curves: tuple[Curve, ...]

    def methods(self) -> tuple[str, ...]:
        """In the order of the grid."""
        return tuple(dict.fromkeys(trial.method for trial in self.trials))

    def tasks(self) -> tuple[str, ...]:
        """In the order of the grid."""
        return tuple(dict.fromkeys(trial.task for trial in self.trials))


def scores(trials: Sequence[EvaluationResult], statistic: str = "total_reward") -> Array:
    """Means over episodes, (seeds, bodies), of trials of one method in one condition."""
    # What is trained on different collections is a different body to the statistics.
    bodies = list(dict.fromkeys((trial.task, trial.body) for trial in trials))
    means = {(trial.seed, trial.task, trial.body): trial.mean(statistic) for trial in trials}
    seeds = sorted({trial.seed for trial in trials})
    return np.array([[means[seed, *body] for body in bodies] for seed in seeds])


def read_curve(run: Path, column: str = "return") -> tuple[Array, Array]:
    """Steps and returns of a run's metrics, or another column, where there is a number."""
    rows = Run(run).metrics() if run.is_dir() else []
    points = np.array(
        [[row["steps"], row[column]] for row in rows if row.get(column) is not None], np.float64
    )
    return (points[:, 0], points[:, 1]) if len(points) else (np.zeros(0), np.zeros(0))


def write_trials(trials: Sequence[EvaluationResult], folder: Path) -> list[Path]:
    """`episodes.csv`, and `series.csv` if trials have series. Returns what was written."""
    episodes = [
        trial.about() | dataclasses.asdict(episode)
        for trial in trials
        for episode in trial.episodes
    ]
    written = [folder / "episodes.csv"]
    write_csv(written[0], episodes)
    series = [
        trial.about() | point
        for trial in trials
        if trial.series is not None
        for point in _points(trial.series)
    ]
    if series:
        written.append(folder / "series.csv")
        write_csv(written[-1], series)
    return written


def _points(series: Series) -> list[dict[str, float | None]]:
    columns = [getattr(series, name).tolist() for name in SERIES_COLUMNS]
    return [
        {n: None if v != v else v for n, v in zip(SERIES_COLUMNS, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]
