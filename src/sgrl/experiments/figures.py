"""Figures of an experiment: small multiples, one color a method, seeds shaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from sgrl.experiments.findings import Array, Curve, EvaluationResult, Results, Series, scores
from sgrl.experiments.statistics import mean_and_error, performance_profile
from sgrl.experiments.tables import compare
from sgrl.files import writable
from sgrl.models.methods import method_color, method_title

OTHERS = ("#000000", "#ff00aa", "#00aa88", "#8866ff")
"""Colors of methods that have none of their own."""
BEFORE, AFTER = "trained on v1", "fine-tuned on v2"
"""Conditions of the experiment on near targets."""
COLUMNS = 3
"""Panels side by side."""
GRID = 200
"""Points at which curves of several seeds are averaged."""


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG; returns what was written."""
    written = []
    for kind in ("png", "svg"):
        path = stem.with_suffix(f".{kind}")
        with writable(path) as draft:
            figure.savefig(draft, format=kind, dpi=150)
        written.append(path)
    return written


def draw_curves(results: Results) -> Figure:
    """Learning curves, a panel for each task."""
    figure, panels = _panels(len(results.tasks()))
    for axes, task in zip(panels, results.tasks(), strict=True):
        _curves(axes, [curve for curve in results.curves if curve.task == task], results)
        axes.set_title(task)
    return _finish(figure, results)


def draw_bars(results: Results) -> Figure:
    """Returns in each condition, a panel for each task and body."""
    places = list(dict.fromkeys((trial.task, trial.body) for trial in results.trials))
    figure, panels = _panels(len(places))
    for axes, (task, body) in zip(panels, places, strict=True):
        own = [trial for trial in results.trials if (trial.task, trial.body) == (task, body)]
        _bars(axes, own, results)
        axes.set_title(body if body == task else f"{body}\ntrained on {task}")
    return _finish(figure, results)


def draw_ablations(results: Results) -> Figure:
    """Learning curves, and below them the average height of all limbs."""
    tasks = results.tasks()
    figure, panels = _panels(2 * len(tasks), columns=len(tasks))
    for place, task in enumerate(tasks):
        _curves(panels[place], [one for one in results.curves if one.task == task], results)
        panels[place].set_title(task)
        below = panels[len(tasks) + place]
        own = [trial for trial in results.trials if trial.task == task]
        _series(below, own, results, lambda series: series.height)
        below.set(xlabel="step of the episode", ylabel="average limb height (m)")
    return _finish(figure, results)


def draw_near_targets(results: Results) -> Figure:
    """Curves of the fine-tuning; distance and reward over time, before it (dashed) and after."""
    tasks = results.tasks()
    figure, panels = _panels(3 * len(tasks), columns=len(tasks))
    for place, task in enumerate(tasks):
        curves = [one for one in results.curves if (one.task, one.variant) == (task, "v2")]
        _curves(panels[place], curves, results)
        panels[place].set_title(f"{task}: fine-tuning on v2")
        own = [trial for trial in results.trials if trial.task == task]
        kinds: tuple[tuple[Callable[[Series], Array], str], ...] = (
            (lambda series: series.distance, "distance to target (m)"),
            (lambda series: series.reward, "reward so far"),
        )
        for row, (pick, title) in enumerate(kinds, start=1):
            axes = panels[row * len(tasks) + place]
            for condition, style in ((BEFORE, "--"), (AFTER, "-")):
                chosen = [trial for trial in own if trial.condition == condition]
                _series(axes, chosen, results, pick, style)
            axes.set(xlabel="step of the episode", ylabel=title)
            axes.set_title("dashed: before fine-tuning")
    return _finish(figure, results)


def draw_profile(results: Results) -> Figure:
    """Performance profiles over all bodies, and how likely the first method is better."""
    comparison = compare(results)
    figure, (left, right) = _panels(2, columns=2)
    thresholds = np.linspace(0.0, 1.0, 101)
    for method, values in comparison.scores.items():
        profile = performance_profile(values, thresholds)
        left.step(thresholds, profile, color=color_in(method, results), where="post")
    left.set(xlabel="score τ", ylabel="share of runs with score > τ", ylim=(-0.02, 1.02))
    left.set_title("performance profile")
    others = list(comparison.better)
    first = method_title(results.methods()[0])
    right.barh(
        range(len(others)),
        [comparison.better[other] for other in others],
        color=[color_in(other, results) for other in others],
    )
    right.axvline(0.5, color="#888888", linewidth=1)
    right.set_yticks(range(len(others)), [method_title(other) for other in others])
    right.set(xlim=(0, 1), xlabel=f"P({first} better)")
    right.set_title("probability of improvement")
    return _finish(figure, results)


