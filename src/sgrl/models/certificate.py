"""The symmetry certificate: what each method declares, measured, not promised.

A method declares that some changes of the world leave its actions and its Q alone. Here each
change is made, and the error measured in float64, with fresh random weights or those of a
trained actor:

- *translation* shifts a real body and its target along the ground, through the environment.
  Observations are relative to the torso, so there should be nothing to see for any method
  but the rounding of a float32 observation;
- *rotation* about the vertical, *reflection* in vertical planes (together the paper's
  group) and *tilt* about horizontal axes act on observations, random ones and those from
  episodes of real bodies. A tilt leaves gravity where it was: to be blind to it is to be
  blind to gravity's direction;
- *mirror* is the physical mirror image, on states from episodes of real bodies: whether the action
  of a body's image is the image of the body's action. Networks of one body are measured on those
  that are their own images.

`paired_rollouts` carries a rotation through physics: a run, and its twin that starts rotated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import mujoco
import numpy as np
import torch
from torch import Tensor

from sgrl.envs.observation import FEATURES
from sgrl.envs.single import LocomotionEnv
from sgrl.markup import markdown_table
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import METHODS, get_method, make_actor, make_critic
from sgrl.models.mirrored import mirror_error
from sgrl.models.states import random_batch, rollout_batch
from sgrl.morphology import Morphology, body_names, resolve_bodies
from sgrl.symmetry import (
    SYMMETRIES,
    TOLERANCES,
    Symmetry,
    measure,
    relative_error,
    rotate_state,
    rotation,
    shift_state,
)

States = Literal["random", "rollout"]
Function = Callable[[LimbBatch], Tensor | tuple[Tensor, ...]]

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
class CertificateRow:
    """One measurement; errors are the largest difference, relative to the largest output."""

    method: str
    symmetry: Symmetry
    declared: bool
    """Whether the method declares to have it."""
    states: States
    action_error: float
    q_error: float | None = None
    """None for an actor without a critic."""

    @property
    def errors(self) -> tuple[float, ...]:
        """The errors of the action and, if there is one, of Q."""
        return (self.action_error,) if self.q_error is None else (self.action_error, self.q_error)

    @property
    def holds(self) -> bool:
        """Whether action and Q stayed as they were, up to rounding."""
        allowed = ROUNDING if self.symmetry == "translation" else TOLERANCES["float64"]
        return all(error <= allowed for error in self.errors)

    @property
    def violated(self) -> bool:
        """Whether the method declares that action and Q stay, and they did not."""
        return self.declared and not self.holds


def certify(
    methods: Sequence[str] = (),
    bodies: Sequence[str | Morphology] = (),
    *,
    preset: str = "fast",
    samples: int = 8,
    seed: int = 0,
) -> list[CertificateRow]:
    """Measure methods, by default all, on bodies, by default all 29, mixed in one batch.

    `samples` elements of each group are tried and the worst is kept. Methods made for one
    body get a network of their own for each, and the worst body counts.
    """
    chosen = resolve_bodies(bodies or body_names())

    @cache
    def cases(*bodies: Morphology) -> _Cases:
        return _Cases(bodies, seed)

    rows: list[CertificateRow] = []
    for method in methods or METHODS:
        groups = [(body,) for body in chosen] if get_method(method).one_body else [chosen]
        rows += _worst(
            [
                row
                for group in groups
                for row in _certify_one(method, cases(*group), preset, samples, seed)
            ]
        )
    return rows


def certify_actor(
    method: str, actor: Function, bodies: Sequence[Morphology], *, samples: int = 8, seed: int = 0
) -> list[CertificateRow]:
    """Measure one actor of a method, such as a trained one: from batches in float64 to actions."""
    with torch.no_grad():
        return _worst(list(_measure(method, _Cases(bodies, seed), actor, None, samples, seed)))


def format_certificate(rows: Sequence[CertificateRow]) -> str:
    """A Markdown table: a line per method, in each cell the error of the action and of Q."""
    errors: dict[str, dict[Symmetry, list[CertificateRow]]] = {}
    for row in rows:
        errors.setdefault(row.method, {}).setdefault(row.symmetry, []).append(row)
    lines = [
        (method, *(format_cell(found.get(symmetry, [])) for symmetry in SYMMETRIES))
        for method, found in errors.items()
    ]
    titles = ("method", *SYMMETRIES)
    return markdown_table(titles, lines, left=len(titles))


def format_cell(rows: Sequence[CertificateRow]) -> str:
    """Whether a symmetry holds, and the worst error of the action and, if measured, of Q.

    ✗ is not a failure but what the method does not declare; ✗! is declared and does not hold.
    """
    if not rows:
        return "-"
    mark = "✓" if all(row.holds for row in rows) else "✗"
    return f"{mark}{'!' if any(row.violated for row in rows) else ''} {_short(_worst_errors(rows))}"


def violations(rows: Sequence[CertificateRow]) -> list[str]:
    """A sentence about each measurement that shows a declared symmetry not to hold."""
    return [
        f"{row.method} declares {row.symmetry}, and on {row.states} states it changes action and Q "
        f"by {_short(row.errors)}"
        for row in rows
        if row.violated
    ]


def _short(errors: Iterable[float]) -> str:
    return ", ".join(f"{error:.0e}" if error else "0" for error in errors)


def _worst(rows: Sequence[CertificateRow]) -> list[CertificateRow]:
    """The rows of one method with those of the same change and states made into one."""
    groups: dict[tuple[Symmetry, States], list[CertificateRow]] = {}
    for row in rows:
        groups.setdefault((row.symmetry, row.states), []).append(row)
    return [
        CertificateRow(row.method, row.symmetry, row.declared, row.states, *_worst_errors(own))
        for (row, *_), own in ((own, own) for own in groups.values())
    ]


def _worst_errors(rows: Sequence[CertificateRow]) -> list[float]:
    """The errors of the action and, if there is one, of Q."""
    return [_largest(errors) for errors in zip(*(row.errors for row in rows), strict=True)]


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


def _certify_one(
    method: str, cases: _Cases, preset: str, samples: int, seed: int
) -> Iterator[CertificateRow]:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        actor = make_actor(method, preset, bodies=cases.bodies).double()
        critic = make_critic(method, preset, bodies=cases.bodies).double()

        def q_of(batch: LimbBatch) -> Function:
            action = torch.rand(batch.layout.num_limbs, 3, dtype=batch.vectors.dtype) * 2 - 1
            action = action.masked_fill(batch.layout.is_torso[:, None], 0.0)
            return lambda changed: critic(changed, action)

        yield from _measure(method, cases, actor, q_of, samples, seed)


def _measure(
    name: str,
    cases: _Cases,
    actor: Function,
    q_of: Callable[[LimbBatch], Function] | None,
    samples: int,
    seed: int,
) -> Iterator[CertificateRow]:
    """`q_of` makes the Q of a batch's states a function of the batch, for actions that stay."""

    def functions(batch: LimbBatch) -> list[Function]:
        return [actor] if q_of is None else [actor, q_of(batch)]

    declared = get_method(name).symmetries

    def row(symmetry: Symmetry, states: States, errors: list[float]) -> CertificateRow:
        return CertificateRow(name, symmetry, symmetry in declared, states, *errors)

    errors = [relative_error(f(cases.here), f(cases.shifted)) for f in functions(cases.here)]
    yield row("translation", "rollout", errors)
    for states, batch in cases.batches.items():
        measured = functions(batch)
        for change in ON_OBSERVATIONS:
            errors = [
                measure(f, batch, group=change, samples=samples, seed=seed).error for f in measured
            ]
            yield row(change, states, errors)
    try:
        found = mirror_error(actor, cases.batches["rollout"])
    except ValueError:  # a network of one body, whose image is another
        return
    yield row("mirror", "rollout", [found])


