"""How well a policy does: whole episodes on any bodies, all of a body's at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.variant import MAX_EPISODE_STEPS, Variant
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import Collection, Morphology, resolve_bodies
from sgrl.training.acting import Policy
from sgrl.training.results import BodyResult, Episode

EVALUATION_SEEDS = 2**62
"""The environments' seeds from here on are of evaluations; those of trainings lie below."""
MAX_EPISODES = 2**32
"""Environment seeds that each evaluation seed has to itself."""
MAX_SEED = (2**63 - EVALUATION_SEEDS) // MAX_EPISODES - 1


@dataclass(frozen=True)
class Moment:
    """One step of the episodes that are still going on, a row for each."""

    body: Morphology
    step: int
    """The step of the episode, from 1."""
    episodes: NDArray[np.intp]
    """(rows,), which episodes of the evaluation these are."""
    observations: NDArray[np.float32]
    """(rows, limbs * 41), before the step."""
    rewards: NDArray[np.float64]
    """(rows,), of the step."""
    distances: NDArray[np.float64]
    """(rows,), to the target after the step, m."""


def evaluation_seeds(seed: int, episodes: int) -> list[int]:
    """The environments' seeds of an evaluation: no training run and no other `seed` has them."""
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"an evaluation seed is a whole number from 0 to {MAX_SEED}, not {seed}")
    if not 1 <= episodes <= MAX_EPISODES:
        raise ValueError(f"an evaluation takes 1 to {MAX_EPISODES} episodes, not {episodes}")
    first = EVALUATION_SEEDS + seed * MAX_EPISODES
    return list(range(first, first + episodes))


def evaluate(
    policy: Policy,
    bodies: str | Morphology | Collection | Iterable[str | Morphology | Collection],
    *,
    variant: Variant = "v1",
    episodes: int = 100,
    seed: int = 0,
    threads: int = 0,
    yaw: float | None = None,
    options: Mapping[str, Any] | None = None,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    label: str = "policy",
    report: Callable[[BodyResult], None] | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> list[BodyResult]:
    """Run `episodes` whole episodes of each body, all of a body's at once.

    Each copy of a body counts with its first episode and no other: in a fixed time a copy
    that falls soon would have more of them, and short ones would count too much. `seed`
    gives the same starts to every policy and body, whichever are evaluated beside it.
    `yaw` turns all starts alike, `options` are those of the environments' `reset`; `report`
    hears each result as soon as it is there, `watch` every step.
    """
    if isinstance(bodies, str | Morphology | Collection):
        bodies = [bodies]
    chosen = dict.fromkeys(resolve_bodies(bodies))
    if not chosen:
        raise ValueError("an evaluation needs at least one body")
    seeds = evaluation_seeds(seed, episodes)
    results = []
    for body in chosen:
        found = run_episodes(
            policy,
            body,
            seeds,
            options,
            watch,
            variant=variant,
            yaw=yaw,
            threads=threads,
            max_episode_steps=max_episode_steps,
        )
        results.append(BodyResult(label, body.name, variant, found))
        if report is not None:
            report(results[-1])
    return results


def run_episodes(
    policy: Policy,
    body: Morphology,
    seeds: Sequence[int],
    options: Mapping[str, Any] | None = None,
    watch: Callable[[Moment], None] | None = None,
    **settings: Any,
) -> tuple[Episode, ...]:
    """Step as many copies as there are seeds until the first episode of each has ended.

    `options` are those of `reset`, a value for all or one for each, and `settings` those of
    `LocomotionVectorEnv`.
    """

    def make(num_envs: int) -> LocomotionVectorEnv:
        return LocomotionVectorEnv(body, num_envs, **settings)

    env = make(len(seeds))
    observations, _ = env.reset(seed=seeds, options=dict(options or {}))
    total, approach = np.zeros(len(seeds)), np.zeros(len(seeds))
    found: dict[int, Episode] = {}
    numbers = np.arange(len(seeds))  # of the episode that each copy of `env` runs
    running = np.ones(len(seeds), np.bool_)
    length = 0
    while running.any():
        if 2 * running.sum() <= len(running):
            # A few long episodes would otherwise drag all copies along.
            env, observations = _continue_with(running, env, make)
            numbers, running = numbers[running], running[running]
        actions = np.zeros((env.num_envs, body.action_dim), np.float32)
        actions[running] = policy.act(observations[running], body)
        before = observations
        observations, rewards, terminated, truncated, infos = env.step(actions)
        length += 1
        total[numbers] += rewards
        approach[numbers] += infos["speed_to_target"]
        ended = running & (terminated | truncated)
        if watch is not None:
            distances = infos["distance"].copy()
            if ended.any():  # where that is already of the next episode
                distances[ended] = infos["final_info"]["distance"][ended]
            rows = numbers[running], before[running], rewards[running], distances[running]
            watch(Moment(body, length, *rows))
        running = running & ~ended
        for copy in np.flatnonzero(ended).tolist():
            number, last = int(numbers[copy]), infos["final_info"]
            found[number] = Episode(
                seed=seeds[number],
                total_reward=float(total[number]),
                length=length,
                speed=float(approach[number] / length),
                targets=int(last["targets_reached"][copy]),
                distance=float(last["distance"][copy]),
                fell=bool(terminated[copy]),
                diverged=bool(last["diverged"][copy]),
                gained=float(approach[number] * body.dt),
            )
    return tuple(found[number] for number in range(len(seeds)))


def _continue_with(
    chosen: NDArray[np.bool_],
    env: LocomotionVectorEnv,
    make: Callable[[int], LocomotionVectorEnv],
) -> tuple[LocomotionVectorEnv, NDArray[np.float32]]:
    """The chosen copies (copies,) of one body as an environment of their own, and what they see."""
    state = env.state_dict()
    names = state.pop("bodies")
    # Each array has the same share for every copy, though not always in a dimension of its own.
    own = {
        key: value.reshape(len(chosen), -1)[chosen].reshape(-1, *value.shape[1:])
        for key, value in state.items()
    }
    smaller = make(int(chosen.sum()))
    return smaller, smaller.load_state_dict({**own, "bodies": names})
