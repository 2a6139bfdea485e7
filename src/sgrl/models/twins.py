"""Symmetry in physics: a run and its twin, started turned about the vertical.

A symmetric actor gives both the same actions, and the twin stays the turned copy of the
run. Two things bound how closely. Observations are float32 and contact is chaotic, so a
difference of 1e-8 grows. And MuJoCo's default friction cones are pyramids whose sides are
aligned with the *world* wherever a sphere touches the floor (a humanoid's feet and head, a
cheetah's head), so there the simulated world itself is only symmetric under quarter turns.
Round (elliptic) cones are the same in all directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch
from sgrl.morphology import Morphology
from sgrl.symmetry import rotation, turn_state


@dataclass(frozen=True)
class Gap:
    """Largest differences along a run, after turning one to the other."""

    action: float
    """Of actions, which lie in [-1, 1]."""
    state: float
    """Of positions: metres, radians, parts of a quaternion."""


def run_twins(
    actor: Callable[[LimbBatch], Tensor],
    body: Morphology,
    angle: float,
    *,
    steps: int = 20,
    round_cones: bool = False,
    seed: int = 3,
) -> Gap:
    """Run a body and its twin turned by `angle` radians, each with its own observations.

    The actor is fed float64. Episodes do not end when the body falls. `round_cones` makes
    friction the same in all directions.
    """
    run, twin = envs = (LocomotionEnv(body), LocomotionEnv(body))
    if round_cones:
        for env in envs:
            env.model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    first, _ = run.reset(seed=seed)
    qpos, qvel = turn_state(run.data.qpos, run.data.qvel, angle)
    target = rotation(angle)[:2, :2] @ run.target
    second, _ = twin.reset(options={"qpos": qpos, "qvel": qvel, "target": target})

    action_gap = state_gap = 0.0
    observations = [first, second]
    for _ in range(steps):
        batch = LimbBatch.from_flat(torch.from_numpy(np.stack(observations)).double(), body)
        with torch.no_grad():
            actions = batch.layout.actions_to_rows(actor(batch)).numpy()
        action_gap = max(action_gap, float(np.abs(actions[0] - actions[1]).max()))
        observations = [env.step(action)[0] for env, action in zip(envs, actions, strict=True)]
        expected, _ = turn_state(run.data.qpos, run.data.qvel, angle)
        # A quaternion and its negative are one orientation.
        expected[3:7] *= np.sign(expected[3:7] @ twin.data.qpos[3:7])
        state_gap = max(state_gap, float(np.abs(expected - twin.data.qpos).max()))
    return Gap(action_gap, state_gap)