def _translated(bodies: Sequence[Morphology], seed: int) -> tuple[LimbBatch, LimbBatch]:
    """Each body in motion at some place, and the same elsewhere with its target."""
    batches = []
    rng = np.random.default_rng(seed)
    states = []
    for body in bodies:
        env = LocomotionEnv(body)
        env.reset(seed=seed)
        for _ in range(5):
            env.step(rng.uniform(-1.0, 1.0, body.action_dim).astype(np.float32))
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


@dataclass(frozen=True)
class PairGap:
    """Largest differences along a run, after rotating one onto the other."""

    action: float
    """The difference of actions, which lie in [-1, 1]."""
    state: float
    """The difference of positions: meters, radians, parts of a quaternion."""


def paired_rollouts(
    actor: Callable[[LimbBatch], Tensor],
    body: Morphology,
    angle: float,
    *,
    steps: int = 20,
    round_cones: bool = False,
    seed: int = 3,
) -> PairGap:
    """Run a body, and its twin rotated by `angle` radians, each with its own observations.

    A symmetric actor gives both the same actions, and the twin stays the rotated copy of the run.
    Two things bound how closely. Observations are float32 and contact is chaotic, so a difference
    of 1e-8 grows. And MuJoCo's default friction cones are pyramids whose sides are aligned with
    the *world* wherever a sphere touches the floor (a humanoid's feet and head, a cheetah's head),
    so there the simulated world itself is only symmetric under quarter rotations. Round (elliptic)
    cones, `round_cones`, are the same in all directions.

    The actor is fed float64. Episodes do not end when the body falls.
    """
    run, twin = envs = (LocomotionEnv(body), LocomotionEnv(body))
    if round_cones:
        for env in envs:
            env.model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    first, _ = run.reset(seed=seed)
    qpos, qvel = rotate_state(run.data.qpos, run.data.qvel, angle)
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
        expected, _ = rotate_state(run.data.qpos, run.data.qvel, angle)
        # A quaternion and its negative are one orientation.
        expected[3:7] *= np.sign(expected[3:7] @ twin.data.qpos[3:7])
        state_gap = max(state_gap, float(np.abs(expected - twin.data.qpos).max()))
    return PairGap(action_gap, state_gap)
