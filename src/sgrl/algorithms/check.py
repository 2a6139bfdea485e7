"""An algorithm from outside the package is run once, tiny, before it is used."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgrl.algorithms.config import AlgorithmConfig, Plan
from sgrl.algorithms.learner import Array, Learner, Setup, Step
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import resolve_bodies
from sgrl.plugins import in_a_line

BODIES = resolve_bodies(("3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"))
ENVS = 2
"""Environments of each body."""
STEPS = 4
SEE = "see docs/howto/own_algorithm.md for what an algorithm looks like"


def check_algorithm(learner: object, name: str) -> type[Learner]:
    """The class, if it is one of a learner that works; ValueError says what is wrong with it."""
    if not isinstance(learner, type) or not issubclass(learner, Learner):
        raise ValueError(
            f"{name} is not a subclass of sgrl.algorithms.learner.Learner, but {learner!r:.60}; "
            f"{SEE}"
        )
    if problem := _problem_of_class(learner):
        raise ValueError(f"{name} can't be used: {problem}; {SEE}")
    file = getattr(sys.modules.get(learner.__module__), "__file__", None)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            problem = _problem_of_run(learner)
    except Exception as error:
        raise ValueError(f"{name} can't be used: {in_a_line(error, file)}; {SEE}") from error
    if problem:
        raise ValueError(f"{name} can't be used: {problem}; {SEE}")
    return learner


def _problem_of_class(learner: type[Learner]) -> str | None:
    if inspect.isabstract(learner):
        return f"it does not say how to {', '.join(sorted(learner.__abstractmethods__))}"
    name = getattr(learner, "name", None)
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        return f"its name is what its options begin with, such as 'reinforce', not {name!r:.60}"
    config: Any = getattr(learner, "Config", None)
    if not isinstance(config, type) or not issubclass(config, AlgorithmConfig):
        return "its Config is not a subclass of sgrl.algorithms.config.AlgorithmConfig"
    parameters: Any = getattr(config, "__dataclass_params__", None)
    if not dataclasses.is_dataclass(config) or not parameters.frozen:
        return f"its Config, {config.__name__}, is not a frozen dataclass"
    metrics = getattr(learner, "metrics", None)
    if not isinstance(metrics, tuple) or not all(isinstance(one, str) for one in metrics):
        return "its metrics are not a tuple of names"
    return None


class _Clock:
    """Books nothing."""

    def lap(self, activity: str, /) -> None: ...


def _problem_of_run(learner: type[Learner]) -> str | None:
    """What goes wrong in a few steps, and in going back to what was saved."""
    reported: dict[str, float] = {}
    with ExitStack() as stack:
        env = stack.enter_context(closing(LocomotionVectorEnv(BODIES, ENVS, threads=1)))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        setup = Setup(BODIES, "set", "fast", None, env, 0, "cpu", steps=1_000, folder=folder)
        config = learner.Config().resolved(Plan(BODIES, "set", False, setup.steps, ENVS))
        one = learner(config, setup)
        obs, _ = env.reset(seed=0)
        if not one.can_checkpoint:
            return "it can't be saved at the start: can_checkpoint is False"
        if problem := _problem_of_state(one, learner(config, setup), obs):
            return problem
        for _ in range(STEPS):
            actions, extras = one.act(obs)
            if problem := _problem_of_actions(actions, extras, env.action_mask.shape):
                return problem
            next_obs, rewards, terminated, truncated, infos = env.step(actions)
            done, final_obs = terminated | truncated, next_obs
            if done.any():
                final_obs = np.where(done[:, None], infos["final_obs"], next_obs)
            one.store(Step(obs, actions, rewards, next_obs, final_obs, terminated, done, extras))
            obs = next_obs
            one.update(reported.update, _Clock(), lambda: False)
        if problem := _problem_of_state(one, learner(config, setup), obs):
            return problem
        if unknown := sorted(reported.keys() - set(one.metrics)):
            return f"it reports {', '.join(unknown)}, which its metrics do not name"
        if not isinstance(one.describe(), str) or not isinstance(one.updates, int):
            return "describe() is a text, and updates a number"
    return None


def _problem_of_actions(actions: object, extras: object, shape: tuple[int, ...]) -> str | None:
    if not isinstance(actions, np.ndarray) or not isinstance(extras, Mapping):
        return "act does not give an array and a dict of extras"
    if actions.shape != shape or actions.dtype != np.float32:
        wanted = f"float32 (num_envs, action_dim), which is {shape} here"
        return f"act gives {actions.dtype} {actions.shape}, not {wanted}"
    if not np.isfinite(actions).all():
        return "act gives numbers that are not finite"
    return None


def _problem_of_state(one: Learner, other: Learner, obs: Array) -> str | None:
    """What keeps a new learner from going on as this one does, if it can be saved now."""
    if not one.can_checkpoint:
        return None
    one.flush()
    weights, state = one.weights(), one.state_dict()
    if not all(isinstance(value, Tensor) for value in weights.values()):
        return "weights() has something that is not a tensor"
    if not any(name.startswith("actor.") for name in weights):
        return "weights() has no names that begin with 'actor.', which acting needs"
    if strange := next(_strange(state), None):
        return f"state_dict() has {strange}"
    other.load_state_dict(weights, state)
    if not np.array_equal(one.act(obs)[0], other.act(obs)[0]):
        return "it acts otherwise after load_state_dict: is its noise in state_dict?"
    one.load_state_dict(weights, state)  # as if it had not acted
    return None


def _strange(value: object, where: str = "") -> Iterator[str]:
    """What can't be saved without code, and where it is."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                yield f"the key {name!r}{where}, which is not a text"
            yield from _strange(item, f" in {name!r}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strange(item, where)
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            yield f"an array of objects{where}"
    elif value is not None and not isinstance(value, (Tensor, bool, int, float, str)):
        yield f"a {type(value).__name__}{where}; tensors, arrays, numbers and texts can be saved"
