"""Every method by its name: one table, and the actors and critics made from it.

`set`, its ablations `set-g` `set-gd` `set-z` `set-in_invar` `set-out_invar`, `swat`,
`amorpheus`, `smp` and `monolithic`; the last four also in a frame of their own, `+hn`
(heading) and `+tn` (target). A method from outside the package is a row like these: it is
registered under a name, or named `module:Class` and, if that module is trusted, imported when it
is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypedDict, Unpack

from torch import Tensor, nn

from sgrl.models import monolithic, swat
from sgrl.models import set as set_
from sgrl.models.canonical import Canonicalized, Frame
from sgrl.models.method_check import check_method
from sgrl.models.mirrored import MirrorAveraged
from sgrl.models.monolithic import Monolithic
from sgrl.models.network import (
    ACTOR,
    CRITIC,
    GAUSSIAN_ACTOR,
    VALUE,
    Actor,
    Critic,
    GaussianActor,
    GaussianPolicy,
    Role,
    TwinCritic,
    Value,
)
from sgrl.models.set import SET
from sgrl.models.smp import SMP, SMPConfig
from sgrl.models.swat import SWAT
from sgrl.morphology import Morphology, mirror_of
from sgrl.nearest import did_you_mean
from sgrl.plugins import import_named
from sgrl.symmetry import Symmetry

Config = Any
"""Sizes and options of a network: a frozen dataclass that belongs to its class."""

PRESETS = ("fast", "many", "paper")
"""`fast`, the default, is sized for a CPU; `many`, for many bodies, is wider and limbs have their
positions in the full body; `paper` has the paper's sizes."""
FRAMES: dict[str, Frame] = {"hn": "heading", "tn": "target"}
"""What may follow a method's name after a plus."""
MIRROR = "+mirror"
"""What any method's name may end with: its networks are then symmetric in the physical mirror."""
NONE: frozenset[Symmetry] = frozenset({"translation"})
"""Symmetries of any network: observations are relative to the torso."""
ROTATIONS: frozenset[Symmetry] = NONE | {"rotation"}
GROUP: frozenset[Symmetry] = ROTATIONS | {"reflection"}
"""Symmetries under the paper's group."""


@dataclass(frozen=True)
class Method:
    """A row of the table: a class of networks and how one is made.

    That is by `network(role)`, with the config before the role if there is one, and the
    body after it if the network is made for one body.
    """

    network: Callable[..., nn.Module]
    """A class of networks: a `LimbBatch`, and the action if its role reads it, to (limbs,
    role.outputs)."""
    fast: Config | None = None
    """Its config in the preset `fast`."""
    paper: Config | None = None
    """Its config in the preset `paper`, or that of `fast`."""
    many: Config | None = None
    """Its config in the preset `many`, or that of `fast`."""
    frame: Frame | None = None
    """The frame into which its input is rotated."""
    one_body: bool = False
    """Whether a network is made for one body and can't take others."""
    symmetries: frozenset[Symmetry] = NONE
    """What it declares to leave its actions and values alone; `sgrl certify` measures it."""
    title: str = ""
    """Its name in tables and figures; that of the row if there is none."""
    color: str = ""
    """Its color in figures, #rrggbb; any if there is none."""
    mirrored: bool = False
    """Whether it is the mean of the network and of its mirror image."""

    def config(self, preset: str) -> Config | None:
        """Its settings in a preset."""
        if preset not in PRESETS:
            raise ValueError(f"unknown preset {preset!r}; there are {', '.join(PRESETS)}")
        found = {"many": self.many, "paper": self.paper}.get(preset)
        return self.fast if found is None else found

    def build(
        self,
        role: Role,
        preset: str = "fast",
        *,
        bodies: Sequence[Morphology] | None = None,
        config: Config | None = None,
    ) -> nn.Module:
        """A network; `config`, or its fields as JSON has them, takes the place of its preset.

        `bodies` are those it will act on. Only one that is made for one body needs them.
        """
        arguments: list[Any] = [role]
        name = getattr(self.network, "__name__", str(self.network))
        default = self.config(preset)
        if isinstance(config, Mapping) and default is not None:
            config = config_from(default, config)
        if config is not None and type(config) is not type(default):
            wanted = "no config" if default is None else f"a {type(default).__name__}"
            raise ValueError(f"{name} takes {wanted}, not a {type(config).__name__}")
        if default is not None:
            arguments.insert(0, default if config is None else config)
        if self.one_body:
            if bodies is None or len(bodies) != 1:
                got = ", ".join(body.name for body in bodies or ()) or "none"
                raise ValueError(f"{name} is made for exactly one body; name it (got {got})")
            arguments.append(bodies[0])
        if self.mirrored and self.one_body and bodies is not None:
            self._check_image(bodies[0])
        network = self.network(*arguments)
        if self.frame is not None:
            network = Canonicalized(network, self.frame)
        return MirrorAveraged(network, role) if self.mirrored else network

    def actor_of_cut_body(
        self,
        weights: Mapping[str, Tensor],
        config: Config | None,
        source: Morphology,
        body: Morphology,
    ) -> dict[str, Tensor]:
        """Weights of an actor that was made for one body, `source`, for another of which it has all
        limbs; ValueError if the method can't tell them."""
        choose = getattr(self.network, "actor_of_cut_body", None)
        if choose is None:
            raise ValueError(f"they are made for {source.name} alone")
        default = self.config("fast")
        if isinstance(config, Mapping) and default is not None:
            config = config_from(default, config)
        chosen: dict[str, Tensor] = choose(weights, config, source, body)
        return chosen

    @staticmethod
    def _check_image(body: Morphology) -> None:
        if mirror_of(body).body != body:
            raise ValueError(
                f"a network of one body can't have {MIRROR} on {body.name}, whose mirror image is "
                "another body; take set, swat, amorpheus or smp"
            )


