"""Which policy and which bodies are shown, for every command that shows some."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sgrl.envs.variant import Variant
from sgrl.morphology import Morphology, resolve_bodies
from sgrl.viewer.driver import Driver, PolicyDriver, RandomDriver, load_driver
from sgrl.viewer.simulation import Simulation

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy

BEST = "set-generalist"
"""The policy that is shown where none is named: one for all families."""
RANDOM = "random"
"""What to name for random actions."""


def make_simulation(
    policy: str | Path | TrainedPolicy | None,
    bodies: Sequence[str | Morphology] = (),
    variant: Variant = "v2",
    seed: int = 0,
    *,
    roams: bool = True,
) -> Simulation:
    """The robots to show; without a policy the best that ships drives, without bodies its best."""
    (simulation,) = make_simulations([policy], bodies, variant, seed, roams=roams)
    return simulation


def make_simulations(
    policies: Sequence[str | Path | TrainedPolicy | None],
    bodies: Sequence[str | Morphology] = (),
    variant: Variant = "v2",
    seed: int = 0,
    *,
    roams: bool = True,
) -> list[Simulation]:
    """The same robots, starts and first targets under each policy."""
    drivers = [choose_driver(policy, seed) for policy in policies or [None]]
    # Random actions were trained on nothing: the others say what is shown.
    first = next((driver for driver in drivers if driver.trained_on), drivers[0])
    chosen = choose_bodies(first, bodies)
    for driver in drivers:
        driver.check(chosen)
    return [
        Simulation(driver, chosen, variant=variant, seed=seed, roams=roams) for driver in drivers
    ]


def choose_driver(policy: str | Path | TrainedPolicy | None, seed: int) -> Driver:
    """The driver of a policy, a run or a name; `random` is the name of random actions."""
    if policy == RANDOM:
        return RandomDriver(seed)
    from sgrl.training.policy import act_on_one_thread

    act_on_one_thread()
    if policy is None or isinstance(policy, str | Path):
        return load_driver(BEST if policy is None else policy)
    return PolicyDriver(policy)


def choose_bodies(driver: Driver, names: Sequence[str | Morphology]) -> tuple[Morphology, ...]:
    """The bodies to begin with, checked that the driver can drive them."""
    known = driver.bodies()
    bodies = resolve_bodies(
        known.get(name, name) if isinstance(name, str) else name for name in names
    )
    driver.check(bodies)
    return bodies or driver.best_bodies()


def need_viser() -> None:
    """Refuse, with what to install, where the viewer's library is missing."""
    if importlib.util.find_spec("viser") is None:
        raise RuntimeError(
            "this needs the viewer; install it with: pip install 'sgrl[viewer]', or in a checkout "
            "pip install '.[viewer]'"
        )
