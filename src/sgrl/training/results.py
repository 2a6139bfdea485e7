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

from sgrl.envs.variant import Variant
from sgrl.files import SafeFolder, writable, write_csv
from sgrl.markup import markdown_table
from sgrl.training.references import reference_return

STATISTICS = ("total_reward", "length", "speed", "targets", "distance", "gained")
"""The fields of an `Episode` that are averaged."""
LASTING = 0.8
"""Share of episodes that last, from which on a body counts as one that stays up."""
KEEPING_UP = 0.75
"""Share of the specialist's return, from which on a body counts as one that is mastered."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode from its start to its end."""

    seed: int
    """Seed of the environment: the single environment reset with it starts the same."""
    total_reward: float
    """The return: its rewards summed, undiscounted."""
    length: int
    """Steps."""
    speed: float
    """Mean speed toward the target, m/s."""
    targets: int
    """Targets reached."""
    distance: float
    """Distance from torso to target on the ground at the end, m."""
    fell: bool
    """Ended by the body's state, not by the time limit."""
    diverged: bool
    """Ended because the simulation blew up."""
    gained: float = math.nan
    """Metres nearer to the targets, each until it was reached; results before 0.2 do not say."""


@dataclass(frozen=True, slots=True)
class BodyResult:
    """The episodes of one policy on one body."""

    policy: str
    body: str
    variant: Variant
    episodes: tuple[Episode, ...]

    def mean(self, statistic: str) -> float:
        """Mean of one of `STATISTICS`, or the share of episodes that `fell` or `diverged`."""
        return float(self._values(statistic).mean())

    def standard_error(self, statistic: str) -> float:
        """Standard error of that mean; NaN for a single episode, which says nothing about it."""
        values = self._values(statistic)
        if len(values) < 2:
            return math.nan
        return float(values.std(ddof=1) / math.sqrt(len(values)))

    @property
    def lasted(self) -> float:
        """The share of episodes that went on to the time limit."""
        return 1.0 - self.mean("fell")

    @property
    def specialist(self) -> float | None:
        """The return of the body's specialist, where there is one (see `references`)."""
        return reference_return("specialist", [self.body], self.variant)

    @property
    def weakness(self) -> str:
        """Why the policy does badly on this body, in a word; empty if it does not."""
        return find_weakness(self.lasted, self.mean("total_reward"), self.specialist)

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


def find_weakness(lasted: float, total_reward: float, specialist: float | None) -> str:
    """`falls` where less than `LASTING` of the episodes last, `behind` where the return is less
    than `KEEPING_UP` of the specialist's, else nothing."""
    if lasted < LASTING:
        return "falls"
    return "behind" if specialist is not None and total_reward < KEEPING_UP * specialist else ""


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
    # Of results before 0.2 it is not known what was gained.
    known = [name for name in STATISTICS if name != "gained" or row.get("gained_mean") is not None]
    numbers = ["episodes", "fell", "diverged", *(f"{name}_mean" for name in known)]
    for key in numbers:
        if not _is_number(row[key]):
            raise ValueError(f"{key} is {row[key]!r}")
    for key in (f"{name}_se" for name in known):
        if row[key] is not None and not _is_number(row[key]):
            raise ValueError(f"{key} is {row[key]!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def format_table(
    results: Sequence[BodyResult], paper: Mapping[str, tuple[float, float]] | None = None
) -> str:
    """A Markdown table: a line per body and variant, each cell a mean and its standard error.

    Beside the return stands that of the body's specialist and the paper's (`paper`, by body; it
    tried far targets only) where there is one. A last line of each policy and variant gives the
    means over bodies. Columns that would be empty are left out.
    """
    lines: list[dict[str, str]] = []
    for policy, variant in dict.fromkeys((one.policy, one.variant) for one in results):
        own = [one for one in results if (one.policy, one.variant) == (policy, variant)]
        for one in own:
            number = (paper or {}).get(one.body) if variant == "v1" else None
            lines.append(
                {
                    "policy": policy,
                    "body": one.body,
                    "variant": variant,
                    "episodes": str(len(one.episodes)),
                    "return": _cell(one, "total_reward"),
                    "specialist": "" if one.specialist is None else _number(one.specialist),
                    "paper": "" if number is None else format_mean(*number),
                    "lasts": f"{one.lasted:.0%}",
                    "length": _cell(one, "length"),
                    "speed (m/s)": _cell(one, "speed"),
                    "gained (m)": _cell(one, "gained"),
                    "targets": "" if variant == "v1" else _cell(one, "targets"),
                    "weak": one.weakness,
                }
            )
        if len(own) > 1:
            means = {name: _number(fmean(one.mean(name) for one in own)) for name in STATISTICS}
            weak = sum(bool(one.weakness) for one in own)
            lines.append(
                {
                    "policy": policy,
                    "body": f"mean of {len(own)}",
                    "variant": variant,
                    "episodes": str(sum(len(one.episodes) for one in own)),
                    "return": means["total_reward"],
                    "specialist": "",
                    "paper": "",
                    "lasts": f"{fmean(one.lasted for one in own):.0%}",
                    "length": means["length"],
                    "speed (m/s)": means["speed"],
                    "gained (m)": means["gained"],
                    "targets": "" if variant == "v1" else means["targets"],
                    "weak": f"{weak} of {len(own)}" if weak else "",
                }
            )
    titles = [title for title in lines[0] if any(line[title] for line in lines)]
    return markdown_table(titles, [[line[title] for title in titles] for line in lines], left=3)


def _cell(result: BodyResult, statistic: str) -> str:
    return format_mean(result.mean(statistic), result.standard_error(statistic))


def format_mean(mean: float, error: float) -> str:
    """A mean and its standard error, where there is one."""
    return _number(mean) if math.isnan(error) else f"{_number(mean)} ± {_number(error)}"


def _number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"
