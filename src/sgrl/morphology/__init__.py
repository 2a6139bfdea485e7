"""Bodies: what they are made of, the paper's 29, and how to make others."""

from sgrl.morphology.body import Geom, Hinge, Limb, Morphology, Physics, Surface
from sgrl.morphology.compile import compile_model, to_spec
from sgrl.morphology.families import FULL_BODIES
from sgrl.morphology.mirror import MIRRORED, Mirror, mirror_of
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
    "FULL_BODIES",
    "MIRRORED",
    "TABLE",
    "Collection",
    "Entry",
    "Geom",
    "Hinge",
    "Limb",
    "Mirror",
    "Morphology",
    "Physics",
    "Surface",
    "body_names",
    "compile_model",
    "get_body",
    "get_collection",
    "mirror_of",
    "resolve_bodies",
    "to_spec",
]
