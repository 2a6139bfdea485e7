"""What a body is: limbs on hinges, as one small immutable value.

A `Morphology` holds everything MuJoCo needs to simulate a body and nothing that can be
derived. Limbs are listed in the order of the body tree: a limb comes after its parent,
and everything that hangs on a limb follows it at once. Positions are in metres in the
frame of the parent limb, angles in degrees, the rest in MuJoCo's units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sgrl.nearest import did_you_mean

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]

PHYSICS_STEPS = 4
"""Physics steps in an environment step."""
MIRRORED = "_mirrored"
"""What the name of a mirror image ends with, and of nothing else: the image of an image has the
name without it."""
HINGES = "xyz"
"""The hinges that a limb may have, by name; each has a slot of its own in what is observed."""
LIMB_TYPES = ("torso", "thigh", "shin", "foot")
"""The types that an observation tells apart; every other limb is of no type."""


@dataclass(frozen=True, slots=True)
class Hinge:
    """One axis of rotation with its motor. Up to three of them, x, y and z, hold a limb."""

    axis: Vec3
    """Unit axis in the limb's frame."""
    range_deg: tuple[float, float]
    gear: float
    """Torque in Nm at full control; 0 for a motor that exists but moves nothing."""
    stiffness: float
    damping: float
    armature: float


@dataclass(frozen=True, slots=True)
class Geom:
    """A capsule, or a sphere when `half_length` is 0."""

    radius: float
    half_length: float = 0.0
    """Half the length of the capsule's straight part; it lies along its local z."""
    pos: Vec3 = (0.0, 0.0, 0.0)
    quat: Quat = (1.0, 0.0, 0.0, 0.0)
    friction: Vec3 | None = None
    """Sliding, torsional, rolling; None takes that of the body's skin."""


@dataclass(frozen=True, slots=True)
class Limb:
    """A rigid part: the torso, or one that hangs on its parent by hinges, three as a rule."""

    name: str
    parent: str | None
    """None for the torso, which moves freely."""
    pos: Vec3
    geoms: tuple[Geom, ...]
    hinges: tuple[Hinge, ...] = ()
    anchor: Vec3 = (0.0, 0.0, 0.0)
    """Where the hinges sit, in the limb's own frame."""
    hinge_names: str = HINGES
    """Which of x, y and z the `hinges` are, a letter each: `"y"` for a knee that only bends."""

    def __post_init__(self) -> None:
        if self.parent is None:
            return
        names = self.hinge_names
        if "".join(sorted(set(names))) != names or not set(names) <= set(HINGES):
            raise ValueError(
                f"{self.name}: hinge_names are letters of {HINGES!r} in this order, not {names!r}"
            )
        if len(self.hinges) != len(names):
            raise ValueError(
                f"{self.name}: hinge_names {names!r} call for {len(names)} hinges, not "
                f"{len(self.hinges)}; name those that are there, as hinge_names='y'"
            )

    @property
    def hinge_slots(self) -> tuple[int, ...]:
        """Slot of each of its hinges: 0 for x, 1 for y, 2 for z."""
        return tuple(HINGES.index(name) for name in self.hinge_names[: len(self.hinges)])

    @property
    def type(self) -> str | None:
        """One of `LIMB_TYPES`, read from the name (`left_bthigh` is a thigh), or None."""
        return next((kind for kind in LIMB_TYPES if kind in self.name), None)


@dataclass(frozen=True, slots=True)
class Surface:
    """How a geom meets others, in MuJoCo's contact parameters."""

    friction: Vec3
    """Sliding, torsional, rolling. Of two touching geoms MuJoCo takes the larger."""
    condim: int
    contype: int
    conaffinity: int
    margin: float
    solimp: tuple[float, float, float, float, float]
    solref: tuple[float, float] = (0.02, 1.0)


@dataclass(frozen=True, slots=True)
class Physics:
    """What holds for a whole simulation."""

    timestep: float
    """Seconds per physics step; an environment step is `PHYSICS_STEPS` of them."""
    integrator: Literal["RK4", "Euler"]
    skin: Surface
    """Contact of the limbs."""
    floor: Surface
    floor_size: Vec3
    """Half sizes of the floor as drawn, and its grid; for contact it is infinite."""
    limit_solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    """Impedance of the hinges' limits."""


