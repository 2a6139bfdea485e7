"""Who drives the robots: a trained policy, in one batch for all of them, or chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sgrl.markup import one_line
from sgrl.morphology import FAMILIES, Morphology, body_names, get_body
from sgrl.training.acting import RandomPolicy

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy

Array = NDArray[np.float32]


class Driven(Protocol):
    """A body and what it observes at this moment."""

    @property
    def body(self) -> Morphology: ...

    @property
    def observation(self) -> Array:
        """(limbs * 41,)"""
        ...


class Driver(ABC):
    """Turns what several robots observe into what all of them do."""

    name: str
    """What it is called: the run or the policy."""
    details: str = ""
    """What it is, in a few words."""
    trained_on: tuple[Morphology, ...] = ()
    takes_any_body: bool = True
    """Whether it drives bodies that it was not trained on."""
    has_attention: bool = False

    @abstractmethod
    def act(self, robots: Sequence[Driven]) -> list[Array]:
        """Actions (motors,) of each."""

    def attention(self, robots: Sequence[Driven]) -> list[Array]:
        """How much each limb is listened to by the others, (limbs,) with a sum of 1, of each."""
        raise ValueError(f"{self.name} has no attention to show")

    def bodies(self) -> dict[str, Morphology]:
        """By name, what it was trained on and what else of the table it can drive, by family."""
        found = {body.name: body for body in self.trained_on}
        if self.takes_any_body:
            found |= {name: get_body(name) for name in body_names() if name not in found}
        families = list(dict.fromkeys(body.family for body in found.values()))
        ordered = sorted(
            found.values(), key=lambda one: (families.index(one.family), -one.num_limbs)
        )
        return {body.name: body for body in ordered}

    def best_bodies(self) -> tuple[Morphology, ...]:
        """What to open with: of each family that it was trained on, the body with most limbs."""
        families = dict.fromkeys(body.family for body in self.trained_on)
        largest = (
            max((b for b in self.trained_on if b.family == family), key=lambda b: b.num_limbs)
            for family in families
        )
        return tuple(largest) or (FAMILIES["cheetah"].body,)

    def check(self, bodies: Iterable[Morphology]) -> None:
        """Refuse bodies that it can't drive, and say which it can."""
        for body in bodies:
            if not self.takes_any_body and body not in self.trained_on:
                names = ", ".join(known.name for known in self.trained_on)
                raise ValueError(f"{self.name} can't drive {body.name}; it can drive {names}")


class RandomDriver(Driver):
    """Random actions, each held for a while so that something moves."""

    name = "random actions"

    def __init__(self, seed: int = 0, hold: float = 0.2) -> None:
        """`hold`: seconds."""
        self._policy = RandomPolicy(seed)
        self._hold = hold
        self._held: WeakKeyDictionary[Driven, tuple[int, Array]] = WeakKeyDictionary()

    def act(self, robots: Sequence[Driven]) -> list[Array]:
        """Uniform in [-1, 1]."""
        return [self._act(robot) for robot in robots]

    def _act(self, robot: Driven) -> Array:
        body = robot.body
        left, action = self._held.get(robot, (0, np.zeros(0, np.float32)))
        if not left or len(action) != body.action_dim:
            left = max(1, round(self._hold / body.dt))
            action = self._policy.act(robot.observation, body)
        self._held[robot] = left - 1, action
        return action


class PolicyDriver(Driver):
    """A trained policy; robots of different bodies make one batch."""

    def __init__(self, policy: TrainedPolicy) -> None:
        from sgrl.models.methods import get_method

        self.name = one_line(policy.run.resolve().name)
        self.details = f"{one_line(policy.method)}, {policy.checkpoint:,} steps"
        self.trained_on = policy.bodies
        self.policy = policy
        self.takes_any_body = not get_method(policy.method).one_body
        network: Any = policy.actor.network
        self._network = network
        self.has_attention = getattr(network, "has_attention", False)

    def act(self, robots: Sequence[Driven]) -> list[Array]:
        """The actor's own actions, without noise."""
        return self.policy.act_many(*_seen(robots))

    def attention(self, robots: Sequence[Driven]) -> list[Array]:
        """The mean over layers, heads and the limbs that attend."""
        import torch

        if not self.has_attention:
            return super().attention(robots)
        with torch.no_grad():
            batch = self.policy.batch_of(*_seen(robots))
            layers = self._network.attention(self.policy.normalized(batch))
            weights = torch.stack(layers).mean(dim=(0, 2)).cpu().numpy()
        return [
            own[:limbs, :limbs].mean(axis=0).astype(np.float32)
            for own, limbs in zip(weights, (r.body.num_limbs for r in robots), strict=True)
        ]


def _seen(robots: Sequence[Driven]) -> tuple[list[Array], list[Morphology]]:
    """Observations and bodies of robots."""
    return [robot.observation for robot in robots], [robot.body for robot in robots]


def load_driver(policy: str | Path) -> Driver:
    """The driver of a run, of one of its checkpoints (`RUN@STEPS`) or of a policy's name."""
    from sgrl.training.place import split_place
    from sgrl.training.policy import load_policy

    driver = PolicyDriver(load_policy(policy))
    if split_place(policy)[1] is not None:
        driver.name = one_line(Path(policy).name)
    return driver
