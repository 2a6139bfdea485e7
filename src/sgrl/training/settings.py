"""What a training is told: one typed field a setting, recorded in the run's folder.

Reading them needs no torch. What each field is beside its value, such as whether it identifies a
run, stands in `setting`; `settings_file` has what recorded ones were called.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from sgrl.algorithms.config import MOST_STEPS, AlgorithmConfig, Plan
from sgrl.algorithms.registry import algorithm_named
from sgrl.command_line import BodiesOption
from sgrl.cores import count_cores
from sgrl.envs.variant import Variant
from sgrl.morphology import Morphology, resolve_bodies
from sgrl.setting import check_bounds, setting, settings_of

MOST_SEED = 2**32 - 1
MOST_WORKERS = 4096
"""Threads, rollout workers."""
MOST_ENVS = 100_000
MOST_KEPT = 1_000_000
MOST_MINUTES = 10**7
"""Nineteen years."""


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a training. A step is one transition of one body."""

    bodies: BodiesOption = setting((), key="bodies")
    """Bodies to train on: names, or collections for their training bodies; their mirror images with
    _mirrored after the name."""
    method: str = setting("set", key="method")
    """The network's method, such as set, swat+hn or monolithic, or your own as module:Class."""
    preset: str = setting("fast", key="preset")
    """Size of the networks: fast, many (for many bodies) or paper."""
    variant: Variant = setting("v1", key="variant")
    """The task: far targets (v1), near ones again and again (v2), or episodes of both (mixed)."""
    yaw: float | None = setting(None, key="yaw", least=-1000.0, most=1000.0)
    """Start every episode turned by so many radians; uniform over the circle if not given."""
    algorithm: str = setting("sac", key="algorithm", before="td3")
    """What learns: sac; ppo, by more and faster steps; the paper's td3; or your own as
    module:Class."""
    steps: int | None = setting(None, key="steps", may_change=True, least=1, most=MOST_STEPS)
    """Transitions to collect in all; the algorithm's number if not given, or when resuming the
    run's own."""
    minutes: float | None = setting(
        None, key="minutes", may_change=True, least=0.0, most=MOST_MINUTES
    )
    """Stop after so many minutes of training, those before a --resume included, if the steps are
    not done earlier."""
    seed: int = setting(0, key="seed", least=0, most=MOST_SEED)
    """Seed of everything random."""
    envs_per_body: int | None = setting(None, key="envs_per_body", least=1, most=MOST_ENVS)
    """Environments of each body that are stepped side by side; the algorithm's number if not
    given, which with ppo is 64 shared by the bodies, but at least 4 of each."""
    device: str = setting("cpu", key="device", identifies=False)
    """Where the networks live, as PyTorch names it."""
    threads: int = setting(
        0, key="threads", identifies=False, may_change=True, least=0, most=MOST_WORKERS
    )
    """Threads of the physics and of PyTorch; 0 for all cores."""
    rollout_workers: int = setting(
        0, key="rollout_workers", identifies=False, least=0, most=MOST_WORKERS
    )
    """Workers on Ray that make the rollouts of ppo, each on one core with its share of the
    environments; 0 to make them in this process."""
    cluster: str | None = setting(None, key="cluster", identifies=False, may_change=True)
    """Ray cluster for the rollout workers, HOST:PORT of its head; without one, Ray is started on
    this machine."""
    log_every: int = setting(2_000, key="log_every", identifies=False, least=1, most=MOST_STEPS)
    """Steps between rows of the metrics."""
    checkpoint_every: int = setting(
        25_000, key="checkpoint_every", identifies=False, least=1, most=MOST_STEPS
    )
    """Steps between checkpoints."""
    eval_every: int | None = setting(None, key="eval_every", before=0, least=0, most=MOST_STEPS)
    """Steps between evaluations of the policy on the way, of which the best is kept; 0 for none,
    the algorithm's number if not given."""
    eval_episodes: int = setting(5, key="eval_episodes", before=5, least=1, most=10_000)
    """Episodes of each body in such an evaluation."""
    keep: int = setting(3, key="keep", identifies=False, least=1, most=MOST_KEPT)
    """Checkpoints to keep, the newest."""
    deterministic: bool = setting(False, key="deterministic")
    """Only operations that PyTorch calls deterministic; on a CPU they are without it."""
    runs: Path = setting(Path("runs"), key="runs", identifies=False, may_change=True)
    """Folder of the runs."""
    name: str | None = setting(None, key="name", identifies=False)
    """The run's folder; a number is added if it exists. By default method, bodies and seed."""
    resume: Path | None = setting(None, key="resume", identifies=False, may_change=True)
    """Go on with this run from its last checkpoint; only steps, minutes, threads, cluster and wandb
    may change."""
    init_from: Path | None = setting(None, key="init_from")
    """Start from the weights of this run; bodies and variant may differ."""
    wandb: bool = setting(False, key="wandb", identifies=False, may_change=True)
    """Also report to Weights & Biases (install sgrl[tracking])."""
    config: tyro.conf.Suppress[Any] = setting(None, key="config")
    """Settings of the algorithm: its config, such as `TD3Config`; its defaults if not given. The
    command line has them as `--td3.…`, `--ppo.…`."""
    network: tyro.conf.Suppress[Any] = setting(None, key="network")
    """Sizes of the networks instead of the preset's: the method's config or its fields, from Python
    only. A run records those that it has, except of a method of your own, whose presets are its
    module's affair."""

    def morphologies(self) -> tuple[Morphology, ...]:
        """The bodies as values."""
        return resolve_bodies(self.bodies)

    def preset_sizes(self) -> dict[str, Any] | None:
        """What the preset stands for now; None for a method from outside the package.

        There, reading the sizes back would need the module, which may not be at hand.
        """
        from sgrl.models.methods import OURS, get_method  # which need torch

        if self.method not in OURS:
            return None
        sizes: dict[str, Any] | None = plain(get_method(self.method).config(self.preset))
        return sizes

    def algorithm_config(self) -> AlgorithmConfig:
        """The algorithm's config, with its defaults if none is given; ValueError if it is not
        one of this algorithm.

        Of an algorithm from outside the package this imports its module.
        """
        config = algorithm_named(self.algorithm).config_class()
        if self.config is None:
            return config()
        if isinstance(self.config, Mapping):  # read where the module was not at hand
            return config_from_fields(config, self.config)
        if type(self.config) is not config:
            raise ValueError(
                f"the config of {self.algorithm} is a {config.__name__}, not {self.config!r:.60}"
            )
        return self.config

    def environment_seed(self) -> int:
        """Seed of the first environment, far from those of other runs; below 2**61, so that none
        has one of an evaluation's, which begin at 2**62."""
        drawn = np.random.SeedSequence([self.seed, 1]).generate_state(1, np.uint64)[0]
        return int(drawn >> np.uint64(3))


