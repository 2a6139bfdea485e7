"""The table of families."""

from __future__ import annotations

from sgrl.morphology.body import Morphology
from sgrl.morphology.cheetah import CHEETAH
from sgrl.morphology.family import Color, Family
from sgrl.morphology.hopper import HOPPER
from sgrl.morphology.humanoid import HUMANOID
from sgrl.morphology.walker import WALKER

FAMILIES = {family.name: family for family in (HOPPER, WALKER, HUMANOID, CHEETAH)}
OTHER_COLOR: Color = (0.6, 0.6, 0.6, 1.0)
"""Color of a body that has no family in the table."""


def register_family(family: Family) -> None:
    """Add a family of your own to the table; its full body is then known by its name."""
    other = FAMILIES.get(family.name)
    if other is not None and other != family:
        raise ValueError(f"there is a family {family.name!r} already; give yours another name")
    FAMILIES[family.name] = family


def family_of(body: Morphology) -> Family | None:
    """The family of a body, or None if it has none in the table."""
    return FAMILIES.get(body.family)


def color_of(body: Morphology) -> Color:
    """The color of a body: its family's."""
    family = family_of(body)
    return OTHER_COLOR if family is None else family.color
