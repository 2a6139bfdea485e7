"""Policies of other runs that a run learns from: copied into its folder, read back from there.

runs/student/sources/
  00_set-walker/                 a small run: settings.json and one checkpoint, of weights alone
    history.json                 steps, core-hours and commands that it took
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sgrl.algorithms.learner import SourcePolicy
from sgrl.training.checkpoint import Checkpoint, read_metadata, write_checkpoint
from sgrl.training.history import history_of, list_sources
from sgrl.training.place import split_place
from sgrl.training.policy import PORTABLE, read_policy_weights
from sgrl.training.run import Run, find_run

if TYPE_CHECKING:
    from torch import Tensor

KEPT = ("method", "preset", "algorithm", "bodies", "steps", "seconds")
"""What a copied checkpoint says of itself."""


def copy_sources(names: Sequence[str], runs: Path, run: Run) -> None:
    """Copy the policies of some runs into a new one, so that it goes on without them."""
    for number, name in enumerate(names):
        place, which = split_place(name)
        found = find_run(place, runs)
        folder, weights = read_policy_weights(found, which)
        copied = Run(run.sources / f"{number:02}_{found.path.name}")
        copy_policy(found, folder, weights, copied, found.path.name)
        history = json.dumps(history_of(found, folder), indent=1).encode()
        copied.files.write("history.json", history + b"\n")


def copy_policy(
    run: Run, folder: Path, weights: Mapping[str, Tensor], copied: Run, name: str
) -> None:
    """Write a small run with what one needs to act, and no folders of the machine that trained it,
    which are nobody's business."""
    copied.checkpoints.mkdir(parents=True)
    settings = run.settings()
    config = settings.algorithm_config()
    config = config.with_sources([Path(source).name for source in config.sources])
    copied.write_settings(
        replace(settings, runs=Path("runs"), resume=None, init_from=None, name=name, config=config)
    )
    portable = {name: value for name, value in weights.items() if name.startswith(PORTABLE)}
    metadata = read_metadata(folder)
    kept = {key: metadata[key] for key in KEPT if key in metadata}
    packed = Checkpoint(portable, None, kept).pack()
    write_checkpoint(copied.checkpoints, int(folder.name), packed, keep=1)


def read_sources(run: Run) -> tuple[SourcePolicy, ...]:
    """The policies that were copied into a run."""
    return tuple(map(_read, list_sources(run)))


def _read(copied: Run) -> SourcePolicy:
    settings = copied.settings()
    folder, weights = read_policy_weights(copied)
    return SourcePolicy(
        name=f"{copied.path.name[3:]} at {int(folder.name):,} steps",
        method=settings.method,
        preset=settings.preset,
        network=settings.network,
        bodies=settings.morphologies(),
        weights=weights,
    )
