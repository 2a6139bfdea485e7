"""Mirror images of bodies, in the vertical plane that parts left from right (y = 0).

A mirror image is what physics makes of it: positions and linear velocities are reflected, while
angular velocities and hinge axes, which are axial, are negated once more. So is its motion:
the image of a body, moved by the images of its actions, moves as the image of its motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology.body import HINGES, MIRRORED, Geom, Hinge, Limb, Morphology, Vec3
from sgrl.morphology.families import family_of

POLAR = (1.0, -1.0, 1.0)
"""What happens to the coordinates of positions and linear velocities."""
AXIAL = (-1.0, 1.0, -1.0)
"""What happens to the coordinates of angular velocities and axes of rotation."""
_SIDES = {"left": "right", "right": "left"}


@dataclass(frozen=True, eq=False)
class Mirror:
    """The mirror image of a body, and what of it is the image of what."""

    body: Morphology
    """Limbs are called, listed and hinged as in the full body of the family: the image of a body
    with two equal sides is that body."""
    sources: NDArray[np.int64]
    """(limbs,): of each limb of the image, the limb that it is the image of."""
    signs: NDArray[np.float64]
    """(limbs, 3): -1 where a hinge of the image rotates the other way than the image of the hinge,
    which is counted the way its namesake is; 1 where there is no hinge."""
    hinge_sources: NDArray[np.intp]
    """(action_dim,): of each hinge of the image, the hinge that it is the image of."""

    def actions(self, actions: NDArray[Any]) -> NDArray[Any]:
        """The actions (..., action_dim) of the image for actions of the body."""
        signs = self.signs[self.body.hinge_mask].astype(actions.dtype)
        return np.asarray(actions[..., self.hinge_sources] * signs)

    def state(
        self, qpos: NDArray[np.float64], qvel: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The MuJoCo state of the image for one of the body; the target goes from y to -y."""
        w, *axis = qpos[3:7]
        hinges = [self.actions(part) for part in (qpos[7:], qvel[6:])]
        image = (qpos[:3] * POLAR, [w], np.multiply(axis, AXIAL), hinges[0])
        return np.concatenate(image), np.concatenate(
            (qvel[:3] * POLAR, qvel[3:6] * AXIAL, hinges[1])
        )


@lru_cache(maxsize=1024)
def mirror_of(body: Morphology) -> Mirror:
    """The mirror image of a body."""
    family = family_of(body)
    model = body if family is None else family.body
    if not {other_side(name) for name in body.limb_names} <= set(model.limb_names):
        model = body
    limbs, signs = zip(*(_image(limb, model) for limb in body.limbs), strict=True)
    order = _order(limbs, model.limb_names)
    plain = body.name.removesuffix(MIRRORED)
    name = plain + MIRRORED if plain == body.name else plain
    image = replace(body, name=name, limbs=tuple(limbs[i] for i in order))
    if alike(image, body):
        image = body
    index = np.zeros(body.hinge_mask.shape, np.intp)
    index[body.hinge_mask] = np.arange(body.action_dim)
    hinge_sources = index[order][body.hinge_mask[order]]
    return Mirror(image, np.array(order), np.array([signs[i] for i in order]), hinge_sources)


def alike(image: Morphology, body: Morphology) -> bool:
    """Whether it has the same limbs at the same positions, on the same hinges.

    Not all that physics knows: published left and right sides differ in some armatures.
    """

    def facts(limbs: Sequence[Limb]) -> list[float]:
        hinges = [hinge for limb in limbs for hinge in limb.hinges]
        positions = [(*limb.pos, *limb.anchor) for limb in limbs]
        return [x for row in positions for x in row] + [
            x for hinge in hinges for x in (*hinge.axis, *hinge.range_deg)
        ]

    same = image.limb_names == body.limb_names
    same &= np.array_equal(image.hinge_mask, body.hinge_mask)
    return same and np.allclose(facts(image.limbs), facts(body.limbs), atol=1e-6)


def other_side(name: str) -> str:
    """The name with left and right swapped; a limb in the middle keeps its name."""
    return "_".join(_SIDES.get(word, word) for word in name.split("_"))


def _image(limb: Limb, model: Morphology) -> tuple[Limb, tuple[float, ...]]:
    """A limb's image and the signs of its hinges."""
    name = other_side(limb.name)
    namesakes = {
        slot: hinge
        for one in model.limbs
        if one.name == name
        for slot, hinge in zip(one.hinge_slots, one.hinges, strict=True)
    }
    signs = [1.0] * len(HINGES)
    for slot, hinge in zip(limb.hinge_slots, limb.hinges, strict=True):
        if slot in namesakes:
            signs[slot] = _sign(hinge, namesakes[slot])
    image = replace(
        limb,
        name=name,
        parent=None if limb.parent is None else other_side(limb.parent),
        pos=_times(limb.pos, POLAR),
        anchor=_times(limb.anchor, POLAR),
        geoms=tuple(_reflected(geom) for geom in limb.geoms),
        hinges=tuple(
            _mirrored_hinge(hinge, signs[slot])
            for slot, hinge in zip(limb.hinge_slots, limb.hinges, strict=True)
        ),
    )
    return image, tuple(signs)


def _sign(hinge: Hinge, namesake: Hinge) -> float:
    """-1 if the namesake's axis is opposite to the image's, else 1."""
    return -1.0 if np.dot(_times(hinge.axis, AXIAL), namesake.axis) < -0.999 else 1.0


def _mirrored_hinge(hinge: Hinge, sign: float) -> Hinge:
    axis = _times(hinge.axis, (sign * AXIAL[0], sign * AXIAL[1], sign * AXIAL[2]))
    low, high = hinge.range_deg
    return replace(hinge, axis=axis, range_deg=(low, high) if sign > 0 else (-high, -low))


def _reflected(geom: Geom) -> Geom:
    w, *axis = geom.quat
    mirrored = _times((axis[0], axis[1], axis[2]), AXIAL)
    return replace(geom, pos=_times(geom.pos, POLAR), quat=(w, *mirrored))


def _order(limbs: Sequence[Limb], names: Sequence[str]) -> list[int]:
    """The limbs' indices in the order of the body tree, siblings as `names` lists them."""
    rank = {name: i for i, name in enumerate(names)}
    index = {limb.name: i for i, limb in enumerate(limbs)}
    order: list[int] = []
    waiting = [limbs[0].name]
    while waiting:
        name = waiting.pop()
        order.append(index[name])
        children = [limb.name for limb in limbs if limb.parent == name]
        children.sort(key=lambda one: rank.get(one, index[one]), reverse=True)
        waiting += children
    return order


def _times(vector: Vec3, factors: Vec3) -> Vec3:
    # Adding 0 turns -0.0 into 0.0.
    x, y, z = (a * b + 0.0 for a, b in zip(vector, factors, strict=True))
    return (x, y, z)
