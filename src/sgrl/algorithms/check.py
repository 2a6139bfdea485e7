"""An algorithm from outside the package is run once, tiny, before it is used."""

from __future__ import annotations

from sgrl.algorithms.learner import Learner


def check_algorithm(found: object, name: str) -> type[Learner]:
    """The class, if it is one of a learner that works; ValueError says what is wrong with it."""
    if not isinstance(found, type) or not issubclass(found, Learner):
        raise ValueError(f"{name} is not a subclass of sgrl.algorithms.learner.Learner")
    return found
