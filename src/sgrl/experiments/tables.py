"""Tables of an experiment, in Markdown and LaTeX: ours, and the paper's numbers beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgrl.experiments.experiment import Request
from sgrl.experiments.findings import Array, EvaluationResult, Results, scores
from sgrl.experiments.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean_and_error,
    normalize,
    probability_of_improvement,
)
from sgrl.markup import markdown_table, one_line
from sgrl.models.methods import method_title

MEASURES = {"targets": "targets reached", "distance": "distance (m)", "length": "length"}
"""Titles of the fields of episodes that a table may have."""
NONE = "-"
LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "_%&#${}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "°": r"$^\circ$",
    }
)
"""What LaTeX has for characters that mean something to it."""


@dataclass(frozen=True)
class Table:
    """Cells as text; the first `labels` columns are words, the others numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int

    def markdown(self) -> str:
        """To read as it is."""
        return markdown_table(self.header, self.rows, left=self.labels)

    def latex(self, caption: str, label: str) -> str:
        """A float that needs the package booktabs."""
        columns = "l" * self.labels + "r" * (len(self.header) - self.labels)
        lines = [" & ".join(map(_latex, line)) + r" \\" for line in (self.header, *self.rows)]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_latex(caption)}}}",
                rf"\label{{tab:{label}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def _latex(text: str) -> str:
    return one_line(text).translate(LATEX)


@dataclass(frozen=True)
class Line:
    """The trials behind one line of the table: one method, all its seeds."""

    method: str
    task: str
    body: str
    condition: str
    trials: tuple[EvaluationResult, ...]


def make_lines(results: Results, per_body: bool) -> list[Line]:
    """One for each method, task, body (or all bodies of the task) and condition."""
    groups: dict[tuple[str, str, str], list[EvaluationResult]] = {}
    for trial in results.trials:
        body = trial.body if per_body else ""
        groups.setdefault((trial.task, body, trial.condition), []).append(trial)
    lines = []
    for (task, body, condition), trials in groups.items():
        for method in results.methods():
            own = tuple(trial for trial in trials if trial.method == method)
            if own:
                lines.append(Line(method, task, body, condition, own))
    return lines


def make_table(results: Results, request: Request) -> Table:
    """The experiment's own table."""
    experiment = request.experiment
    lines = make_lines(results, experiment.lines == "body")
    # Columns in which every line says the same, or nothing new, are left out.
    shows_body = any(line.body not in ("", line.task) for line in lines)
    shows_condition = any(line.condition for line in lines)
    labels = [
        "trained on",
        *(["body"] if shows_body else []),
        *(["condition"] if shows_condition else []),
        "method",
    ]
    measures = [MEASURES[name] for name in experiment.measures]
    header = (*labels, "seeds", "steps", "return", "IQM [95%]", *measures, "paper")
    rows = []
    for line in lines:
        returns = scores(line.trials)
        steps = np.mean([trial.steps for trial in line.trials])
        number = experiment.numbers.get(
            (line.method, line.task, line.body or line.task, line.condition)
        )
        rows.append(
            (
                line.task,
                *([line.body] if shows_body else []),
                *([line.condition] if shows_condition else []),
                method_title(line.method),
                str(len(returns)),
                f"{steps:,.0f}",
                format_over_seeds(returns),
                format_interval(returns),
                *(format_over_seeds(scores(line.trials, name)) for name in experiment.measures),
                NONE if number is None else f"{number[0]:,.1f} ± {number[1]:,.1f}",
            )
        )
    return Table(header, tuple(rows), len(labels))


def format_over_seeds(values: Array) -> str:
    """Mean and standard error over seeds of scores (seeds, bodies); bodies count the same."""
    mean, error = mean_and_error(values.mean(axis=1))
    return f"{mean:,.1f}" if math.isnan(error) else f"{mean:,.1f} ± {error:,.1f}"