@dataclass(frozen=True, slots=True, repr=False)
class Morphology:
    """A body. Compare, hash and copy it like a number; `cut` and `splice` make new ones."""

    name: str
    family: str
    """Name of its `Family`, which says what is rewarded and when an episode ends."""
    limbs: tuple[Limb, ...]
    physics: Physics

    def __post_init__(self) -> None:
        if not self.limbs or self.limbs[0].parent is not None:
            raise ValueError(f"{self.name}: the first limb must be the torso, with parent=None")
        if self.limbs[0].hinges:
            raise ValueError(f"{self.name}: the torso moves freely and has no hinges")
        path: list[str] = []
        for limb in self.limbs:
            if limb.parent is None and path:
                raise ValueError(
                    f"{self.name}: {limb.name!r} has no parent; only the torso may float"
                )
            while path and path[-1] != limb.parent:
                path.pop()
            if limb.parent is not None and not path:
                raise ValueError(
                    f"{self.name}: {limb.name!r} must follow its parent {limb.parent!r} in the "
                    "order of the body tree"
                )
            path.append(limb.name)
        if len(set(self.limb_names)) != len(self.limbs):
            raise ValueError(f"{self.name}: two limbs have the same name")

    def __repr__(self) -> str:
        return f"<Morphology {self.name}: {self.num_limbs} limbs, {self.action_dim} motors>"

    @property
    def limb_names(self) -> tuple[str, ...]:
        return tuple(limb.name for limb in self.limbs)

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of each limb's parent; -1 for the torso."""
        index = {name: i for i, name in enumerate(self.limb_names)}
        return tuple(-1 if limb.parent is None else index[limb.parent] for limb in self.limbs)

    @property
    def num_limbs(self) -> int:
        return len(self.limbs)

    @property
    def action_dim(self) -> int:
        """How many hinges it has, each with a motor, whether that moves something or not."""
        return sum(len(limb.hinges) for limb in self.limbs)

    @property
    def hinge_mask(self) -> NDArray[np.bool_]:
        """(limbs, 3), read-only: which of the hinges x, y and z each limb has.

        The hinges, and with them actions, are in the order of its True entries, row by row.
        """
        return _hinge_mask(self)

    def by_limb(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers of hinges (..., action_dim) as (..., limbs, 3), zero where there is no hinge."""
        mask = self.hinge_mask
        limbs = np.zeros((*values.shape[:-1], *mask.shape), values.dtype)
        limbs[..., mask] = values
        return limbs

    @property
    def actuated(self) -> NDArray[np.bool_]:
        """(action_dim,), read-only: which motors move something; the others have a gear of 0."""
        return _actuated(self)

    @property
    def dt(self) -> float:
        """Seconds of an environment step."""
        return self.physics.timestep * PHYSICS_STEPS

    def discount(self, horizon: float) -> float:
        """What a reward one step later counts to one who looks `horizon` seconds ahead."""
        return math.exp(-self.dt / horizon)

    @property
    def torso_height(self) -> float:
        """Height of the torso's frame at the start, in metres."""
        return self.limbs[0].pos[2]

    def limb(self, name: str) -> Limb:
        """The limb of that name; ValueError with the nearest names if there is none."""
        for limb in self.limbs:
            if limb.name == name:
                return limb
        hint = did_you_mean(name, self.limb_names, otherwise="it has")
        raise ValueError(f"{self.name} has no limb {name!r}; {hint}")

    def cut(self, *names: str, name: str | None = None) -> Morphology:
        """The body without these limbs and everything that hangs on them.

        `name` names the new body; by default the old name with the limbs that were cut, as
        `get_body` reads it.
        """
        self._check_removable(names)
        gone = set(names)
        for limb in self.limbs:
            if limb.parent in gone:
                gone.add(limb.name)
        kept = tuple(limb for limb in self.limbs if limb.name not in gone)
        return replace(self, name=name or "-".join((self.name, *names)), limbs=kept)

    def splice(self, *names: str, name: str | None = None) -> Morphology:
        """The body with these links taken out of a chain and the rest moved up to close it.

        What hung on a removed limb hangs, by the same hinges, where the limb itself hung,
        and the torso starts lower by as much as the chain got shorter.
        """
        self._check_removable(names)
        body = self
        for removed in names:
            gone = body.limb(removed)
            moved = {}
            lowered = 0.0
            for child in body.limbs:
                if child.parent == gone.name:
                    # The child's anchor goes to where the removed limb's anchor was.
                    pos = _sub(_add(gone.pos, gone.anchor), child.anchor)
                    lowered = max(lowered, pos[2] - (gone.pos[2] + child.pos[2]))
                    moved[child.name] = replace(child, parent=gone.parent, pos=pos)
            kept = tuple(moved.get(limb.name, limb) for limb in body.limbs if limb is not gone)
            body = replace(body, limbs=kept).starting_at(body.torso_height - lowered)
        return replace(body, name=name or "~".join((self.name, *names)))

    def starting_at(self, torso_height: float) -> Morphology:
        """The body with its torso's frame at another height at the start, in metres."""
        torso = self.limbs[0]
        torso = replace(torso, pos=(torso.pos[0], torso.pos[1], torso_height))
        return replace(self, limbs=(torso, *self.limbs[1:]))

    def _check_removable(self, names: Iterable[str]) -> None:
        for name in names:
            if self.limb(name).parent is None:
                raise ValueError(f"{self.name}: the torso can't be removed; name another limb")


@lru_cache(maxsize=1024)
def _hinge_mask(body: Morphology) -> NDArray[np.bool_]:
    mask = np.zeros((body.num_limbs, len(HINGES)), np.bool_)
    for row, limb in zip(mask, body.limbs, strict=True):
        row[list(limb.hinge_slots)] = True
    mask.flags.writeable = False
    return mask


@lru_cache(maxsize=1024)
def _actuated(body: Morphology) -> NDArray[np.bool_]:
    actuated = np.array([hinge.gear != 0 for limb in body.limbs for hinge in limb.hinges], np.bool_)
    actuated.flags.writeable = False
    return actuated


def _add(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _sub(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])