def color_in(method: str, results: Results) -> str:
    """A method's own color, the same in all figures, or one of the others."""
    if own := method_color(method):
        return own
    others = [name for name in results.methods() if not method_color(name)]
    return OTHERS[others.index(method) % len(OTHERS)]


def _panels(number: int, columns: int | None = None) -> tuple[Figure, list[Axes]]:
    columns = columns or min(number, COLUMNS)
    rows = math.ceil(number / columns)
    # A figure without pyplot: no window system is asked for.
    figure = Figure(figsize=(max(5.0, 4.2 * columns), 3.1 * rows + 0.6), layout="constrained")
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(number)]
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure, panels


def _finish(figure: Figure, results: Results) -> Figure:
    """Titles of one size, and one legend above all panels."""
    for axes in figure.axes:
        axes.title.set_fontsize(9)
    methods = results.methods()
    handles = [
        figure.axes[0].plot([], [], color=color_in(method, results), linewidth=5)[0]
        for method in methods
    ]
    figure.legend(
        handles,
        [method_title(method) for method in methods],
        loc="outside upper center",
        ncols=max(1, min(len(methods), int(figure.get_figwidth() / 1.7))),
        frameon=False,
        fontsize=9,
    )
    return figure


def _curves(axes: Axes, curves: Sequence[Curve], results: Results) -> None:
    for method in results.methods():
        own = [curve for curve in curves if curve.method == method and len(curve.steps)]
        if not own:
            continue
        # Only as far as all seeds got: beyond, the mean would be of others.
        first = max(float(curve.steps[0]) for curve in own)
        last = min(float(curve.steps[-1]) for curve in own)
        if last < first:
            continue
        steps = np.linspace(first, last, GRID)
        returns = np.array([np.interp(steps, curve.steps, curve.returns) for curve in own])
        _mean_line(axes, steps, returns, color_in(method, results))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.set(xlabel="steps", ylabel="return")


def _series(
    axes: Axes,
    trials: Sequence[EvaluationResult],
    results: Results,
    pick: Callable[[Series], Array],
    style: str = "-",
) -> None:
    """Means over a task's bodies, then mean and standard error over seeds."""
    for method in results.methods():
        seeds: dict[int, list[Array]] = {}
        steps: Array | None = None
        for trial in trials:
            if trial.method == method and trial.series is not None:
                steps = trial.series.step
                seeds.setdefault(trial.seed, []).append(pick(trial.series))
        if steps is None:
            continue
        lines = np.array([_mean(np.array(bodies)) for bodies in seeds.values()])
        _mean_line(axes, steps, lines, color_in(method, results), style)


def _mean_line(axes: Axes, x: Array, lines: Array, shade: str, style: str = "-") -> None:
    """Mean of lines (seeds, points), and its standard error shaded."""
    mean = _mean(lines)
    axes.plot(x, mean, color=shade, linestyle=style, linewidth=1.5)
    if len(lines) > 1:
        # NaN, and not drawn, where not all seeds have a value.
        error = lines.std(axis=0, ddof=1) / math.sqrt(len(lines))
        axes.fill_between(x, mean - error, mean + error, color=shade, alpha=0.2, linewidth=0)


def _mean(lines: Array) -> Array:
    """(points,): mean of those lines (n, points) that have a value; NaN where none has."""
    known = np.isfinite(lines)
    total, count = np.where(known, lines, 0.0).sum(axis=0), known.sum(axis=0)
    mean: Array = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return mean


def _bars(axes: Axes, trials: Sequence[EvaluationResult], results: Results) -> None:
    """Groups of bars, one for each condition; a dot is a seed."""
    conditions = list(dict.fromkeys(trial.condition for trial in trials))
    tried = {trial.method for trial in trials}
    methods = [method for method in results.methods() if method in tried]
    width = 0.8 / len(methods)
    for place, condition in enumerate(conditions):
        for number, method in enumerate(methods):
            own = [t for t in trials if (t.condition, t.method) == (condition, method)]
            seeds = scores(own)[:, 0]
            mean, error = mean_and_error(seeds)
            x = place + (number - (len(methods) - 1) / 2) * width
            axes.bar(x, mean, 0.9 * width, color=color_in(method, results), alpha=0.75)
            if not math.isnan(error):
                axes.errorbar(x, mean, error, color="#222222", capsize=2, linewidth=1)
            axes.plot([x] * len(seeds), seeds, "o", color="#222222", markersize=2.5)
    axes.set_xticks(range(len(conditions)), conditions)
    if len(conditions) > 6:
        axes.tick_params(axis="x", rotation=60)
    axes.grid(visible=False, axis="x")
    axes.set(ylabel="return")


def _short(value: float) -> str:
    """Steps as 500, 20k or 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
