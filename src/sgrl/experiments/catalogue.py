"""The paper's seven evaluations."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from sgrl.experiments import figures, paper
from sgrl.experiments.budgets import Budget
from sgrl.experiments.experiment import Evaluation, Experiment, Grid
from sgrl.experiments.paper import CHEETAH, HUMANOID
from sgrl.models.set import ABLATIONS as SET_ABLATIONS
from sgrl.morphology.table import COLLECTIONS, get_collection
from sgrl.nearest import did_you_mean
from sgrl.plugins import import_named
from sgrl.training.settings import TrainSettings

SMALLEST = "3d_hopper_3_shin"
"""The body with the fewest limbs that falls as soon as any."""
SMALL_COLLECTION = "3d_walker++"
"""The smallest one with bodies held out."""
BASELINES = ("set", "swat", "smp")
ORIENTATION_STEPS = 1_000_000
"""The one length of a training that the paper states."""


def _trained_on(settings: TrainSettings) -> tuple[str, ...]:
    (task,) = settings.bodies
    return COLLECTIONS[task].train if task in COLLECTIONS else (task,)


def _seen(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(body) for body in _trained_on(settings))


def _with_heights(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(body, series=True) for body in _trained_on(settings))


def _held_out(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    (task,) = settings.bodies
    bodies = get_collection(task).zero_shot
    if not bodies:
        raise ValueError(f"{task} holds no body out: zero-shot needs another collection")
    return tuple(Evaluation(body) for body in bodies)


def _near_targets(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    when = figures.BEFORE if settings.init_from is None else figures.AFTER
    return tuple(
        Evaluation(body, when, variant="v2", series=True) for body in _trained_on(settings)
    )


def _from_angles(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    moments: list[tuple[str, int | None]] = [("", None)]
    if budget.name == "paper":
        moments.insert(0, (paper.HALF_WAY, ORIENTATION_STEPS // 2))
    angles = (0.0, math.pi / 2, math.pi, 3 * math.pi / 2, None)
    return tuple(
        Evaluation(body, angle + when, yaw=yaw, at=at)
        for body in _trained_on(settings)
        for when, at in moments
        for angle, yaw in zip(paper.ANGLES, angles, strict=True)
    )


def _fixed_start(settings: TrainSettings, budget: Budget) -> TrainSettings:
    settings = replace(settings, yaw=0.0)
    if budget.name == "paper":
        # So many checkpoints that the one half way is still there in the end, also if training is
        # interrupted now and then, which makes one more each time.
        keep = ORIENTATION_STEPS // settings.checkpoint_every + 1
        settings = replace(settings, steps=ORIENTATION_STEPS, keep=keep)
    return settings


def _with_bias(settings: TrainSettings, budget: Budget) -> tuple[Evaluation, ...]:
    # Other episodes for each bias: a method without a heading would else show the same twice.
    return tuple(
        Evaluation(body, f"{degrees}°", bias=math.radians(degrees), seed=number)
        for body in _trained_on(settings)
        for number, degrees in enumerate((0, 180))
    )


SINGLE_TASK = Experiment(
    name="single-task",
    title="Single-task learning",
    place="fig:single-task",
    grids={
        "smoke": (Grid(("set", "swat", "smp", "monolithic"), (SMALLEST,)),),
        "laptop": (
            Grid((*BASELINES, "monolithic", "swat+hn", "monolithic+hn"), (HUMANOID, CHEETAH)),
        ),
        "paper": (
            Grid((*BASELINES, "monolithic", "swat+hn", "monolithic+hn"), (HUMANOID, CHEETAH)),
        ),
    },
    evaluations=_seen,
    draw=figures.draw_curves,
    numbers=paper.SINGLE_TASK,
    note="The paper shows curves; its numbers here are those of tab:bias without a bias.",
)

MULTI_TASK = Experiment(
    name="multi-task",
    title="Multi-task learning",
    place="fig:multi-task, fig:cwhh_hn",
    grids={
        "smoke": (Grid(BASELINES, (SMALL_COLLECTION,)),),
        "laptop": (Grid(BASELINES, ("3d_walker++", "3d_cheetah++")),),
        "paper": (Grid(BASELINES, tuple(COLLECTIONS)), Grid(("swat+hn",), ("3d_cwhh++",))),
    },
    evaluations=_seen,
    draw=figures.draw_curves,
    lines="task",
    note="Means over the bodies trained on, which count the same. The paper shows curves only.",
    compares_bodies=True,
)

ZERO_SHOT = Experiment(
    name="zero-shot",
    title="Zero-shot generalisation to held-out bodies",
    place="tab:zero-shot, tab:hn-zero-shot",
    grids={
        "smoke": (Grid(BASELINES, (SMALL_COLLECTION,)),),
        "laptop": (Grid(BASELINES, ("3d_walker++",)),),
        "paper": (
            Grid(BASELINES, ("3d_walker++", "3d_humanoid++", "3d_cheetah++")),
            Grid((*BASELINES, "swat+hn"), ("3d_cwhh++",)),
        ),
    },
    evaluations=_held_out,
    draw=figures.draw_bars,
    numbers=paper.ZERO_SHOT,
    note="The runs are those of multi-task; none of these bodies was trained on.",
    compares_bodies=True,
)

V2 = Experiment(
    name="v2",
    title="Near, moving targets: test and fine-tuning",
    place="fig:v2-task, fig:hopper_v2, fig:walker_v2, fig:humanoid_v2, fig:cheetah_v2",
    grids={
        "smoke": (Grid(("set", "swat"), (SMALL_COLLECTION,)),),
        "laptop": (Grid(("set", "swat"), ("3d_cheetah++",)),),
        "paper": (
            Grid(("set", "swat"), ("3d_hopper++", "3d_walker++", "3d_humanoid++", "3d_cheetah++")),
        ),
    },
    evaluations=_near_targets,
    draw=figures.draw_near_targets,
    lines="task",
    measures=("targets", "distance"),
    note=(
        "All trials are on v2. Targets: reached in an episode. Distance: to the target at the end, "
        "m. Steps after fine-tuning are those of the second stage. The paper shows figures only."
    ),
    fine_tunes=True,
)

ORIENTATION = Experiment(
    name="orientation",
    title="Start orientation, after training from 0° only",
    place="tab:fixinitd",
    grids={
        "smoke": (Grid(("set", "swat"), (SMALLEST,)),),
        "laptop": (Grid(("set", "swat"), (CHEETAH,)),),
        "paper": (Grid(("set", "swat"), (CHEETAH,)),),
    },
    evaluations=_from_angles,
    draw=figures.draw_bars,
    numbers=paper.ORIENTATION,
    note="Every training episode starts facing 0°; targets are in all directions throughout.",
    adapt=_fixed_start,
)

BIAS = Experiment(
    name="bias",
    title="Bias in the heading normalization",
    place="tab:bias",
    grids={
        "smoke": (Grid(("set", "swat+hn", "monolithic+hn"), (SMALLEST,)),),
        "laptop": (Grid(("set", "swat+hn", "monolithic+hn"), (CHEETAH,)),),
        "paper": (Grid(("set", "swat+hn", "monolithic+hn"), (HUMANOID, CHEETAH)),),
    },
    evaluations=_with_bias,
    draw=figures.draw_bars,
    numbers=paper.BIAS,
    note=(
        "The bias is added to the heading when tried, not when trained. SET has no heading to "
        "bias: its two lines are the same policy on other episodes."
    ),
)

ABLATIONS = Experiment(
    name="ablations",
    title="Ablations of SET",
    place="fig:ablation, fig:z",
    grids={
        "smoke": (Grid(("set", *(f"set-{name}" for name in SET_ABLATIONS)), (SMALLEST,)),),
        "laptop": (Grid(("set", *(f"set-{name}" for name in SET_ABLATIONS)), (CHEETAH,)),),
        "paper": (Grid(("set", *(f"set-{name}" for name in SET_ABLATIONS)), (HUMANOID, CHEETAH)),),
    },
    evaluations=_with_heights,
    draw=figures.draw_ablations,
    note="The paper shows figures only.",
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (SINGLE_TASK, MULTI_TASK, ZERO_SHOT, V2, ORIENTATION, BIAS, ABLATIONS)
}


def get_experiment(name: str) -> Experiment:
    """An experiment by its name, or the one that `module:NAME` names; ValueError if there is none.

    One in a module that is trusted (see `plugins`) is imported, which runs that module's code.
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    if ":" not in name:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(
            f"unknown experiment {name!r}; {hint} (sgrl reproduce list); one of your own is named "
            "module:NAME"
        )
    experiment = import_named(name, "experiment")
    if not isinstance(experiment, Experiment):
        raise ValueError(
            f"{name} is no sgrl.experiments.experiment.Experiment, but {experiment!r:.80}; see "
            "docs/howto/reproduce.md for what an experiment looks like"
        )
    if experiment.name in EXPERIMENTS or not re.fullmatch(r"[\w-]+", experiment.name):
        raise ValueError(
            f"{name} can't be called {experiment.name!r}, as its folder of results would be: take "
            "letters, digits, _ and -, and no name of sgrl's own experiments"
        )
    return experiment