def plain(config: Any) -> Any:
    """A config's fields as JSON has them; None and what is plain already stay."""
    known = dataclasses.is_dataclass(config) and not isinstance(config, type)
    values = dataclasses.asdict(config) if known else config
    return None if values is None else json.loads(json.dumps(values, default=str))


def config_from_fields(config: type[AlgorithmConfig], fields: Mapping[str, Any]) -> AlgorithmConfig:
    """A config from its fields as JSON has them, under the names that they have or had.

    JSON knows no tuples. A field that is not there has the value from before it existed.
    """
    fields = {config.old_names.get(name, name): value for name, value in fields.items()}
    values = {
        name: known.before
        for name, known in settings_of(config).items()
        if name not in fields and not known.is_old
    }
    values |= {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return config(**values)


def resolve_settings(settings: TrainSettings) -> TrainSettings:
    """Settings with nothing left open, checked: what `settings.json` records.

    Collections become bodies, 0 threads the number of cores, a preset its sizes, no name one
    made of method, bodies and seed.
    """
    from sgrl.models.methods import get_method  # which needs torch

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
    check_bounds(settings)
    _check_packages(settings)
    check_device(settings.device)
    resolved = settled(settings)
    name = resolved.name or ""
    is_folder = Path(name).name == name and not name.startswith(".") and name.isprintable()
    if not is_folder or "@" in name:
        raise ValueError(
            f"a run's name is the name of a folder and has no @ and no line break, not {name!r}"
        )
    _check_workers(resolved)
    return resolved


def settled(settings: TrainSettings) -> TrainSettings:
    """Settings with nothing left open, without what only the machine can tell.

    The module of a method from outside the package is imported only if it is trusted.
    """
    bodies = settings.morphologies()
    config = settings.algorithm_config()
    steps = config.default_steps() if settings.steps is None else settings.steps
    envs = settings.envs_per_body
    envs = config.default_envs_per_body(len(bodies)) if envs is None else envs
    every = settings.eval_every
    every = config.default_eval_every(len(bodies)) if every is None else every
    plan = Plan(bodies, settings.method, _is_for_one_body(settings.method), steps, envs)
    names = tuple(body.name for body in bodies)
    return replace(
        settings,
        bodies=names,
        steps=steps,
        envs_per_body=envs,
        eval_every=every,
        threads=settings.threads or count_cores(),
        network=settings.preset_sizes() if settings.network is None else plain(settings.network),
        name=settings.name or _default_name(settings, names),
        config=config.resolved(plan),
    )


def _default_name(settings: TrainSettings, bodies: tuple[str, ...]) -> str:
    label = "_".join(part.replace("+", "p") for part in settings.bodies)
    if len(label) > 60:
        label = f"{len(bodies)}_bodies"
    short = settings.method.replace("+", "_").replace(":", ".")
    return f"{short}-{label}-seed{settings.seed}"


def _check_workers(settings: TrainSettings) -> None:
    """ValueError if rollout workers can't do what resolved settings ask of them."""
    workers, envs = settings.rollout_workers, settings.envs_per_body
    if settings.cluster is not None and not workers:
        raise ValueError("cluster is where rollout workers run: give rollout_workers, too")
    if workers and settings.algorithm_config().rollout_steps is None:
        raise ValueError(
            f"rollout_workers have nothing to do for {settings.algorithm}: its weights may change "
            "at every step, so that it makes its steps itself"
        )
    if envs is not None and workers > envs:
        raise ValueError(
            f"{workers} rollout workers need as many environments of each body, not {envs}"
        )


def _check_packages(settings: TrainSettings) -> None:
    if settings.wandb and importlib.util.find_spec("wandb") is None:
        raise ValueError("--wandb needs the wandb package: pip install 'sgrl[tracking]'")
    if settings.rollout_workers and importlib.util.find_spec("ray") is None:
        raise ValueError("--rollout-workers needs the ray package: pip install 'sgrl[ray]'")


def check_device(name: str) -> None:
    """ValueError if PyTorch cannot use this device here."""
    import torch  # here, because who only reads settings needs none

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


def _is_for_one_body(method: str) -> bool:
    """Whether a method is made for one body; no, of one that must not be imported."""
    from sgrl.models.methods import get_method  # which needs torch

    try:
        return get_method(method).one_body
    except ValueError:
        return False


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
    recorded = replace(recorded, config=recorded.algorithm_config())
    if asked.bodies:
        asked = replace(asked, bodies=tuple(body.name for body in asked.morphologies()))
    asked = replace(asked, network=plain(asked.network))
    _refuse_changes(asked, TrainSettings(), recorded, "")
    if asked.config is not None:
        if type(asked.config) is not type(recorded.config):
            raise ValueError(
                f"a resumed run keeps its settings: algorithm is {recorded.algorithm!r}, and "
                f"{type(asked.config).__name__} is of another (start a new one with init_from)"
            )
        prefix = "config" if ":" in recorded.algorithm else recorded.algorithm
        _refuse_changes(asked.config, type(asked.config)(), recorded.config, f"{prefix}.")
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
    check_bounds(changed)
    _check_workers(changed)
    _check_packages(changed)
    check_device(changed.device)
    return changed


def _refuse_changes(asked: Any, default: Any, recorded: Any, prefix: str) -> None:
    """ValueError for the first field that was asked for, differs, and may not change."""
    for name, known in settings_of(asked).items():
        value, kept = getattr(asked, name), getattr(recorded, name)
        if known.may_change or name == "config" or value in (getattr(default, name), kept):
            continue
        raise ValueError(
            f"a resumed run keeps its settings: {prefix}{name} is {kept!r}, not {value!r} "
            "(start a new one with init_from instead)"
        )
