"""Evaluation while training: whole episodes of the policy as it is, and the best one is kept.

Episodes run in environments and with seeds of their own. Nothing is drawn from the run's
generators, and weights are copies, so that a run goes on as if it had not been evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgrl.morphology import Morphology, family_of
from sgrl.training.checkpoint import (
    Checkpoint,
    CorruptCheckpointError,
    list_checkpoints,
    read_metadata,
    write_checkpoint,
)
from sgrl.training.evaluate import MAX_SEED, evaluate
from sgrl.training.metrics import Row
from sgrl.training.place import BEST
from sgrl.training.policy import policy_of
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

OTHER_SCORE = 1_000.0
"""In place of `Family.score` for a body of no family."""


class Evaluator:
    """Evaluates weights on the bodies of a run; the best ones by score are in the run's `best`."""

    def __init__(self, settings: TrainSettings, run: Run) -> None:
        self._settings, self._run = settings, run
        self._bodies = settings.morphologies()
        self._row: Row = {}

    def evaluate(self, weights: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
        """Run the episodes; `metadata` is what a checkpoint says, its steps among it."""
        settings = self._settings
        with torch.random.fork_rng(devices=[]):  # a network is made, and its weights drawn
            policy = policy_of(settings, weights, self._run.path, metadata["steps"])
        results = evaluate(
            policy,
            self._bodies,
            variant=settings.variant,
            yaw=settings.yaw,
            episodes=settings.eval_episodes,
            seed=MAX_SEED,
            threads=settings.threads,
        )
        returns = [result.mean("total_reward") for result in results]
        self._row = self._columns(returns)
        best, value = self._run.path / BEST, score(self._bodies, returns)
        if value > _known_score(best, metadata["steps"]):
            checkpoint = Checkpoint(dict(weights), None, metadata | {"score": value})
            write_checkpoint(best, metadata["steps"], checkpoint.pack(), keep=1)

    def take_row(self) -> Row:
        """Columns of the metrics: those of the evaluation since the last row, if there was one."""
        row, self._row = self._row, {}
        if not self._settings.eval_every:
            return {}
        return row or self._columns([None] * len(self._bodies))

    def _columns(self, returns: Sequence[float | None]) -> Row:
        known = [value for value in returns if value is not None]
        names = (f"eval/{body.name}" for body in self._bodies)
        mean = float(np.mean(known)) if known else None
        return {"eval/return": mean, **dict(zip(names, returns, strict=True))}

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes back; the best score lies with its weights."""
        return dict(self._row)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state_dict` gave."""
        self._row = dict(state)


def score(bodies: Sequence[Morphology], returns: Sequence[float]) -> float:
    """Mean over bodies of the return in units of what is good in the body's family."""
    families = map(family_of, bodies)
    scales = [OTHER_SCORE if family is None else family.score for family in families]
    return float(np.mean(np.array(returns) / scales))


def _known_score(best: Path, steps: int) -> float:
    """Of the best weights there are, unless they are those of the same steps."""
    for folder in reversed(list_checkpoints(best)):
        try:
            metadata = read_metadata(folder)
        except CorruptCheckpointError:
            continue
        known = metadata.get("score")
        if metadata["steps"] != steps and isinstance(known, float):
            return known
    return -np.inf
