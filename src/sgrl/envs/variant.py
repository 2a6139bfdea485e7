"""Run to a target on the ground without falling over: which task fits which body."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.bounds import shown
from sgrl.morphology import FAMILIES, Morphology, family_of
from sgrl.morphology.task import NEAR_TARGET, Task

Array = NDArray[np.float64]
Variant = Literal["v1", "v2", "mixed"]

REACH_DISTANCE = 1.0
"""Metres on the ground at which a target counts as reached."""
MAX_EPISODE_STEPS = 1000


def fit_task(
    body: Morphology, task: Task | None, variant: Variant = "v1", yaw: float | None = None
) -> Task:
    """`task`, checked to fit the body, or the paper's if there is none."""
    if task is None:
        task = task_for(body, variant, yaw)
    elif yaw is not None:
        raise ValueError("give the yaw as a field of the task, not beside it")
    for limb in task.health.height_limbs:
        body.limb(limb)
    return task


def task_for(body: Morphology, variant: Variant = "v1", yaw: float | None = None) -> Task:
    """The paper's task for a body: its family's, with the bounds that fit its legs."""
    family = family_of(body)
    if family is None:
        raise ValueError(
            f"{body.name}: no task is known for the family {body.family!r}; give a Task, or "
            f"a family among {', '.join(FAMILIES)}"
        )
    if not isinstance(variant, str) or variant not in get_args(Variant):
        raise ValueError(
            f"unknown variant {shown(variant)}; there are v1 (far targets), v2 (near) and mixed "
            "(episodes of both)"
        )
    task = replace(family.task(body), yaw=yaw)
    if variant == "v1":
        return task
    far = 0.5 if variant == "mixed" else 0.0
    return replace(task, target_distance=NEAR_TARGET, targets_follow=True, far_episodes=far)
