"""The task on top of a body: one Gymnasium environment and one vector environment."""

from sgrl.envs.recording import RecordVideo
from sgrl.envs.registration import env_id, make_env, make_vec, register_envs
from sgrl.envs.single import LocomotionEnv
from sgrl.envs.terms import StepState
from sgrl.envs.variant import task_for
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology.task import Health, RewardTerm, Task, TerminationTerm

__all__ = [
    "Health",
    "LocomotionEnv",
    "LocomotionVectorEnv",
    "RecordVideo",
    "RewardTerm",
    "StepState",
    "Task",
    "TerminationTerm",
    "env_id",
    "make_env",
    "make_vec",
    "register_envs",
    "task_for",
]
