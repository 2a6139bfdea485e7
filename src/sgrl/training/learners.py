"""The learner that resolved settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sgrl.algorithms.learner import EnvLayout, Learner, Setup, SourcePolicy
from sgrl.algorithms.registry import algorithm_named
from sgrl.training.settings import TrainSettings


def make_learner(
    settings: TrainSettings,
    layout: EnvLayout,
    replay: Path | None,
    sources: Sequence[SourcePolicy] = (),
) -> Learner:
    """The learner of resolved settings; what it stores that outlives the process is in `replay`.

    `sources` are the policies that the algorithm's config names.
    """
    assert settings.steps is not None, "resolve the settings first"
    setup = Setup(
        bodies=settings.morphologies(),
        method=settings.method,
        preset=settings.preset,
        network=settings.network,
        layout=layout,
        seed=settings.seed,
        device=settings.device,
        steps=settings.steps,
        minutes=settings.minutes,
        folder=replay,
        # No transition that a kept checkpoint, or one being written, knows is overwritten.
        slack=(settings.keep + 1) * (settings.checkpoint_every + layout.num_envs),
        sources=tuple(sources),
    )
    learner = algorithm_named(settings.algorithm).learner_class()
    return learner(settings.algorithm_config(), setup)
