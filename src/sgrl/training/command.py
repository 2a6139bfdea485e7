"""`sgrl train`: a training with its messages and exit codes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import tyro

from sgrl.models.plugins import TRUST, TrustOption
from sgrl.training.interrupt import InterruptedTrainingError
from sgrl.training.loop import TrainingFailedError, train
from sgrl.training.settings import TrainSettings


def train_command(
    settings: Annotated[TrainSettings, tyro.conf.arg(name="")], *, trust: TrustOption = ()
) -> Path:
    """Train a policy on one body or many, in a folder of its own, and go on after a stop.

    Example: sgrl train --method set --bodies 3d_hopper_5_full --steps 200000 --seed 1

    Returns the run's folder.
    """
    TRUST.add(trust)
    TRUST.add_named((settings.method,))  # which the user gave
    try:
        return train(settings)
    except InterruptedTrainingError as stop:
        print(stop, flush=True)
        # What a shell reports of a process that a signal ended.
        raise SystemExit(128 + stop.number) from None
    except KeyboardInterrupt:
        print("stopped at once: what came after the last checkpoint is lost", flush=True)
        raise SystemExit(128 + signal.SIGINT) from None
    except (TrainingFailedError, ValueError, OSError) as error:
        raise SystemExit(f"sgrl: {error}") from None