OLD_FIELDS = {"whole": "canonical_positions"}
"""Fields of configs under the names that older runs have for them."""


def config_from(preset: Config, fields: Mapping[str, Any]) -> Config:
    """A config of a preset's class from its fields, as JSON has them: it knows no tuples."""
    values = {
        OLD_FIELDS.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
    }
    try:
        return type(preset)(**values)
    except TypeError:
        known = ", ".join(field.name for field in dataclasses.fields(preset))
        raise ValueError(
            f"a {type(preset).__name__} has {known}, not {', '.join(values) or 'nothing'}"
        ) from None


def _framed(name: str, method: Method) -> dict[str, Method]:
    """A method in each of the frames, in which it has the symmetry of rotations and no other."""
    title = method.title or name
    return {
        f"{name}+{short}": replace(
            method,
            frame=frame,
            symmetries=ROTATIONS,
            title=f"{title}+{short.upper()}",
            color=FRAMED_COLORS.get(f"{name}+{short}", ""),
        )
        for short, frame in FRAMES.items()
    }


FRAMED_COLORS = {"swat+hn": "#5dade2", "monolithic+hn": "#d4ac0d"}


def _sized(network: type[nn.Module], presets: Mapping[str, Config], **how: Any) -> Method:
    return Method(network, presets["fast"], presets["paper"], presets["many"], **how)


def _ablated(ablation: str, **how: Any) -> Method:
    presets = {name: set_.ablate(config, ablation) for name, config in set_.PRESETS.items()}
    return _sized(SET, presets, **how)


def _table() -> dict[str, Method]:
    unstructured = {name: replace(size, structure=False) for name, size in swat.PRESETS.items()}
    sets = {
        "set": _sized(SET, set_.PRESETS, symmetries=GROUP, title="SET", color="#c0392b"),
        # Gravity is but three constant numbers to it: it can't tell up from down.
        "set-g": _ablated("g", symmetries=GROUP | {"tilt"}, title="SET\\g", color="#884ea0"),
        # It reads the target direction as plain numbers, and in a rotated world those differ.
        "set-gd": _ablated("gd", title="SET\\gd", color="#34495e"),
        "set-z": _ablated("z", symmetries=GROUP, title="SET\\z", color="#e67e22"),
        "set-in_invar": _ablated("in_invar", title="SET_in_invar", color="#16a085"),
        "set-out_invar": _ablated(
            "out_invar", symmetries=GROUP, title="SET_out_invar", color="#d98880"
        ),
    }
    sizes = monolithic.PRESETS
    plain = {
        "swat": _sized(SWAT, swat.PRESETS, title="SWAT", color="#2471a3"),
        "amorpheus": _sized(SWAT, unstructured, title="Amorpheus", color="#99a3a4"),
        "smp": Method(SMP, SMPConfig(), title="SMP", color="#1e8449"),
        "monolithic": Method(
            Monolithic,
            sizes["fast"],
            sizes["paper"],
            one_body=True,
            title="Monolithic",
            color="#7d6608",
        ),
    }
    table = sets | plain
    for name, method in plain.items():
        table |= _framed(name, method)
    return table


METHODS: dict[str, Method] = _table()
"""Ours, and those that were registered."""
OURS = frozenset(METHODS) | {f"{name}{MIRROR}" for name in METHODS}
"""Names of those that come with the package."""


