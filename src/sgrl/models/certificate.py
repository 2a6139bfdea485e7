"""The symmetry certificate: what each method keeps, measured, not promised.

A method claims that some changes of the world leave its actions and its Q alone. Here each
change is made, and the error measured in float64, with fresh random weights:

- *translation* shifts a real body and its target along the ground, through the environment.
  Observations are relative to the torso, so there should be nothing to see for any method
  but the rounding of a float32 observation;
- *rotation* about the vertical, *reflection* in vertical planes (together the paper's
  group) and *tilt* about horizontal axes act on observations, random ones and those from
  episodes of real bodies. A tilt leaves gravity where it was: to be blind to it is to be
  blind to gravity's direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sgrl.envs.observation import FEATURES
from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import METHODS, make_actor, make_critic
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import Morphology, body_names, resolve_bodies
from sgrl.symmetry import TOLERANCES, measure, relative_error, shift_state

Change = Literal["translation", "rotation", "reflection", "tilt"]
States = Literal["random", "rollout"]
Function = Callable[[LimbBatch], Tensor | tuple[Tensor, ...]]

CHANGES: tuple[Change, ...] = get_args(Change)
ON_OBSERVATIONS: tuple[Literal["rotation", "reflection", "tilt"], ...] = (
    "rotation",
    "reflection",
    "tilt",
)
ROUNDING = 1e-5
"""Largest error of a translation: that of float32 observations, seen through a network."""
SHIFT = np.array([128.0, -57.0])
"""Metres along the ground."""


@dataclass(frozen=True)
class Row:
    """One measurement; errors are the largest change, relative to the largest output."""

    method: str
    change: Change
    states: States
    action_error: float
    q_error: float

    @property
    def kept(self) -> bool:
        """Whether action and Q stayed as they were, up to rounding."""
        allowed = ROUNDING if self.change == "translation" else TOLERANCES["float64"]
        return self.action_error <= allowed and self.q_error <= allowed


def claims(method: str) -> frozenset[Change]:
    """The changes of the world that must not change a method's actions and Q."""
    if method == "set-g":
        # Gravity is but three constant numbers to it: it can't tell up from down.
        return frozenset(CHANGES)
    if method in ("set", "set-z", "set-out_invar"):
        return frozenset(("translation", "rotation", "reflection"))
    if method.endswith(("+hn", "+tn")):
        return frozenset(("translation", "rotation"))
    # Among them set-gd: it would be blind to a turn of the vectors alone, but it reads the
    # target direction as plain numbers, and in a turned world that has turned too.
    return frozenset(("translation",))


def certify(
    methods: Sequence[str] = tuple(METHODS),
    bodies: Sequence[str | Morphology] = (),
    *,
    preset: str = "fast",
    samples: int = 8,
    seed: int = 0,
) -> list[Row]:
    """Measure each method on some bodies, by default all 29, mixed in one batch.

    `samples` elements of each group are tried and the worst is kept. Monolithic methods
    get a network of their own for each body, and the worst body counts.
    """
    chosen = resolve_bodies(bodies or body_names())

    @cache
    def cases(*bodies: Morphology) -> _Cases:
        return _Cases(bodies, seed)

    rows: list[Row] = []
    for method in methods:
        groups = [(body,) for body in chosen] if method.startswith("monolithic") else [chosen]
        rows += _worst(
            [
                row
                for group in groups
                for row in _certify_one(method, cases(*group), preset, samples, seed)
            ]
        )
    return rows


def format_table(rows: Sequence[Row]) -> str:
    """A Markdown table: a line per method, in each cell the error of the action and of Q."""
    errors: dict[str, dict[Change, list[Row]]] = {}
    for row in rows:
        errors.setdefault(row.method, {}).setdefault(row.change, []).append(row)
    lines = [
        "| method | " + " | ".join(CHANGES) + " |",
        "| --- |" + " --- |" * len(CHANGES),
    ]
    for method, found in errors.items():
        cells = [_cell(found.get(change, [])) for change in CHANGES]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return "-"
    mark = "✓" if all(row.kept for row in rows) else "✗"
    action = _largest(row.action_error for row in rows)
    q = _largest(row.q_error for row in rows)
    return f"{mark} {_short(action)}, {_short(q)}"


def _short(error: float) -> str:
    return f"{error:.0e}" if error else "0"


def _worst(rows: Sequence[Row]) -> list[Row]:
    """The rows of one method with those of the same change and states made into one."""
    groups: dict[tuple[Change, States], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.change, row.states), []).append(row)
    return [
        Row(
            rows[0].method,
            change,
            states,
            _largest(row.action_error for row in found),
            _largest(row.q_error for row in found),
        )
        for (change, states), found in groups.items()
    ]


def _largest(errors: Iterable[float]) -> float:
    # Unlike `max`, this lets no NaN get lost.
    return float(np.max(list(errors)))


class _Cases:
    """What the methods are measured on."""

    def __init__(self, bodies: Sequence[Morphology], seed: int) -> None:
        self.bodies = tuple(bodies)
        self.here, self.shifted = _translated(bodies, seed)
        self.batches: dict[States, LimbBatch] = {
            "random": random_batch(bodies, 4, seed=seed),
            "rollout": rollout_batch(bodies, 2, seed=seed),
        }


def _certify_one(method: str, cases: _Cases, preset: str, samples: int, seed: int) -> Iterator[Row]:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        actor = make_actor(method, preset, bodies=cases.bodies).double()
        critic = make_critic(method, preset, bodies=cases.bodies).double()

        def q_of(batch: LimbBatch) -> Function:
            action = torch.rand(batch.layout.num_limbs, 3, dtype=batch.vectors.dtype) * 2 - 1
            action = action.masked_fill(batch.layout.is_torso[:, None], 0.0)
            return lambda changed: critic(changed, action)

        q = q_of(cases.here)
        errors = [relative_error(f(cases.here), f(cases.shifted)) for f in (actor, q)]
        yield Row(method, "translation", "rollout", *errors)
        for states, batch in cases.batches.items():
            q = q_of(batch)
            for change in ON_OBSERVATIONS:
                errors = [
                    measure(f, batch, group=change, samples=samples, seed=seed).error
                    for f in (actor, q)
                ]
                yield Row(method, change, states, *errors)


def _translated(bodies: Sequence[Morphology], seed: int) -> tuple[LimbBatch, LimbBatch]:
    """Each body in motion at some place, and the same elsewhere with its target."""
    batches = []
    rng = np.random.default_rng(seed)
    states = []
    for body in bodies:
        env = LocomotionEnv(body)
        env.reset(seed=seed)
        for _ in range(5):
            env.step(rng.uniform(-1.0, 1.0, body.num_actions).astype(np.float32))
        states.append((env, env.data.qpos.copy(), env.data.qvel.copy(), env.target))
    width = max(body.num_limbs for body in bodies) * FEATURES
    for shift in (np.zeros(2), SHIFT):
        rows = np.zeros((len(bodies), width))
        for row, (env, qpos, qvel, target) in zip(rows, states, strict=True):
            start = {"qpos": shift_state(qpos, shift), "qvel": qvel, "target": target + shift}
            obs, _ = env.reset(options=start)
            row[: len(obs)] = obs
        batches.append(LimbBatch.from_padded(torch.from_numpy(rows), bodies, range(len(bodies))))
    return batches[0], batches[1]
