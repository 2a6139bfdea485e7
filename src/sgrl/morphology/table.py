"""The paper's 29 bodies and its collections: one table, the splits are tags in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from sgrl.morphology.body import MIRRORED, Morphology
from sgrl.morphology.families import FAMILIES
from sgrl.morphology.mirror import mirror_of, other_side
from sgrl.nearest import did_you_mean

Split = Literal["train", "zero_shot"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table."""

    name: str
    lacks: tuple[str, ...]
    """Limbs missing from the family's full body; what hangs on them is missing too."""
    split: Split = "train"

    @property
    def family(self) -> str:
        return self.name.split("_")[1]


TABLE = (
    # A hopper loses links from the middle of its leg and keeps its foot.
    Entry("3d_hopper_3_shin", ("shin", "lower_shin")),
    Entry("3d_hopper_4_lower_shin", ("lower_shin",)),
    Entry("3d_hopper_5_full", ()),
    Entry("3d_walker_2_right_leg_left_knee", ("right_thigh", "left_shin")),
    Entry("3d_walker_3_left_knee_right_knee", ("left_shin", "right_shin"), "zero_shot"),
    Entry("3d_walker_3_left_leg_right_foot", ("left_thigh", "right_foot")),
    Entry("3d_walker_4_right_knee_left_foot", ("right_shin", "left_foot")),
    Entry("3d_walker_5_foot", ("right_foot", "left_foot")),
    Entry("3d_walker_5_left_knee", ("left_shin",)),
    Entry("3d_walker_6_right_foot", ("right_foot",), "zero_shot"),
    Entry("3d_walker_7_full", ()),
    Entry("3d_humanoid_7_left_arm", ("left_upper_arm",)),
    Entry("3d_humanoid_7_left_leg", ("left_thigh",), "zero_shot"),
    Entry("3d_humanoid_7_lower_arms", ("right_lower_arm", "left_lower_arm")),
    Entry("3d_humanoid_7_right_arm", ("right_upper_arm",)),
    Entry("3d_humanoid_7_right_leg", ("right_thigh",)),
    Entry("3d_humanoid_8_left_knee", ("left_shin",)),
    Entry("3d_humanoid_8_right_knee", ("right_shin",), "zero_shot"),
    Entry("3d_humanoid_9_full", ()),
    Entry("3d_cheetah_10_tail_leftbleg", ("upper_tail", "left_bthigh")),
    Entry("3d_cheetah_11_leftbkneen_rightffoot", ("left_bshin", "right_ffoot"), "zero_shot"),
    Entry("3d_cheetah_11_leftfleg", ("left_fthigh",)),
    Entry("3d_cheetah_11_tail_rightfknee", ("upper_tail", "right_fshin")),
    Entry("3d_cheetah_12_rightbknee", ("right_bshin",)),
    Entry("3d_cheetah_12_tail_leftbfoot", ("upper_tail", "left_bfoot")),
    Entry("3d_cheetah_12_tail_leftffoot", ("upper_tail", "left_ffoot"), "zero_shot"),
    Entry("3d_cheetah_13_rightffoot", ("right_ffoot",)),
    Entry("3d_cheetah_13_tail", ("upper_tail",)),
    Entry("3d_cheetah_14_full", ()),
)
ENTRIES = {entry.name: entry for entry in TABLE}


@dataclass(frozen=True, slots=True)
class Collection:
    """A set of bodies that one policy trains on, and those held out from it."""

    name: str
    train: tuple[str, ...]
    zero_shot: tuple[str, ...]


def _collect(name: str, *families: str) -> Collection:
    def names(split: Split) -> tuple[str, ...]:
        return tuple(e.name for f in families for e in TABLE if (e.family, e.split) == (f, split))

    return Collection(name, names("train"), names("zero_shot"))


