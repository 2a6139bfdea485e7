"""What episodes gave: their statistics, tables and files."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.task import Variant
from sgrl.files import SafeFolder, writable, write_csv
from sgrl.markup import markdown_table

STATISTICS = ("total_reward", "length", "speed", "targets", "distance")
"""The fields of an `Episode` that are averaged."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode from its start to its end."""

    seed: int
    """Of the environment: the single environment reset with it starts the same."""
    total_reward: float
    """The return: its rewards summed, undiscounted."""
    length: int
    """Steps."""
    speed: float
    """Mean speed toward the target, m/s."""
    targets: int
    """Targets reached."""
    distance: float
    """From torso to target on the ground at the end, m."""
    fell: bool
    """Ended by the body's state, not by the time limit."""
    diverged: bool
    """Ended because the simulation blew up."""


@dataclass(frozen=True, slots=True)
class BodyResult:
    """The episodes of one policy on one body."""

    policy: str
    body: str
    variant: Variant
    episodes: tuple[Episode, ...]

    def mean(self, statistic: str) -> float:
        """Of one of `STATISTICS`, or the share of episodes that `fell` or `diverged`."""
        return float(self._values(statistic).mean())

    def standard_error(self, statistic: str) -> float:
        """Of that mean; NaN for a single episode, which says nothing about it."""
        values = self._values(statistic)
        if len(values) < 2:
            return math.nan
        return float(values.std(ddof=1) / math.sqrt(len(values)))

    def summary(self) -> dict[str, str | int | float]:
        """A row of `summary.csv`."""
        row: dict[str, str | int | float] = {
            "policy": self.policy,
            "body": self.body,
            "variant": self.variant,
            "episodes": len(self.episodes),
        }
        for name in STATISTICS:
            row |= {f"{name}_mean": self.mean(name), f"{name}_se": self.standard_error(name)}
        return row | {"fell": self.mean("fell"), "diverged": self.mean("diverged")}

    def _values(self, statistic: str) -> NDArray[np.float64]:
        return np.array([getattr(episode, statistic) for episode in self.episodes], np.float64)


def write_results(
    results: Sequence[BodyResult], folder: Path, *, about: Mapping[str, Any] | None = None
) -> None:
    """Write `episodes.csv`, `summary.csv` and `summary.json` into a folder.

    `about` says in `summary.json` what was evaluated, and how.
    """
    episodes = [
        {"policy": result.policy, "body": result.body, "variant": result.variant}
        | dataclasses.asdict(episode)
        for result in results
        for episode in result.episodes
    ]
    # There is no NaN in JSON, and none in a CSV that every program reads.
    summaries = [
        {key: None if value != value else value for key, value in result.summary().items()}
        for result in results
    ]
    write_csv(folder / "episodes.csv", episodes)
    write_csv(folder / "summary.csv", summaries)
    with writable(folder / "summary.json") as path:
        text = json.dumps({"about": dict(about or {}), "results": summaries}, indent=2)
        path.write_text(text + "\n", encoding="utf-8")


MOST_SUMMARY_BYTES = 2**24
"""More than this no summary.json has."""


def read_summary(files: SafeFolder, name: str) -> dict[str, Any]:
    """What `write_results` wrote as summary.json: `about` and `results`, of the right types."""
    try:
        found = json.loads(files.read(name, MOST_SUMMARY_BYTES))
        about, results = found["about"], found["results"]
        if not isinstance(about, dict) or not isinstance(results, list):
            raise ValueError("about is an object, and results a list")
        yaw = about.get("yaw")
        if not (yaw is None or _is_number(yaw)):
            raise ValueError(f"yaw is {yaw!r}")
        for row in results:
            _check_row(row)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        where = files.path / name
        raise ValueError(f"{where} is not a summary of an evaluation: {reason}") from None
    return {"about": about, "results": results}


def _check_row(row: Any) -> None:
    for key in ("policy", "body", "variant"):
        if not isinstance(row[key], str):
            raise ValueError(f"{key} is {row[key]!r}")
    numbers = ["episodes", "fell", "diverged", *(f"{name}_mean" for name in STATISTICS)]
    for key in numbers:
        if not _is_number(row[key]):
            raise ValueError(f"{key} is {row[key]!r}")
    for key in (f"{name}_se" for name in STATISTICS):
        if row[key] is not None and not _is_number(row[key]):
            raise ValueError(f"{key} is {row[key]!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def format_table(results: Sequence[BodyResult]) -> str:
    """A Markdown table: a line per body, each cell a mean and its standard error.

    Where a policy has several bodies, a last line gives the mean over them.
    """
    titles = ("return", "length", "speed (m/s)", "targets", "distance (m)", "fell")
    lines: list[tuple[str, ...]] = []
    for policy in dict.fromkeys(result.policy for result in results):
        own = [result for result in results if result.policy == policy]
        for result in own:
            cells = [
                format_mean(result.mean(name), result.standard_error(name)) for name in STATISTICS
            ]
            fell = f"{result.mean('fell'):.0%}"
            about = (policy, result.body, result.variant, str(len(result.episodes)))
            lines.append((*about, *cells, fell))
        if len(own) > 1:
            means = [fmean(result.mean(name) for result in own) for name in STATISTICS]
            fell = f"{fmean(result.mean('fell') for result in own):.0%}"
            total = str(sum(len(result.episodes) for result in own))
            about = (policy, f"mean of {len(own)}", own[0].variant, total)
            lines.append((*about, *map(_number, means), fell))
    return markdown_table(("policy", "body", "variant", "episodes", *titles), lines, left=3)


def format_mean(mean: float, error: float) -> str:
    """A mean and its standard error, where there is one."""
    return _number(mean) if math.isnan(error) else f"{_number(mean)} ± {_number(error)}"


def _number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"
