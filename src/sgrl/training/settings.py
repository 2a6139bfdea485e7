"""What a training is told: one typed field a setting, recorded in the run's folder."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro

from sgrl.algorithms.ppo_config import PpoConfig
from sgrl.algorithms.td3 import Td3Config
from sgrl.cores import count_cores
from sgrl.envs.task import Variant
from sgrl.models.methods import METHODS, OURS, Config, config_from, get_method
from sgrl.morphology import Morphology, get_body, mirror_of, resolve_bodies

DEFAULT_STEPS = {"td3": 1_000_000, "ppo": 5_000_000}
DEFAULT_BUFFER = 10_000_000
TD3_COPIES = 4
"""Of each body, by default."""
PPO_COPIES = 64
"""Of all bodies together, by default, but no fewer than `TD3_COPIES` of each."""
TD3_ONLY = ("warm_up", "updates_per_step", "batches", "buffer")
"""Settings that PPO has no use for."""

CHANGEABLE = ("steps", "minutes", "wandb", "cluster", "threads", "runs", "resume")
"""Settings that may differ when a run is resumed."""


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a training. A step is one transition of one body."""

    bodies: tuple[str, ...] = ()
    """Bodies to train on: names, or collections for their training bodies; their mirror images with
    _mirrored after the name."""
    method: str = "set"
    """The network's method, such as set, swat+hn or monolithic, or your own as module:Class."""
    preset: str = "fast"
    """Size of the networks: fast, many (for many bodies) or paper."""
    variant: Variant = "v1"
    """The task: far targets (v1), near ones again and again (v2), or episodes of both (mixed)."""
    yaw: float | None = None
    """Start every episode turned by so many radians; uniform over the circle if not given."""
    algorithm: Literal["td3", "ppo"] = "td3"
    """What learns: the paper's TD3, or PPO, which is many times faster without a GPU."""
    steps: int | None = None
    """Transitions to collect in all: 1,000,000 with TD3, 5,000,000 with PPO, or when resuming
    the run's own number."""
    minutes: float | None = None
    """Stop after so many minutes of training, if the steps are not done before; when resuming
    those of earlier processes count."""
    seed: int = 0
    """Of everything random."""
    copies: int | None = None
    """Copies of each body that are stepped side by side: 4 with TD3; with PPO 64 shared by the
    bodies, but at least 4 of each."""
    device: str = "cpu"
    """Where the networks live, as PyTorch names it."""
    threads: int = 0
    """Threads of the physics and of PyTorch; 0 for all cores."""
    rollout_workers: int = 0
    """Workers on Ray that make PPO's rollouts, each on one core with its share of the copies; 0 to
    make them in this process."""
    cluster: str | None = None
    """Ray cluster for the rollout workers, HOST:PORT of its head; without one, Ray is started on
    this machine."""
    warm_up: int = 10_000
    """Steps with random actions, before the first update of TD3."""
    updates_per_step: float = 1.0
    """Updates of TD3 for each collected transition."""
    batches: Literal["mixed", "in_turn"] = "mixed"
    """Mini-batches of TD3 that mix all bodies, or of one body after the other."""
    buffer: int | None = None
    """Transitions that TD3 remembers, of all bodies together: 10,000,000, or all if there are
    fewer."""
    log_every: int = 2_000
    """Steps between rows of the metrics."""
    checkpoint_every: int = 25_000
    """Steps between checkpoints."""
    keep: int = 3
    """Checkpoints to keep, the newest."""
    deterministic: bool = False
    """Only operations that PyTorch calls deterministic; on a CPU they are without it."""
    runs: Path = Path("runs")
    """Folder of the runs."""
    name: str | None = None
    """The run's folder; a number is added if it exists. By default method, bodies and seed."""
    resume: Path | None = None
    """Go on with this run from its last checkpoint; only steps, minutes and wandb may change."""
    init_from: Path | None = None
    """Start from the weights of this run; bodies and variant may differ."""
    wandb: bool = False
    """Also report to Weights & Biases (install sgrl[tracking])."""
    td3: Td3Config = field(default_factory=Td3Config)
    """Settings of TD3."""
    ppo: PpoConfig = field(default_factory=PpoConfig)
    """Settings of PPO."""
    network: tyro.conf.Suppress[Config | None] = None
    """Sizes of the networks instead of the preset's; from Python only. A run records those that
    it has, except of a method of your own, whose presets are its module's affair."""

    def morphologies(self) -> tuple[Morphology, ...]:
        """The bodies as values."""
        return resolve_bodies(self.bodies)

    def preset_sizes(self) -> Config | None:
        """What the preset stands for now; None for a method from outside the package.

        There, reading the sizes back would need the module, which may not be at hand.
        """
        return get_method(self.method).config(self.preset) if self.method in OURS else None

    def environment_seed(self) -> int:
        """Seed of the first copy, far from those of other runs; below 2**61, so that no copy has
        one of an evaluation's, which begin at 2**62."""
        drawn = np.random.SeedSequence([self.seed, 1]).generate_state(1, np.uint64)[0]
        return int(drawn >> np.uint64(3))