def format_interval(values: Array, digits: int = 1) -> str:
    """Interquartile mean of scores (seeds, bodies) and its interval."""
    middle, (low, high) = interquartile_mean(values), bootstrap_interval(values)
    if math.isnan(low):
        return f"{middle:,.{digits}f} [{NONE}]"
    return f"{middle:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


@dataclass(frozen=True)
class Comparison:
    """Methods over all bodies together: scores (seeds, bodies) of each, 0 worst to 1 best."""

    scores: dict[str, Array]
    better: dict[str, float]
    """How likely the first method beats each other one, on the bodies that both were tried on."""


def compare(results: Results) -> Comparison:
    """Methods that were tried on the same bodies, and the first against each of the others."""
    by_method = {
        method: [trial for trial in results.trials if trial.method == method]
        for method in results.methods()
    }
    tried = {method: _bodies(trials) for method, trials in by_method.items()}
    first, *others = by_method
    complete = [method for method in by_method if tried[method] == tried[first]]
    normalized = normalize([scores(_ordered(by_method[method])) for method in complete])
    better = {}
    for other in others:
        shared = tried[first] & tried[other]
        pair = [
            scores(_ordered([t for t in by_method[method] if (t.task, t.body) in shared]))
            for method in (first, other)
        ]
        better[other] = probability_of_improvement(*pair)
    return Comparison(dict(zip(complete, normalized, strict=True)), better)


def _bodies(trials: Sequence[EvaluationResult]) -> set[tuple[str, str]]:
    return {(trial.task, trial.body) for trial in trials}


def _ordered(trials: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    """The same bodies in the same order, whichever method."""
    return sorted(trials, key=lambda trial: (trial.task, trial.body))


def comparison_table(results: Results) -> Table:
    """Interquartile means of the scores, and how likely the first method beats each other."""
    comparison = compare(results)
    first = method_title(results.methods()[0])
    rows = []
    for method in results.methods():
        values = comparison.scores.get(method)
        rows.append(
            (
                method_title(method),
                NONE if values is None else format_interval(values, digits=2),
                f"{comparison.better[method]:.2f}" if method in comparison.better else NONE,
            )
        )
    return Table(("method", "score: IQM [95%]", f"P({first} better)"), tuple(rows), 1)


def budget_sentence(request: Request) -> str:
    """What was spent."""
    budget = request.budget
    return (
        f"Budget `{budget.name}`, {request.algorithm.upper()}: {budget.about}. "
        f"{budget.episodes} episodes of at most {budget.episode_steps:,} steps in each trial."
    )


def markdown_page(results: Results, request: Request) -> str:
    """`table.md`."""
    experiment = request.experiment
    parts = [
        f"# {experiment.title}",
        f"In the paper: {experiment.place}. {budget_sentence(request)}",
        make_table(results, request).markdown(),
        (
            "Return: mean and standard error over seeds, each the mean of its episodes. IQM: "
            "interquartile mean with 95% stratified bootstrap interval over the same numbers. "
            "Steps: of training, mean over seeds. Paper: mean and standard error of three seeds, "
            "at its own budget."
        ),
        experiment.note,
    ]
    if experiment.compares_bodies and len(results.methods()) > 1:
        first = method_title(results.methods()[0])
        parts += [
            "## Over all bodies",
            comparison_table(results).markdown(),
            (
                "Scores: on each body 0 is the worst run of any method and 1 the best. "
                f"P({first} better): probability that a run of {first} has the higher return on a "
                "body drawn at random. The performance profile is in `profile.png`."
            ),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def latex_page(results: Results, request: Request) -> str:
    """`table.tex`."""
    experiment = request.experiment
    sentence = budget_sentence(request).replace("`", "")
    text = make_table(results, request).latex(f"{experiment.title}. {sentence}", experiment.name)
    if experiment.compares_bodies and len(results.methods()) > 1:
        caption = f"{experiment.title}, over all bodies. {sentence}"
        text += "\n" + comparison_table(results).latex(caption, f"{experiment.name}-bodies")
    return text