def register_method(name: str, network: type[nn.Module] | Method) -> None:
    """Put a method of your own into the table, also in the frames `+hn` and `+tn`.

    `network` is a torch module made from a `Role` (docs/tutorials/own_network.md), or a `Method` if
    it needs a config or is made for one body. It is tried out first: ValueError says what
    is wrong with it. A run trained under this name can be loaded where it is registered.
    """
    if name in OURS or not name or set(name) & set(":+/\\"):
        why = "it is one of sgrl's own" if name in OURS else "it must have none of : + / \\"
        raise ValueError(f"a method can't be registered as {name!r}: {why}")
    method = _as_method(network, name)
    METHODS.update({name: method, **_framed(name, method)})


def get_method(name: str) -> Method:
    """A method of the table, or the one that `module:Class` names; ValueError if there is none.

    A method in a module that is trusted (see `plugins`) is imported, which runs that module's code.
    """
    if name in METHODS:
        return METHODS[name]
    if name.endswith(MIRROR) and name != MIRROR:
        method = get_method(name.removesuffix(MIRROR))
        title = f"{method.title}{MIRROR}" if method.title else ""
        symmetries: frozenset[Symmetry] = method.symmetries | {"mirror"}
        return replace(method, mirrored=True, symmetries=symmetries, title=title, color="")
    bare, _, short = name.partition("+")
    if ":" in bare and (not short or short in FRAMES):
        method = _import_method(bare)
        return _framed(bare, method)[name] if short else method
    raise ValueError(
        f"unknown method {name!r}; {did_you_mean(name, METHODS)}; one of your own is named "
        "module:Class, or registered with sgrl.register_method before it is asked for"
    )


def method_title(name: str) -> str:
    """The name of a method in tables and figures."""
    return METHODS[name].title or name if name in METHODS else name


def method_color(name: str) -> str:
    """The color of a method in figures; empty if it has none of its own."""
    return METHODS[name].color if name in METHODS else ""


@lru_cache(maxsize=64)
def _import_method(spec: str) -> Method:
    return _as_method(import_named(spec, "method"), spec)


def _as_method(found: object, name: str) -> Method:
    """A class or a row as a row that has been tried out."""
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = Method(found)
    if not isinstance(found, Method):
        raise ValueError(
            f"{name} is neither a torch.nn.Module class nor a sgrl.models.methods.Method, but "
            f"{found!r}; see docs/tutorials/own_network.md for what a method looks like"
        )
    check_method(found, name)
    return found


class _How(TypedDict, total=False):
    bodies: Sequence[Morphology] | None
    """Those it will act on; only a method that is made for one body needs them."""
    config: Config | None
    """Takes the place of the preset."""


def make_actor(method: str, preset: str = "fast", **how: Unpack[_How]) -> Actor:
    """`actor(batch)`: actions (limbs, 3) in [-1, 1]."""
    return Actor(get_method(method).build(ACTOR, preset, **how))


def make_gaussian_actor(method: str, preset: str = "fast", **how: Unpack[_How]) -> GaussianActor:
    """`actor(batch)`: mean before tanh and log-std, (limbs, 3) each."""
    return GaussianActor(get_method(method).build(GAUSSIAN_ACTOR, preset, **how))


def make_gaussian_policy(method: str, preset: str = "fast", **how: Unpack[_How]) -> GaussianPolicy:
    """`policy(batch)`: mean and log of the standard deviation, (limbs, 3) each."""
    return GaussianPolicy(get_method(method).build(ACTOR, preset, **how))


def make_critic(method: str, preset: str = "fast", **how: Unpack[_How]) -> Critic:
    """`critic(batch, action)`: Q per limb, (limbs,)."""
    return Critic(get_method(method).build(CRITIC, preset, **how))


def make_twin_critic(method: str, preset: str = "fast", **how: Unpack[_How]) -> TwinCritic:
    """`critics(batch, action)`: two Q per limb, (limbs,) each."""
    return TwinCritic(make_critic(method, preset, **how), make_critic(method, preset, **how))


def make_value(method: str, preset: str = "fast", **how: Unpack[_How]) -> Value:
    """`value(batch)`: V per limb, (limbs,)."""
    return Value(get_method(method).build(VALUE, preset, **how))


def parameter_counts(
    method: str, preset: str = "fast", *, bodies: Sequence[Morphology] | None = None
) -> dict[str, int]:
    """Learned numbers of a method's `actor` and of one `critic`."""
    made = {
        "actor": make_actor(method, preset, bodies=bodies),
        "critic": make_critic(method, preset, bodies=bodies),
    }
    return {name: sum(p.numel() for p in module.parameters()) for name, module in made.items()}
