"""An experiment: what is trained, what is tried on it, and what is made of that.

An experiment is a value (see `catalogue` for the paper's seven). A `Request` is an
experiment with a budget and what the user chose; it lists the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from sgrl.algorithms.registry import algorithm_named
from sgrl.envs.variant import Variant
from sgrl.experiments.budgets import Budget
from sgrl.experiments.findings import Results
from sgrl.experiments.paper import Key, Number
from sgrl.experiments.runner import Job, make_job
from sgrl.models.methods import get_method, method_title
from sgrl.morphology.table import COLLECTIONS, get_body
from sgrl.training.settings import TrainSettings


@dataclass(frozen=True)
class Grid:
    """Every method is trained on every task."""

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    """Bodies or collections."""


@dataclass(frozen=True)
class Evaluation:
    """What is tried on a trained run: one body in one condition."""

    body: str
    condition: str = ""
    """Its name in tables and figures; nothing if there is but one."""
    variant: Variant = "v1"
    yaw: float | None = None
    """Start angle, radians; uniform if not given."""
    bias: float = 0.0
    """Radians added to the heading of a method that has one."""
    at: int | None = None
    """Steps of training after which; the end if not given."""
    seed: int = 0
    """Seed of the starts and targets."""
    series: bool = False
    """Whether to record how the episodes went step by step."""


@dataclass(frozen=True)
class Experiment:
    """One of the paper's evaluations, or one of your own."""

    name: str
    title: str
    place: str
    """Where it stands in the paper."""
    grids: Mapping[str, tuple[Grid, ...]]
    """By budget."""
    evaluations: Callable[[TrainSettings, Budget], tuple[Evaluation, ...]]
    """What is tried on a run with these settings."""
    draw: Callable[[Results], Figure]
    lines: Literal["body", "task"] = "body"
    """Whether the table has a line for each body, or one for all bodies of a task."""
    measures: tuple[str, ...] = ()
    """Fields of episodes that the table has besides the return."""
    numbers: Mapping[Key, Number] = field(default_factory=dict)
    """The paper's."""
    note: str = ""
    """What a reader of the table should know."""
    adapt: Callable[[TrainSettings, Budget], TrainSettings] = lambda settings, budget: settings
    """What it changes about the budget's trainings."""
    fine_tunes: bool = False
    """Whether every training is followed by a second one on near targets (v2)."""
    compares_bodies: bool = False
    """Whether methods are also compared over all bodies together."""


@dataclass(frozen=True)
class Request:
    """An experiment as it was asked for."""

    experiment: Experiment
    budget: Budget
    runs: Path
    algorithm: str
    methods: tuple[str, ...] = ()
    """Instead of the experiment's, if any are given."""
    tasks: tuple[str, ...] = ()
    """Instead of the experiment's, if any are given."""
    seeds: int | None = None
    """Instead of the budget's."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for method in self.methods:
            get_method(method)
        algorithm_named(self.algorithm)
        for task in self.tasks:
            if task not in COLLECTIONS:
                get_body(task)
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds must be 1 or more, not {self.seeds}")

    def jobs(self) -> list[Job]:
        """All trainings, in the order of the grid; a fine-tuning comes after what it needs."""
        jobs: dict[str, Job] = {}
        grids = self.experiment.grids
        if self.budget.name not in grids:
            raise ValueError(
                f"{self.experiment.name} has no grid for the budget {self.budget.name}, only for "
                f"{', '.join(grids)}"
            )
        for grid in grids[self.budget.name]:
            for task in self.tasks or grid.tasks:
                for method in self.methods or grid.methods:
                    for seed in range(self.seeds or self.budget.seeds):
                        for job in self._trainings(method, task, seed):
                            jobs[job.name] = job
        return list(jobs.values())

    def _trainings(self, method: str, task: str, seed: int) -> list[Job]:
        settings = self.budget.settings(method, task, seed, self.algorithm)
        settings = self.experiment.adapt(replace(settings, device=self.device), self.budget)
        label = f"{method_title(method)} on {task}, seed {seed}"
        first = make_job(settings, label, self.runs)
        if not self.experiment.fine_tunes:
            return [first]
        length = self.budget.fine_tuning
        second = replace(
            settings,
            variant="v2",
            init_from=first.folder,
            steps=length.steps,
            minutes=length.minutes,
        )
        return [first, make_job(second, f"{label}, fine-tuned on v2", self.runs)]

    def evaluations(self, job: Job) -> tuple[Evaluation, ...]:
        """What is tried on one of the jobs."""
        return self.experiment.evaluations(job.settings, self.budget)
