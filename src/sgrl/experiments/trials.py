"""Trying trained runs out: each evaluation once, its episodes kept in a file of its own."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from sgrl.envs.observation import FEATURES, HEIGHT
from sgrl.experiments.budgets import Budget
from sgrl.experiments.experiment import Evaluation, Request
from sgrl.experiments.findings import (
    SERIES_COLUMNS,
    Curve,
    EvaluationResult,
    Results,
    Series,
    read_curve,
)
from sgrl.experiments.runner import Job
from sgrl.experiments.statistics import mean_and_error
from sgrl.files import writable
from sgrl.models.canonical import Canonicalized, with_heading_bias
from sgrl.training.checkpoint import (
    WEIGHTS,
    CorruptCheckpointError,
    checkpoint_folder,
    list_checkpoints,
    read_metadata,
)
from sgrl.training.evaluate import Moment, evaluate
from sgrl.training.place import BEST
from sgrl.training.policy import TrainedPolicy, load_policy
from sgrl.training.results import Episode, format_mean
from sgrl.training.run import Run

POINTS = 100
"""Points that a series has at most."""
NEAR = 0.02
"""Part of the steps by which a checkpoint may miss the moment that it is asked for."""


def evaluate_jobs(request: Request, folder: Path, say: Callable[[str], None]) -> Results:
    """All trials of a request whose jobs are done; those with a file in `folder` are read."""
    trials, curves = [], []
    for job in request.jobs():
        settings = job.settings
        about = (settings.method, settings.bodies[0], settings.seed)
        curves.append(Curve(*about, settings.variant, *read_curve(job.folder)))
        load = cache(partial(load_policy, job.folder))
        for evaluation in request.evaluations(job):
            steps = nearest_checkpoint(job, evaluation.at)
            try:
                file = folder / trial_name(job, evaluation, request.budget, steps)
                policy = None if file.is_file() else load(checkpoint=steps)
            except CorruptCheckpointError as error:
                raise ValueError(
                    f"{error}; make it anew with sgrl train --resume {job.folder}"
                ) from None
            if policy is not None:
                trial = _try(policy, job, evaluation, request.budget)
                _write(trial, file)
                returns = mean_and_error([one.total_reward for one in trial.episodes])
                condition = f", {evaluation.condition}" if evaluation.condition else ""
                where = f"{evaluation.body}{condition}"
                say(f"tried {job.label} on {where}: return {format_mean(*returns)}")
            trials.append(_read(file))
    return Results(tuple(trials), tuple(curves))


def nearest_checkpoint(job: Job, steps: int | None) -> int:
    """Steps of the best checkpoint, or else the newest; or of the one at so many, more or less."""
    best = list_checkpoints(job.folder / BEST)
    if steps is None and best:
        return int(best[-1].name)
    known = [int(folder.name) for folder in list_checkpoints(Run(job.folder).checkpoints)]
    if not known:
        raise FileNotFoundError(f"{job.folder} has no checkpoint; it has to be trained first")
    if steps is None:
        return known[-1]
    found = min(known, key=lambda one: abs(one - steps))
    if abs(found - steps) > NEAR * steps:
        raise ValueError(
            f"{job.folder} has no checkpoint at {steps:,} steps, the nearest is at {found:,}: it "
            "was interrupted too often to keep it; move the folder elsewhere and train it again"
        )
    return found


def trial_name(job: Job, evaluation: Evaluation, budget: Budget, steps: int) -> str:
    """The name of a trial's file, which follows from all that its result depends on."""
    checkpoint = read_metadata(checkpoint_folder(Run(job.folder).checkpoints, steps))
    weights = checkpoint["sha256"][WEIGHTS]
    facts = [dataclasses.asdict(evaluation), budget.episodes, budget.episode_steps, weights]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return f"{job.name}-{digest}-{steps}.json"


def _try(
    policy: TrainedPolicy, job: Job, evaluation: Evaluation, budget: Budget
) -> EvaluationResult:
    settings = job.settings
    recorder = SeriesRecorder(budget.episodes, budget.episode_steps) if evaluation.series else None
    (result,) = evaluate(
        biased(policy, evaluation.bias),
        evaluation.body,
        variant=evaluation.variant,
        episodes=budget.episodes,
        seed=evaluation.seed,
        yaw=evaluation.yaw,
        max_episode_steps=budget.episode_steps,
        watch=recorder,
    )
    return EvaluationResult(
        method=settings.method,
        task=settings.bodies[0],
        seed=settings.seed,
        condition=evaluation.condition,
        body=evaluation.body,
        variant=evaluation.variant,
        steps=policy.checkpoint,
        episodes=result.episodes,
        series=None if recorder is None else recorder.series(),
    )


def biased(policy: TrainedPolicy, bias: float) -> TrainedPolicy:
    """A policy whose headings are off by so many radians; itself if it looks at no heading."""
    frames = [one.frame for one in policy.actor.modules() if isinstance(one, Canonicalized)]
    if not bias or "heading" not in frames:
        return policy
    actor: Any = with_heading_bias(policy.actor, bias)
    return policy.with_actor(actor)


class SeriesRecorder:
    """Watches an evaluation of one body, and gives the means over its episodes."""

    def __init__(self, episodes: int, steps: int) -> None:
        """`steps` of the longest episode there can be: all series have the same points."""
        self._reward, self._distance = np.zeros(episodes), np.zeros(episodes)
        every = max(1, steps // POINTS)
        self._steps = list(range(every, steps + 1, every))
        self._points: list[tuple[float, ...]] = []

    def __call__(self, moment: Moment) -> None:
        self._reward[moment.episodes] += moment.rewards
        self._distance[moment.episodes] = moment.distances
        if moment.step in self._steps:
            limbs = moment.observations.reshape(len(moment.episodes), -1, FEATURES)
            self._add(float(limbs[..., HEIGHT].mean()), len(moment.episodes))

    def _add(self, height: float, running: int) -> None:
        means = float(self._reward.mean()), float(self._distance.mean())
        self._points.append((*means, height, running / len(self._reward)))

    def series(self) -> Series:
        """What was seen; after the last episode's end, what it ended with."""
        while len(self._points) < len(self._steps):
            self._add(float("nan"), 0)
        return Series(np.array(self._steps, np.float64), *np.array(self._points).T)


def _write(trial: EvaluationResult, file: Path) -> None:
    episodes = [dataclasses.astuple(episode) for episode in trial.episodes]
    facts: dict[str, Any] = {**trial.about(), "episodes": episodes, "series": None}
    if trial.series is not None:
        facts["series"] = {name: getattr(trial.series, name).tolist() for name in SERIES_COLUMNS}
    with writable(file) as draft:
        draft.write_text(json.dumps(facts), encoding="utf-8")


def _read(file: Path) -> EvaluationResult:
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        episodes = tuple(Episode(*values) for values in facts.pop("episodes"))
        series = facts.pop("series")
        if series is not None:
            series = Series(**{name: np.array(values) for name, values in series.items()})
        return EvaluationResult(**facts, episodes=episodes, series=series)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not a trial ({error}); remove it to try again") from None
