"""Runs as a training leaves them, without the training."""

from __future__ import annotations

from pathlib import Path

import torch

from sgrl.algorithms.learner import Learner
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.set import SETConfig
from sgrl.training.checkpoint import Checkpoint, write_checkpoint
from sgrl.training.learners import make_learner
from sgrl.training.run import Run, create_run
from sgrl.training.settings import TrainSettings, resolve_settings

HOPPER, WALKER = "3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"
TINY = SETConfig(layers=1, embedding=16, hidden=16, matrix=6, matrix_hidden=8)


def untrained_run(
    folder: Path,
    *,
    steps: tuple[int, ...] = (100,),
    method: str = "set",
    algorithm: str = "td3",
) -> tuple[Run, list[Learner]]:
    """A run as the training leaves it, with a learner for each checkpoint."""
    settings = resolve_settings(
        TrainSettings(
            algorithm=algorithm,
            bodies=(HOPPER,) if method == "monolithic" else (HOPPER, WALKER),
            method=method,
            runs=folder,
            name="run",
            network=TINY if method == "set" else None,
        )
    )
    run = create_run(settings)
    learners = []
    for step in steps:
        torch.manual_seed(step)
        env = LocomotionVectorEnv(settings.morphologies(), 1, threads=1)
        learner = make_learner(settings, env, None)
        packed = Checkpoint(learner.weights(), {}, {"steps": step, "seconds": 0.0}).pack()
        write_checkpoint(run.checkpoints, step, packed, keep=9)
        learners.append(learner)
    return run, learners
