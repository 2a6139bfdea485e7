"""Batches to try a model on: random ones, and states that real bodies get into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sgrl.envs.observation import FEATURES, GRAVITY_DIRECTION, NUM_SCALARS, NUM_VECTORS
from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch, layout_of
from sgrl.morphology import Morphology

SPREADS = (0.5, 3.0, 5.0, 1.0, 1.0, 1.0)
"""Root mean square length per coordinate of each random vector: m, m/s, rad/s, axes."""


def random_batch(
    bodies: Sequence[Morphology],
    rows_each: int = 1,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> LimbBatch:
    """Observations that no body need be able to have; `rows_each` for each body in turn.

    Vectors are normal with the sizes of real ones, the torso's position and axes zero as
    they always are, and the target is horizontal.
    """
    rng = np.random.default_rng(seed)
    layout = layout_of(bodies, np.repeat(np.arange(len(bodies)), rows_each))
    torso = layout.is_torso
    vectors = torch.from_numpy(
        rng.standard_normal((layout.num_limbs, NUM_VECTORS, 3)) * np.array(SPREADS)[:, None]
    )
    vectors[torso, 0] = 0.0
    vectors[torso, 3:] = 0.0
    scalars = torch.from_numpy(rng.uniform(-1.0, 1.0, (layout.num_limbs, NUM_SCALARS)))
    angle = rng.uniform(0.0, 2 * np.pi, layout.num_rows)
    target = np.stack((np.cos(angle), np.sin(angle), np.zeros_like(angle)), axis=1)
    gravity = np.tile(GRAVITY_DIRECTION, (layout.num_rows, 1))
    return LimbBatch(
        vectors.to(dtype),
        scalars.to(dtype),
        torch.from_numpy(gravity).to(dtype),
        torch.from_numpy(target).to(dtype),
        layout,
    )


def rollout_batch(
    bodies: Sequence[Morphology],
    rows_each: int = 1,
    *,
    steps: int = 10,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> LimbBatch:
    """Observations from episodes under random actions, `steps` apart."""
    rng = np.random.default_rng(seed)
    width = max(body.num_limbs for body in bodies) * FEATURES
    rows = np.zeros((len(bodies) * rows_each, width), np.float32)
    row = iter(rows)
    for index, body in enumerate(bodies):
        env = LocomotionEnv(body)
        obs, _ = env.reset(seed=seed + index)
        for _ in range(rows_each):
            for _ in range(steps):
                action = rng.uniform(-1.0, 1.0, body.action_dim).astype(np.float32)
                obs, _, terminated, _, _ = env.step(action)
                if terminated:
                    obs, _ = env.reset()
            next(row)[: len(obs)] = obs
        env.close()
    body_index = np.repeat(np.arange(len(bodies)), rows_each)
    return LimbBatch.from_padded(torch.from_numpy(rows).to(dtype), bodies, body_index)