def resolve_settings(settings: TrainSettings) -> TrainSettings:
    """Settings with nothing left open, checked: what `settings.json` records.

    Collections become bodies, 0 threads the number of cores, a preset its sizes, no name one
    made of method, bodies and seed.
    """
    if not settings.bodies:
        raise ValueError("name the bodies to train on: --bodies 3d_hopper_5_full, or a collection")
    given: Any = settings.bodies  # whatever a caller from Python gave
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise ValueError(
            "bodies are a tuple of names, such as ('3d_hopper_5_full',) or, without some limbs, "
            f"('3d_walker_7_full-left_foot',), not {given!r:.60}"
        )
    bodies = settings.morphologies()
    names = tuple(body.name for body in bodies)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"bodies are named twice: {', '.join(twice)}")
    method = get_method(settings.method)
    method.config(settings.preset)
    if method.one_body and len(names) > 1:
        raise ValueError(
            f"{settings.method} is made for exactly one body, not for these {len(names)}"
        )
    if settings.ppo.mirror and method.one_body and mirror_of(bodies[0]).body != bodies[0]:
        raise ValueError(
            f"{settings.method} is made for one body, and {names[0]} is another one in the mirror: "
            "leave --ppo.mirror out, or take set, swat, amorpheus or smp"
        )
    _check_numbers(settings)
    _check_packages(settings)
    check_device(settings.device)
    label = "_".join(part.replace("+", "p") for part in settings.bodies)
    if len(label) > 60:
        label = f"{len(names)}_bodies"
    short = settings.method.replace("+", "_").replace(":", ".")
    name = settings.name or f"{short}-{label}-seed{settings.seed}"
    if name.startswith(".") or Path(name).name != name:
        raise ValueError(f"a run's name is the name of a folder, not {name!r}")
    steps = DEFAULT_STEPS[settings.algorithm] if settings.steps is None else settings.steps
    copies, buffer = settings.copies, settings.buffer
    if copies is None:
        copies = TD3_COPIES
        if settings.algorithm == "ppo":
            copies = max(copies, PPO_COPIES // len(names))
    if buffer is None and settings.algorithm == "td3":
        # As many as fit beside each other when the last step overshoots.
        buffer = min(DEFAULT_BUFFER, steps + copies * len(names))
    if settings.rollout_workers > copies:
        raise ValueError(
            f"{settings.rollout_workers} rollout workers need as many copies of each body, not "
            f"{copies}"
        )
    return replace(
        settings,
        bodies=names,
        steps=steps,
        copies=copies,
        buffer=buffer,
        threads=settings.threads or count_cores(),
        network=settings.preset_sizes() if settings.network is None else settings.network,
        name=name,
    )


def _check_numbers(settings: TrainSettings) -> None:
    at_least = {
        "steps": 1,
        "minutes": 0,
        "copies": 1,
        "threads": 0,
        "rollout_workers": 0,
        "warm_up": 0,
        "updates_per_step": 0,
        "buffer": 1,
        "log_every": 1,
        "checkpoint_every": 1,
        "keep": 1,
    }
    for name, least in at_least.items():
        value = getattr(settings, name)
        if value is not None and not least <= value < float("inf"):
            raise ValueError(f"{name} must be {least} or more, not {value}")
    defaults = _by_name(TrainSettings())
    if settings.algorithm == "ppo":
        for name in TD3_ONLY:
            if getattr(settings, name) != defaults[name]:
                raise ValueError(f"{name} is a setting of TD3; PPO has none")
    if settings.rollout_workers and settings.algorithm != "ppo":
        raise ValueError(
            "rollout_workers are for PPO: TD3 waits for its updates, not for the physics"
        )
    if settings.cluster is not None and not settings.rollout_workers:
        raise ValueError("cluster is where rollout workers run: give rollout_workers, too")
    other = "td3" if settings.algorithm == "ppo" else "ppo"
    changed = [
        name
        for name, value in _by_name(settings).items()
        if name.startswith(f"{other}.") and value != defaults[name]
    ]
    if changed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise ValueError(f"{options}: only with --algorithm {other}, not {settings.algorithm}")
    if not 0 <= settings.seed < 2**32:
        raise ValueError(f"a seed is a whole number from 0 to 2**32 - 1, not {settings.seed}")


def _by_name(settings: TrainSettings) -> dict[str, Any]:
    """Every setting, those of the algorithms as `td3.…` and `ppo.…`."""
    found = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    for algorithm in ("td3", "ppo"):
        own = vars(found.pop(algorithm)).items()
        found |= {f"{algorithm}.{name}": value for name, value in own}
    return found


def _check_packages(settings: TrainSettings) -> None:
    if settings.wandb and importlib.util.find_spec("wandb") is None:
        raise ValueError("--wandb needs the wandb package: pip install 'sgrl[tracking]'")
    if settings.rollout_workers and importlib.util.find_spec("ray") is None:
        raise ValueError("--rollout-workers needs the ray package: pip install 'sgrl[ray]'")


def check_device(name: str) -> None:
    """ValueError if PyTorch cannot use this device here."""
    try:
        torch.empty(0, dtype=torch.float64, device=name)  # statistics of observations are
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used: {reason}") from None


def is_over(settings: TrainSettings, steps: int, seconds: float) -> bool:
    """Whether a training has all the steps, or all the time, that it was told to have."""
    assert settings.steps is not None, "resolve the settings first"
    return steps >= settings.steps or (
        settings.minutes is not None and seconds >= 60.0 * settings.minutes
    )


def started_from(settings: TrainSettings, source: TrainSettings) -> TrainSettings:
    """Settings of a run that starts from another's weights: of its sizes, if none are given.

    Its preset may have changed since.
    """
    same = (settings.method, settings.preset) == (source.method, source.preset)
    if settings.network is None and same:
        return replace(settings, network=source.network)
    return settings


def resumed_settings(asked: TrainSettings, recorded: TrainSettings) -> TrainSettings:
    """The recorded settings of a run that goes on, with the changes that are allowed.

    A setting that was asked for (it is not at its default) and differs is refused: to go on
    otherwise would be another run.
    """
    if asked.bodies:
        asked = replace(asked, bodies=tuple(body.name for body in asked.morphologies()))
    defaults, kept = _by_name(TrainSettings()), _by_name(recorded)
    for name, value in _by_name(asked).items():
        if value not in (defaults[name], kept[name]) and name not in CHANGEABLE:
            raise ValueError(
                f"a resumed run keeps its settings: {name} is {kept[name]!r}, not {value!r} "
                "(start a new one with init_from instead)"
            )
    steps = recorded.steps if asked.steps is None else asked.steps
    # Who asks for more steps does not want to be stopped by a time that is over.
    minutes = recorded.minutes if asked.steps is None else None
    minutes = minutes if asked.minutes is None else asked.minutes
    changed = replace(
        recorded,
        steps=steps,
        minutes=minutes,
        wandb=asked.wandb or recorded.wandb,
        threads=asked.threads or recorded.threads,
        cluster=asked.cluster,
    )
    _check_numbers(changed)
    _check_packages(changed)
    check_device(changed.device)
    return changed


def settings_to_json(settings: TrainSettings) -> str:
    """As text that `settings_from_json` reads."""
    return json.dumps(dataclasses.asdict(settings), indent=2, default=str) + "\n"


def settings_from_json(text: str) -> TrainSettings:
    """Settings from what `settings_to_json` wrote; ValueError if it is something else."""
    try:
        values: dict[str, Any] = json.loads(text)
        values["bodies"] = tuple(values["bodies"])
        values["td3"] = Td3Config(**values["td3"])
        values["ppo"] = PpoConfig(**values.get("ppo", {}))
        for name in ("runs", "resume", "init_from"):
            values[name] = None if values[name] is None else Path(values[name])
        # Of a method that is not at hand they stay as they are: to read is not to import.
        if values["network"] is not None and (method := METHODS.get(values["method"])):
            preset = method.config(values["preset"])
            values["network"] = config_from(preset, values["network"])
        settings = TrainSettings(**values)
        for name in settings.bodies:
            get_body(name)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"settings that this version does not understand: {error}") from None
    return settings