COLLECTIONS = {
    collection.name: collection
    for collection in (
        _collect("3d_hopper++", "hopper"),
        _collect("3d_walker++", "walker"),
        _collect("3d_humanoid++", "humanoid"),
        _collect("3d_cheetah++", "cheetah"),
        _collect("3d_whh++", "walker", "humanoid", "hopper"),
        _collect("3d_cwhh++", "cheetah", "walker", "humanoid", "hopper"),
    )
}


def body_names() -> tuple[str, ...]:
    """The 29 names, hoppers first."""
    return tuple(ENTRIES)


@cache
def get_body(name: str) -> Morphology:
    """A body by its name: one of the table, or with `_mirrored` after it the mirror image.

    `3d_walker_7_full-left_foot-right_shin` is a body of the table without these limbs and what
    hangs on them, as `cut` names it.
    """
    if "-" in name:
        return _cut(name)
    known = name.removesuffix(MIRRORED)
    if known not in ENTRIES:
        others = _full_bodies_outside()
        if known not in others:
            raise ValueError(_unknown("body", name, (*ENTRIES, *others)))
        return others[known] if known == name else mirror_of(others[known]).body
    entry = ENTRIES[known]
    if known != name:
        if twin := _twin(entry):
            raise ValueError(f"the mirror image of {known} is {twin.name}: name that one")
        return mirror_of(get_body(known)).body
    full = FAMILIES[entry.family].body
    if not entry.lacks:
        return full
    if entry.family == "hopper":
        # Both short hoppers start at the height of the longer one of them.
        return full.splice(*entry.lacks, name=name).starting_at(1.25)
    return full.cut(*entry.lacks, name=name)


def get_collection(name: str) -> Collection:
    """A collection of the paper by its name, such as `3d_walker++`."""
    if name not in COLLECTIONS:
        raise ValueError(_unknown("collection", name, COLLECTIONS))
    return COLLECTIONS[name]


def resolve_bodies(names: Iterable[str | Morphology | Collection]) -> tuple[Morphology, ...]:
    """Bodies from a mix of names, collections (their training bodies) and bodies.

    A collection's name with `_mirrored` after it stands for the mirror images of its training
    bodies, but for images that are themselves in the table: a body may be its own, and those of
    some humanoids are held-out bodies.
    """
    bodies: list[Morphology] = []
    for name in names:
        if isinstance(name, Morphology):
            bodies.append(name)
        elif isinstance(name, Collection) or name in COLLECTIONS:
            collection = name if isinstance(name, Collection) else COLLECTIONS[name]
            bodies.extend(get_body(member) for member in collection.train)
        elif (shown := name.removesuffix(MIRRORED)) in COLLECTIONS:
            sided = [n for n in COLLECTIONS[shown].train if _twin(ENTRIES[n]) is None]
            if not sided:
                raise ValueError(f"all mirror images of {shown} have names of their own: use those")
            bodies.extend(get_body(member + MIRRORED) for member in sided)
        elif shown in ENTRIES or shown in _full_bodies_outside() or "-" in name:
            bodies.append(get_body(name))
        else:
            raise ValueError(_unknown("body or collection", name, (*ENTRIES, *COLLECTIONS)))
    return tuple(bodies)


def _cut(name: str) -> Morphology:
    """A body by a name that says what was cut off; not one that the table has a name for."""
    base, *limbs = name.split("-")
    body = get_body(base).cut(*limbs)
    for entry in TABLE:
        if replace(get_body(entry.name), name=name) == body:
            raise ValueError(f"{name} is {entry.name}: name that one")
    return body


def _full_bodies_outside() -> dict[str, Morphology]:
    """Full bodies of families that were registered and are not in the table, by name."""
    bodies = (family.body for family in FAMILIES.values())
    return {body.name: body for body in bodies if body.name not in ENTRIES}


def _twin(entry: Entry) -> Entry | None:
    """The mirror image of a body if it is in the table: itself, another one or None."""
    lacks = {other_side(limb) for limb in entry.lacks}
    family = (other for other in TABLE if other.family == entry.family)
    return next((other for other in family if set(other.lacks) == lacks), None)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    return f"unknown {what} {name!r}; {did_you_mean(name, known)}"
