"""What the bodies of a family have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sgrl.morphology.body import Morphology
from sgrl.morphology.task import Task

Color = tuple[float, float, float, float]
"""Red, green, blue and opacity, from 0 to 1."""


@dataclass(frozen=True)
class Family:
    """A full body, which others are cut from, and what holds for all of them."""

    name: str
    """What `Morphology.family` says."""
    body: Morphology
    """The full body."""
    task: Callable[[Morphology], Task]
    """The task that fits a body of the family, with far targets (v1)."""
    color: Color
    horizon: float
    """Seconds that the discount of SAC looks ahead."""
    score: float
    """A return of a whole episode that counts as good for the full body."""
    return_steps: int = 3
    """Rewards that a target of SAC adds up before it bootstraps."""

    def __post_init__(self) -> None:
        if self.body.family != self.name:
            raise ValueError(
                f"the full body {self.body.name} is of the family {self.body.family!r}, "
                f"not {self.name!r}"
            )
        for field in ("horizon", "return_steps", "score"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{self.name}: {field} must be above 0")
