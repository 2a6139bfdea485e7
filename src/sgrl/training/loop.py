"""The training loop: act, step, store, update, log, checkpoint.

Everything random comes from generators of the run's own, and what is saved is saved between
two passes of the loop: a run that was killed and resumed goes on to the bit as if it had not
been. When checkpoints are written, and how often, changes nothing. Which algorithm learns is no
matter here: see `algorithms.learner` for what the loop asks of it.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sgrl.markup import one_line
from sgrl.plugins import TRUST
from sgrl.training.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    list_checkpoints,
    read_newest,
    set_aside,
)
from sgrl.training.collector import Collector, LocalCollector
from sgrl.training.evaluator import Evaluator
from sgrl.training.interrupt import InterruptedTrainingError, StopRequest, output_may_close
from sgrl.training.learners import make_learner
from sgrl.training.metrics import Board, Episodes, Losses, MetricsFile, Row, Stopwatch
from sgrl.training.place import describe_place, join_place, split_place
from sgrl.training.policy import read_policy_weights, usable_weights
from sgrl.training.progress import TrainingProgress, make_console
from sgrl.training.resume import (
    begin_anew,
    binding,
    check_binding,
    check_form,
    check_time_left,
    refused_in_a_line,
)
from sgrl.training.run import Run, create_run, find_run
from sgrl.training.settings import (
    TrainSettings,
    is_over,
    resolve_settings,
    resumed_settings,
    started_from,
)
from sgrl.training.sources import copy_sources, read_sources

Say = Callable[[str], None]
ABOUT = ("method", "preset", "algorithm", "bodies")
"""Settings that a checkpoint says in words, for whoever looks at one."""


class TrainingFailedError(RuntimeError):
    """Training cannot go on; the checkpoints there are were left as they are."""


def train(settings: TrainSettings, *, trust: Sequence[str] = ()) -> Path:
    """Train as told, in a new run or one that is resumed, and return the run's folder.

    `trust` names modules that may be imported for a method `module:Class`.

    SIGINT, SIGTERM and a terminal that closes save the run and raise InterruptedTrainingError. When
    nobody reads what it prints any more, it goes on. A full disk or a loss
    that is not a number raises TrainingFailedError, which says from where one can go on.
    """
    TRUST.add(trust)
    TRUST.distrust(runs=settings.runs)
    # All of it, because reading a checkpoint or connecting to a cluster takes a while.
    with StopRequest() as stop, output_may_close():
        return _train(settings, stop)


def _train(settings: TrainSettings, stop: StopRequest) -> Path:
    fresh = settings.resume is None
    if settings.init_from is not None:
        place, which = split_place(settings.init_from)
        source = find_run(place, settings.runs)
        settings = replace(settings, init_from=join_place(source.path.resolve(), which))
        if fresh:
            settings = started_from(settings, source.settings())
    if settings.resume is not None:
        if split_place(settings.resume)[1] is not None:
            raise ValueError(
                f"{settings.resume}: a run goes on from its newest checkpoint; name the run alone, "
                f"or start a new one with --init-from {settings.resume}"
            )
        run = find_run(settings.resume, settings.runs)
        if run.is_published():
            raise ValueError(
                f"{settings.resume} is a published policy, which only acts; start a new run with "
                f"--init-from {settings.resume}"
            )
        settings = resumed_settings(settings, run.settings())
    else:
        settings = resolve_settings(settings)
        sources = partial(copy_sources, settings.algorithm_config().sources, settings.runs)
        run = create_run(settings, sources)
        settings = run.settings()  # with the name that was free
    console = make_console()

    def say(message: str) -> None:
        line = one_line(message)
        console.print(line, markup=False)
        run.log(line)

    with run.locked():
        _configure_torch(settings)
        try:
            training = Training(settings, run)
            training.prepare(say)
        except BaseException:
            if fresh and not list_checkpoints(run.checkpoints):
                shutil.rmtree(run.path)  # made above, and nothing was trained in it
            raise
        run.write_settings(settings)
        if not fresh:
            run.note_process(settings.threads, training.steps, training.seconds)
        try:
            with TrainingProgress(training.steps, training.goal, console) as progress:
                training.run(progress, stop)
        except (InterruptedTrainingError, TrainingFailedError) as error:
            with suppress(OSError):  # the disk may be full
                run.log(str(error))
            raise
        how = "finished" if training.steps >= training.goal else "out of time in"
        say(f"{how} {run.path} at {training.steps:,} steps")
    return run.path


def _configure_torch(settings: TrainSettings) -> None:
    torch.set_num_threads(settings.threads)
    # Not called in vain: it imports PyTorch's compiler, which takes seconds.
    if settings.deterministic != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(settings.deterministic)
    torch.manual_seed(settings.seed)


def _make_collector(settings: TrainSettings, run: Run) -> Collector:
    if settings.rollout_workers:
        from sgrl.cluster.rollouts import RayCollector  # here, because Ray is an extra

        return RayCollector(settings, run.log)
    return LocalCollector(settings)


class Training:
    """All that a run consists of while it is going."""

    def __init__(self, settings: TrainSettings, run: Run) -> None:
        assert settings.steps is not None, "resolve the settings first"
        self.settings, self.folder, self.goal = settings, run, settings.steps
        self.collector = _make_collector(settings, run)
        layout = self.collector.layout
        self.learner = make_learner(settings, layout, run.replay, read_sources(run))
        self.episodes = Episodes(settings.morphologies(), layout.body_index)
        self.losses = Losses(self.learner.metrics)
        self.evaluator = Evaluator(settings, run)
        self.clock = Stopwatch()
        self.steps = 0
        """Transitions so far."""
        self.metrics: MetricsFile
        self.seconds = 0.0
        """That the training has taken, up to the checkpoint that it goes on from."""
        self._metrics_bytes = 0
        """Of metrics.csv when the checkpoint was written that the run goes on from."""
        self._binding = binding(settings)
        self._saved: tuple[int, bool] | None = None
        """Steps at the latest checkpoint, and whether training was over then."""
        self._writer = CheckpointWriter(run.checkpoints, settings.keep, before=self._sync)

    def prepare(self, say: Say) -> None:
        """Start anew, or go back to the newest checkpoint that is whole."""
        try:
            self._prepare(say)
        except BaseException:
            self.collector.close()
            raise

    def _prepare(self, say: Say) -> None:
        corrupt: dict[Path, str] = {}
        checkpoint = read_newest(self.folder.checkpoints, corrupt.__setitem__)
        if checkpoint is not None:
            with refused_in_a_line():
                self._restore(checkpoint)
            check_time_left(self.folder, self.settings, self.steps, self.seconds)
            self.metrics = MetricsFile(self.folder.metrics_file, self._metrics_bytes)
            for folder, reason in corrupt.items():
                say(f"{reason}: it is now {set_aside(folder).name}, using the one before it")
            if self.metrics.is_short:
                say(f"rows of {self.folder.metrics_file} are lost; the others are kept")
            say(f"resuming {self.folder.path} at {self.steps:,} of {self.goal:,} steps")
            return
        if corrupt:
            raise ValueError(f"no checkpoint can be used: {'; '.join(corrupt.values())}")
        if self.settings.init_from is not None:
            self._take_weights(self.settings.init_from, say)
        self.collector.start(self.settings.environment_seed())
        begin_anew(self.folder, self.settings, say)
        self.metrics = MetricsFile(self.folder.metrics_file)
        bodies = len(self.episodes.bodies)
        say(
            f"training in {self.folder.path}: {self.collector.layout.num_envs} environments of "
            f"{bodies} {'body' if bodies == 1 else 'bodies'}, {self.learner.describe()}"
        )

    def run(self, progress: TrainingProgress, stop: StopRequest) -> None:
        """Train to the end, or until a signal; close everything in any case."""
        settings = self.settings
        with ExitStack() as stack:
            stack.callback(self.collector.close)
            stack.callback(self.metrics.close)
            stack.callback(self._writer.close)
            board = Board(
                self.folder.tensorboard,
                self.steps,
                wandb=settings.wandb,
                name=self.folder.identifier(),
                settings=dataclasses.asdict(settings),
            )
            stack.callback(board.close)
            try:
                self._loop(board, progress, stop)
                self._save()
                self._writer.finish()
            except (OSError, FloatingPointError) as error:
                self._writer.close()  # a checkpoint on its way may still arrive
                raise TrainingFailedError(self._advice(error)) from error
        if stop.signal is not None and not self._finished():
            raise InterruptedTrainingError(stop.signal, self.steps, self.folder.path)

    def _loop(self, board: Board, progress: TrainingProgress, stop: StopRequest) -> None:
        settings, learner, clock = self.settings, self.learner, self.clock
        every = {"row": settings.log_every, "checkpoint": settings.checkpoint_every}
        if settings.eval_every:
            every["evaluation"] = settings.eval_every
        due: set[str] = set()

        def should_stop() -> bool:
            return stop.signal is not None and not self._finished()

        clock.start(self.steps, self.seconds)
        while not (learner.can_checkpoint and (self._finished() or stop.signal is not None)):
            if not learner.pending:  # as updates are where a run was left between two
                step = self.collector.step(learner, clock)  # the learner acts, physics steps

                learner.store(step)
                self.episodes.step(step.rewards, step.done)
                self.steps += len(step.rewards)
                clock.lap("other")

            learner.update(self.losses.add, clock, should_stop)
            if learner.pending:
                continue

            before = self.steps - self.collector.layout.num_envs
            due |= {name for name, n in every.items() if self.steps // n > before // n}
            if due and learner.can_checkpoint:
                if "evaluation" in due:
                    clock.lap("other")
                    self.evaluator.evaluate(learner.weights(), self._metadata())
                    clock.lap("eval")
                if "row" in due:
                    row = self._row()
                    self.metrics.append(row)
                    board.append(row)
                if "checkpoint" in due:
                    self._save()
                due.clear()
            if progress.due():
                returns = self.episodes.recent_by_family()
                progress.update(self.steps, returns, self._seconds_left())
            clock.lap("other")

    def _seconds_left(self) -> float:
        """Until the limit of time."""
        minutes = self.settings.minutes
        return math.inf if minutes is None else max(0.0, 60.0 * minutes - self.clock.seconds)

    def _finished(self) -> bool:
        return is_over(self.settings, self.steps, self.clock.seconds)

    def _row(self) -> Row:
        return {
            "steps": self.steps,
            "updates": self.learner.updates,
            **self.episodes.row(),
            **self.losses.take_row(),
            **self.evaluator.take_row(),
            **self.clock.take_row(self.steps),
        }

    def _save(self) -> None:
        """Begin to write a checkpoint; training goes on meanwhile."""
        state = self.steps, self._finished()
        if self._saved != state:
            self._saved = state
            self._writer.write(self.steps, self.checkpoint())

    def _sync(self) -> None:
        """What a checkpoint refers to is on the disk before it is."""
        self.learner.flush()
        self.metrics.sync()

    def checkpoint(self) -> Checkpoint:
        """A copy of all that coming steps depend on, while the learner can be saved."""
        state = {
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "episodes": self.episodes.state_dict(),
            "losses": self.losses.state_dict(),
            "evaluator": self.evaluator.state_dict(),
            "torch": torch.get_rng_state(),
            "metrics_bytes": self.metrics.size,
        }
        return Checkpoint(self.learner.weights(), state, self._metadata())

    def _metadata(self) -> dict[str, Any]:
        """What is said of the weights as they are."""
        return {
            **{name: getattr(self.settings, name) for name in ABOUT},
            "settings": self._binding,
            "steps": self.steps,
            "seconds": self.clock.seconds,
        }

    def _restore(self, checkpoint: Checkpoint) -> None:
        metadata, state = checkpoint.metadata, checkpoint.state
        check_binding(metadata, self.settings)
        assert state is not None, "read_checkpoint gives none without"
        now = {
            "learner": self.learner.state_dict(),
            "episodes": self.episodes.state_dict(),
            "losses": self.losses.state_dict(),
            "evaluator": self.evaluator.state_dict(),
            "torch": torch.get_rng_state(),
            "metrics_bytes": 0,
        }
        check_form({name: state[name] for name in now}, now, "its state")
        self.learner.load_state_dict(checkpoint.weights, state["learner"])
        self.collector.load_state_dict(state["collector"])
        check_form(state["collector"], self.collector.state_dict(), "its collector")
        self.episodes.load_state_dict(state["episodes"])
        self.losses.load_state_dict(state["losses"])
        self.evaluator.load_state_dict(state["evaluator"])
        torch.set_rng_state(state["torch"])
        self.steps, self.seconds = metadata["steps"], metadata["seconds"]
        self._saved = self.steps, is_over(self.settings, self.steps, self.seconds)
        self._metrics_bytes = int(state["metrics_bytes"])
        if self._metrics_bytes < 0:
            raise ValueError("metrics.csv had less than nothing in it")

    def _take_weights(self, source: Path, say: Say) -> None:
        """Start from the weights of another run."""
        place, which = split_place(source)
        other = find_run(place)
        recorded = other.settings()
        if recorded.method != self.settings.method:
            raise ValueError(
                f"the weights of {source} are of another method: {recorded.method}, not "
                f"{self.settings.method}"
            )
        folder, weights = read_policy_weights(other, which)
        try:
            anew = self.learner.load_weights(usable_weights(weights, recorded, self.settings))
        except ValueError as error:
            found, own = recorded.preset, self.settings.preset
            hint = "" if found == own else f"; {source} is of preset {found}, not {own}"
            raise ValueError(f"cannot start from {source}: {error}{hint}") from None
        but = f"; {anew} began anew" if anew else ""
        say(f"starting from the weights of {other.path}, {describe_place(folder)}{but}")

    def _advice(self, error: BaseException) -> str:
        """What went wrong, and from where one can go on."""
        good = list_checkpoints(self.folder.checkpoints)
        kept = (
            f"the last good checkpoint, at {int(good[-1].name):,} steps, is kept"
            if good
            else "there was no checkpoint yet"
        )
        again = f"sgrl train --resume {self.folder.path}"
        if isinstance(error, FloatingPointError):
            # To resume would lead to the same number, to the bit.
            again = f"sgrl train --init-from {self.folder.path}, with a smaller learning rate"
            if not good:
                again = "start anew with a smaller learning rate"
        return f"stopped at {self.steps:,} steps: {error}; {kept}. To go on: {again}"
