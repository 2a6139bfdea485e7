"""Learning curves and final returns of finished or running trainings, from their folders.

    python benchmarks/curves.py runs/td3/* --figure docs/images/td3_curves.png

Runs of one method on one body are seeds of each other. The figure has a column for each body: the
return of recent training episodes (with exploration) against steps and, below, against minutes of
training, mean and range over seeds. The table has the return of each run's newest checkpoint by
`sgrl eval`'s protocol: deterministic, episodes that no training has seen. Beside it stand random
actions and none at all: a body that earns a bonus for being alive and does nothing falls late, and
beats the random policy by far.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sgrl
from sgrl.morphology import Morphology
from sgrl.training.acting import Policy, RandomPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.results import BodyResult
from sgrl.training.run import Run, find_run

COLOURS = ("#0b6e99", "#d9480f", "#5c940d", "#862e9c", "#495057")
"""Of the methods, in the order in which they appear."""
Curve = NDArray[np.float64]


class Still(Policy):
    """Never moves a motor."""

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        """Zeros."""
        return np.zeros((len(obs), body.action_dim), np.float32)


BASELINES: dict[str, Policy] = {"random actions": RandomPolicy(), "no action": Still()}


@dataclass(frozen=True)
class Training:
    """What a run's metrics say."""

    run: Run
    method: str
    body: str
    steps: NDArray[np.float64]
    """(rows,)."""
    minutes: NDArray[np.float64]
    """(rows,)."""
    returns: NDArray[np.float64]
    """(rows,): mean over recent episodes."""
    updates: int


def read_training(folder: Path) -> Training:
    """A run on one body."""
    run = find_run(folder)
    settings = run.settings()
    if len(settings.bodies) != 1:
        raise ValueError(f"{folder} trains {len(settings.bodies)} bodies; curves are of one")
    with open(run.metrics_file, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["return"]]  # some episode has ended
    return Training(
        run,
        settings.method,
        settings.bodies[0],
        np.array([float(row["steps"]) for row in rows]),
        np.array([float(row["wall/seconds"]) / 60.0 for row in rows]),
        np.array([float(row["return"]) for row in rows]),
        int(rows[-1]["updates"]),
    )


def draw(trainings: list[Training], path: Path) -> None:
    """A column for each body, a line for each method, its seeds' range shaded."""
    bodies = list(dict.fromkeys(training.body for training in trainings))
    methods = list(dict.fromkeys(training.method for training in trainings))
    mpl.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    figure = Figure(figsize=(4.2 * len(bodies), 6.0), layout="constrained", dpi=150)
    panels = figure.subplots(2, len(bodies), squeeze=False)
    for column, body in enumerate(bodies):
        for method, colour in zip(methods, COLOURS, strict=False):
            seeds = [one for one in trainings if (one.body, one.method) == (body, method)]
            if seeds:
                label = f"{method}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
                by_steps = [(one.steps / 1000, one.returns) for one in seeds]
                by_time = [(one.minutes, one.returns) for one in seeds]
                for axes, curves in zip(panels[:, column], (by_steps, by_time), strict=True):
                    draw_line(axes, curves, colour, label)
        panels[0, column].set(title=body, xlabel="thousand steps")
        panels[1, column].set(xlabel="minutes of training")
    for axes in panels.flat:
        axes.set_xlim(0, None)
        axes.grid(alpha=0.3)
    for axes in panels[:, 0]:
        axes.set_ylabel("return of training episodes")
    lines = {line.get_label(): line for axes in panels.flat for line in axes.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_line(axes: Axes, curves: list[tuple[Curve, Curve]], colour: str, label: str) -> None:
    """Mean and range of curves, as far as all of them go."""
    end = min(x[-1] for x, _ in curves)
    at = np.linspace(max(x[0] for x, _ in curves), end, 200)
    returns = np.array([np.interp(at, x, y) for x, y in curves])
    axes.plot(at, returns.mean(axis=0), color=colour, label=label)
    low, high = returns.min(axis=0), returns.max(axis=0)
    axes.fill_between(at, low, high, color=colour, alpha=0.2, lw=0)


def mean_and_error(results: Iterable[BodyResult]) -> str:
    """Over the episodes of all of them."""
    values = [episode.total_reward for result in results for episode in result.episodes]
    return f"{fmean(values):.1f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--figure", type=Path, default=Path("curves.png"))
    parser.add_argument("--episodes", type=int, default=100, help="of each run's evaluation")
    parser.add_argument("--threads", type=int, default=0, help="of the physics; 0 for all cores")
    args = parser.parse_args()
    trainings = [read_training(folder) for folder in args.runs]
    draw(trainings, args.figure)

    def result(policy: Policy, body: str) -> BodyResult:
        return evaluate(policy, body, episodes=args.episodes, threads=args.threads)[0]

    print(f"wrote {args.figure}; returns ± standard error over episodes\n")
    print("| body | method | return | of each seed | steps | updates | minutes |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for body in dict.fromkeys(training.body for training in trainings):
        own = [training for training in trainings if training.body == body]
        for method in dict.fromkeys(training.method for training in own):
            seeds = [training for training in own if training.method == method]
            found = [result(sgrl.load_policy(training.run.path), body) for training in seeds]
            each = ", ".join(f"{one.mean('total_reward'):.0f}" for one in found)
            steps = fmean(training.steps[-1] for training in seeds)
            updates = fmean(training.updates for training in seeds)
            minutes = fmean(training.minutes[-1] for training in seeds)
            print(
                f"| {body} | {method} | {mean_and_error(found)} | {each} "
                f"| {steps:,.0f} | {updates:,.0f} | {minutes:.0f} |",
                flush=True,
            )
        for name, policy in BASELINES.items():
            print(f"| {body} | {name} | {mean_and_error([result(policy, body)])} | | | | |")


if __name__ == "__main__":
    main()
