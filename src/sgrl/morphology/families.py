"""The four families: of each the full body, from which the others are made."""

from __future__ import annotations

from sgrl.morphology.cheetah import CHEETAH
from sgrl.morphology.hopper import HOPPER
from sgrl.morphology.humanoid import HUMANOID
from sgrl.morphology.walker import WALKER

FULL_BODIES = {body.family: body for body in (HOPPER, WALKER, HUMANOID, CHEETAH)}
