"""Runs with metrics that are known, without a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgrl.training.metrics import MetricsFile
from sgrl.training.run import Run, create_run
from sgrl.training.settings import TrainSettings, resolve_settings

HOPPERS = ("3d_hopper_3_shin", "3d_hopper_5_full")
WALKER = "3d_walker_7_full"
EVERY, ROWS = 100, 50
"""Steps between rows, and rows."""


def made_run(
    folder: Path,
    slopes: Mapping[str, float],
    *,
    rows: int = ROWS,
    every: int = EVERY,
    **settings: Any,
) -> Run:
    """A run on the bodies of `slopes`, each with a return that grows by its slope per step."""
    told: dict[str, Any] = {"algorithm": "ppo", "steps": ROWS * EVERY, "threads": 1}
    run = create_run(
        resolve_settings(TrainSettings(bodies=tuple(slopes), runs=folder, **(told | settings)))
    )
    write_rows(run, slopes, rows, every)
    return run


def write_rows(run: Run, slopes: Mapping[str, float], rows: int, every: int = EVERY) -> None:
    """Rows of metrics, two seconds and `every` steps apart."""
    file = MetricsFile(run.metrics_file)
    for row in range(1, rows + 1):
        steps = row * every
        returns = {body: slope * steps for body, slope in slopes.items()}
        file.append(
            {
                "steps": steps,
                "episodes": row,
                "return": sum(returns.values()) / len(returns),
                **{f"return/{body}": value for body, value in returns.items()},
                "length": 10.0 * row,
                **{f"length/{body}": 10.0 * row for body in returns},
                "approx_kl": None if row == 1 else (0.01, 0.03)[row % 2],
                "learning_rate": 0.01,
                "wall/seconds": 2.0 * row,
            }
        )
    file.close()
