"""What a report reads of published policies: their cards, and what `sgrl eval` wrote of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgrl.files import SafeFolder
from sgrl.training.results import read_summary
from sgrl.training.run import SHIPPED, Run

RUNS = Path("runs")
"""Where evaluations of policies that ship are written: nothing is written into the package."""


@dataclass(frozen=True)
class PolicyRecord:
    """A published policy as it is reported."""

    run: Run
    card: dict[str, Any]

    @property
    def name(self) -> str:
        return self.run.path.resolve().name

    @property
    def bodies(self) -> tuple[str, ...]:
        return tuple(self.card["bodies"])

    def evaluations(self) -> list[dict[str, Any]]:
        """That of the card first, then those of `sgrl eval`, oldest first."""
        episodes = self.card.get("episodes")
        rows = [
            {
                "policy": self.card["method"],
                "body": row["body"],
                "variant": row["variant"],
                "episodes": episodes,
                **{
                    f"{name}_{suffix}": row.get(name if suffix == "mean" else f"{name}_se")
                    for name in ("total_reward", "length", "speed", "gained", "targets")
                    for suffix in ("mean", "se")
                },
                "fell": None if row.get("lasted") is None else 1.0 - row["lasted"],
            }
            for row in self.card["results"]
        ]
        found = [{"about": {"method": self.card["method"]}, "results": rows}]
        for folder in (self.run.path, RUNS / self.name):
            if folder.is_dir():
                found += read_evaluations(SafeFolder(folder))
        return found


def read_evaluations(files: SafeFolder) -> list[dict[str, Any]]:
    """What `sgrl eval` wrote into a folder, oldest first: `about` and `results` of each."""
    names = files.folders("evaluations") if files.mode("evaluations") else []
    return [
        read_summary(files, f"evaluations/{name}/summary.json")
        for name in names
        if files.mode(f"evaluations/{name}/summary.json")
    ]


def find_policies(
    where: Iterable[str | Path],
) -> tuple[list[PolicyRecord], list[str | Path]]:
    """The published policies among what is to be reported, each once, and the rest.

    A folder of evaluations alone, `runs/set-cheetah`, stands for the policy that ships.
    """
    policies: dict[Path, PolicyRecord] = {}
    rest: list[str | Path] = []
    for one in where:
        run = _published(Path(one))
        if run is None:
            rest.append(one)
        else:
            policies.setdefault(run.path.resolve(), _read(run))
    return list(policies.values()), rest


def _read(run: Run) -> PolicyRecord:
    record = PolicyRecord(run, run.card())
    try:
        record.bodies, record.evaluations()
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{run.path / 'card.json'} is not the card of a policy: {error!r}"
        ) from None
    return record


def _published(where: Path) -> Run | None:
    for path in (where, RUNS / where):
        if (path / "settings.json").is_file():
            return Run(path) if Run(path).is_published() else None
    shipped = SHIPPED / where.name
    if (shipped / "settings.json").is_file() and (
        where.name == str(where) or (where / "evaluations").is_dir()
    ):
        return Run(shipped)
    return None
