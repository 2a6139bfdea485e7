"""Bodies: what they are made of, the paper's 29, and how to make others."""

from sgrl.morphology.body import MIRRORED, Geom, Hinge, Limb, Morphology, Physics, Surface
from sgrl.morphology.compile import compile_model, to_spec
from sgrl.morphology.families import FAMILIES, family_of, register_family
from sgrl.morphology.family import Family
from sgrl.morphology.mirror import Mirror, mirror_of
from sgrl.morphology.table import (
    COLLECTIONS,
    TABLE,
    Collection,
    Entry,
    body_names,
    get_body,
    get_collection,
    resolve_bodies,
)

__all__ = [
    "COLLECTIONS",
    "FAMILIES",
    "MIRRORED",
    "TABLE",
    "Collection",
    "Entry",
    "Family",
    "Geom",
    "Hinge",
    "Limb",
    "Mirror",
    "Morphology",
    "Physics",
    "Surface",
    "body_names",
    "compile_model",
    "family_of",
    "get_body",
    "get_collection",
    "mirror_of",
    "register_family",
    "resolve_bodies",
    "to_spec",
]
