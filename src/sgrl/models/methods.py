"""Every method by its name: one table, and the actors and critics made from it.

`set`, its ablations `set-g` `set-gd` `set-z` `set-in_invar` `set-out_invar`, `swat`,
`amorpheus`, `smp` and `monolithic`; the last four also in a frame of their own, `+hn`
(heading) and `+tn` (target).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from sgrl.models import set as set_
from sgrl.models import swat
from sgrl.models.frames import Framed
from sgrl.models.heads import Actor, Critic, Policy, TwinCritic, Value
from sgrl.models.monolithic import Monolithic, MonolithicConfig
from sgrl.models.network import ACTOR, CRITIC, VALUE, LimbNetwork, Role
from sgrl.models.set import Set, SetConfig
from sgrl.models.smp import Smp, SmpConfig
from sgrl.models.swat import Swat, SwatConfig
from sgrl.morphology import Morphology

Config = SetConfig | SwatConfig | SmpConfig | MonolithicConfig

PRESETS = ("fast", "paper")
"""`fast`, the default, is sized for a CPU; `paper` has the paper's sizes."""


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    fast: Config
    paper: Config
    frame: Literal["heading", "target"] | None = None
    """The frame into which its input is turned."""

    def config(self, preset: str) -> Config:
        """Its settings in a preset."""
        if preset not in PRESETS:
            raise ValueError(f"unknown preset {preset!r}; there are {' and '.join(PRESETS)}")
        return self.fast if preset == "fast" else self.paper


def _bare() -> dict[str, Method]:
    by_preset = {name: (set_.PRESETS[name], swat.PRESETS[name]) for name in PRESETS}
    (fast_set, fast_swat), (paper_set, paper_swat) = (by_preset[name] for name in PRESETS)
    return {
        "set": Method(fast_set, paper_set),
        **{
            f"set-{name}": Method(set_.ablate(fast_set, name), set_.ablate(paper_set, name))
            for name in set_.ABLATIONS
        },
        "swat": Method(fast_swat, paper_swat),
        "amorpheus": Method(
            replace(fast_swat, structure=False), replace(paper_swat, structure=False)
        ),
        "smp": Method(SmpConfig(), SmpConfig()),
        "monolithic": Method(MonolithicConfig(), MonolithicConfig()),
    }


def _framed(bare: dict[str, Method]) -> dict[str, Method]:
    framed = {}
    for name, method in bare.items():
        if not isinstance(method.fast, SetConfig):
            framed[f"{name}+hn"] = replace(method, frame="heading")
            framed[f"{name}+tn"] = replace(method, frame="target")
    return framed


METHODS: dict[str, Method] = {**_bare(), **_framed(_bare())}


def get_method(name: str) -> Method:
    """A method of the table; ValueError with the nearest names if there is none."""
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(METHODS)}"
        raise ValueError(f"unknown method {name!r}; {hint}")
    return METHODS[name]


def make_network(
    method: str,
    preset: str,
    role: Role,
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> nn.Module:
    """A method's bare network; `config` takes the place of its preset.

    `bodies` are those it will act on. Only Monolithic, which is made for one, needs them.
    """
    entry = get_method(method)
    network = _build(config or entry.config(preset), role, method, bodies)
    return network if entry.frame is None else Framed(network, entry.frame)


def _build(
    config: Config, role: Role, method: str, bodies: Sequence[Morphology] | None
) -> LimbNetwork:
    if isinstance(config, SetConfig):
        return Set(config, role)
    if isinstance(config, SwatConfig):
        return Swat(config, role)
    if isinstance(config, SmpConfig):
        return Smp(config, role)
    if bodies is None or len(bodies) != 1:
        got = "none" if not bodies else ", ".join(body.name for body in bodies)
        raise ValueError(f"{method} is made for exactly one body; name it in bodies (got {got})")
    return Monolithic(config, role, bodies[0])


def make_actor(
    method: str,
    preset: str = "fast",
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> Actor:
    """`actor(batch)`: actions (limbs, 3) in [-1, 1]."""
    return Actor(make_network(method, preset, ACTOR, bodies=bodies, config=config))


def make_policy(
    method: str,
    preset: str = "fast",
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> Policy:
    """`policy(batch)`: mean and log of the spread, (limbs, 3) each."""
    return Policy(make_network(method, preset, ACTOR, bodies=bodies, config=config))


def make_critic(
    method: str,
    preset: str = "fast",
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> Critic:
    """`critic(batch, action)`: Q per limb, (limbs,)."""
    return Critic(make_network(method, preset, CRITIC, bodies=bodies, config=config))


def make_twin_critic(
    method: str,
    preset: str = "fast",
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> TwinCritic:
    """`critics(batch, action)`: two Q per limb, (limbs,) each."""
    first, second = (make_critic(method, preset, bodies=bodies, config=config) for _ in range(2))
    return TwinCritic(first, second)


def make_value(
    method: str,
    preset: str = "fast",
    *,
    bodies: Sequence[Morphology] | None = None,
    config: Config | None = None,
) -> Value:
    """`value(batch)`: V per limb, (limbs,)."""
    return Value(make_network(method, preset, VALUE, bodies=bodies, config=config))


def parameter_counts(
    method: str, preset: str = "fast", *, bodies: Sequence[Morphology] | None = None
) -> dict[str, int]:
    """Learned numbers of a method's `actor` and of one `critic`."""
    made = {
        "actor": make_actor(method, preset, bodies=bodies),
        "critic": make_critic(method, preset, bodies=bodies),
    }
    return {name: sum(p.numel() for p in module.parameters()) for name, module in made.items()}
