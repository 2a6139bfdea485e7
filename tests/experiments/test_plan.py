"""Which jobs an experiment asks for, in what order, and how long they may take."""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.cli.reproduce import reproduce_command
from sgrl.experiments.budgets import BUDGETS, LAPTOP, PAPER, SMOKE, get_budget
from sgrl.experiments.catalogue import EXPERIMENTS, get_experiment
from sgrl.experiments.experiment import Request
from sgrl.experiments.plan import GridPlan, waves
from sgrl.experiments.runner import State
from sgrl.training.settings import resolve_settings

from .fabricated import request


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_job_can_be_trained(name: str, budget: str) -> None:
    asked = request(name, BUDGETS[budget])
    jobs = asked.jobs()
    assert len({job.name for job in jobs}) == len(jobs)
    for job in jobs:
        resolved = resolve_settings(job.settings)
        assert (resolved.name, resolved.seed) == (job.name, job.settings.seed)
        assert asked.evaluations(job)
    for algorithm in ("td3", "ppo"):
        for job in replace(asked, algorithm=algorithm).jobs():
            assert resolve_settings(job.settings).algorithm == algorithm


def test_the_paper_s_grids() -> None:
    counts = {name: len(request(name, PAPER).jobs()) for name in EXPERIMENTS}
    assert counts == {
        "single-task": 6 * 2 * 3,
        "multi-task": (3 * 6 + 1) * 3,
        "zero-shot": (3 * 3 + 4) * 3,
        "v2": 2 * 4 * 3 * 2,
        "orientation": 2 * 3,
        "bias": 3 * 2 * 3,
        "ablations": 6 * 2 * 3,
    }


@pytest.mark.parametrize("budget", BUDGETS)
def test_experiments_share_their_trainings(budget: str) -> None:
    def names(name: str) -> set[str]:
        return {job.name for job in request(name, BUDGETS[budget]).jobs()}

    assert names("zero-shot") <= names("multi-task")
    first_stage = {
        job.name for job in request("v2", BUDGETS[budget]).jobs() if not job.settings.init_from
    }
    assert first_stage <= names("multi-task")
    assert not names("orientation") & names("single-task"), "it starts from one angle only"
    if budget != "smoke":
        assert names("bias") <= names("single-task")


def test_budgets_do_not_share() -> None:
    names = [
        {job.name for name in EXPERIMENTS for job in request(name, budget).jobs()}
        for budget in BUDGETS.values()
    ]
    assert not names[0] & names[1]
    assert not names[1] & names[2]


def test_fine_tuning_comes_after_its_first_stage() -> None:
    jobs = request("v2").jobs()
    first, second = waves(jobs[::-1])
    assert {job.settings.variant for job in first} == {"v1"}
    assert {job.settings.variant for job in second} == {"v2"}
    assert {job.settings.init_from for job in second} == {job.folder for job in first}
    assert waves(second) == [second], "where the first stage is done, it can start at once"


def test_equal_time_is_that_of_one_core() -> None:
    for algorithm in ("td3", "ppo"):
        settings = LAPTOP.settings("set", "3d_hopper_5_full", 0, algorithm)
        assert (settings.threads, settings.minutes) == (1, 18)


def test_orientation_trains_from_one_angle_and_is_tried_from_five() -> None:
    asked = request("orientation", PAPER)
    for job in asked.jobs():
        assert (job.settings.yaw, job.settings.steps) == (0.0, 1_000_000)
        tried = asked.evaluations(job)
        assert Counter(one.at for one in tried) == {None: 5, 500_000: 5}
        angles = [one.yaw for one in tried if one.at is None]
        assert angles == [0.0, math.pi / 2, math.pi, 3 * math.pi / 2, None]
        # The checkpoint half way is among those that are left in the end, also after some stops,
        # each of which has made one more.
        kept = (job.settings.keep - 15) * job.settings.checkpoint_every
        assert 1_000_000 - kept < 500_000


def test_what_the_user_chose_replaces_what_the_experiment_has() -> None:
    asked = Request(
        EXPERIMENTS["zero-shot"],
        SMOKE,
        Path("r"),
        "td3",
        methods=("amorpheus",),
        tasks=("3d_cheetah++",),
        seeds=1,
    )
    (job,) = asked.jobs()
    assert job.folder.parent == Path("r")
    assert (job.settings.method, job.settings.bodies) == ("amorpheus", ("3d_cheetah++",))
    assert [one.body.split("_")[1] for one in asked.evaluations(job)] == ["cheetah"] * 2


def test_expected_time() -> None:
    jobs = tuple(request("orientation", LAPTOP).jobs())  # 4, of 18 minutes each
    states = (State("done", 1000, 1080.0), State("partial", 500, 300.0), *[State("missing")] * 2)
    plan = GridPlan(jobs, states)
    assert plan.expected_seconds(2) == pytest.approx((780 + 1080 + 1080) / 2)
    assert plan.expected_seconds(16) == pytest.approx(1080), "no less than the longest takes"
    assert plan.unfinished() == list(jobs[1:])
    assert "1 done, 1 to go on with, 2 to start; about 24 min with 2 at once" in plan.summary(2)

    jobs = tuple(request("orientation", PAPER).jobs())  # 6, of a million steps, SET then SWAT
    measured = (State("done", 1_000_000, 1000.0), *[State("missing")] * 5)
    assert GridPlan(jobs, measured).expected_seconds(1) == pytest.approx(5000)
    nothing = GridPlan(jobs, (State("missing"),) * 6)
    assert math.isnan(nothing.expected_seconds(1))
    assert "no estimate" in nothing.summary(1)
    assert GridPlan(jobs, (State("done", 1, 1.0),) * 6).summary(1).endswith("0 to start")


OWN = """
from sgrl.experiments import figures
from sgrl.experiments.experiment import Evaluation, Experiment, Grid


def evaluations(settings, budget):
    return (Evaluation("3d_hopper_4_lower_shin"),)


SHORT_LEG = Experiment(
    name="short-leg",
    title="A shorter leg",
    place="not in it",
    grids={"smoke": (Grid(("set", "swat"), ("3d_hopper_5_full",)),)},
    evaluations=evaluations,
    draw=figures.draw_bars,
)
MISNAMED = Experiment("../x", "", "", {}, evaluations, figures.draw_bars)
"""


def test_an_experiment_from_outside_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("own_experiments.py").write_text(OWN, encoding="utf-8")
    with pytest.raises(ValueError, match="--trust own_experiments"):
        get_experiment("own_experiments:SHORT_LEG")
    reproduce_command("own_experiments:SHORT_LEG", budget="smoke", dry_run=True)
    said = capsys.readouterr().out
    assert "A shorter leg (not in it)" in said
    assert "4 to start" in said
    experiment = get_experiment("own_experiments:SHORT_LEG")
    with pytest.raises(ValueError, match="no grid for the budget laptop, only for smoke"):
        Request(experiment, LAPTOP, Path("r"), "ppo").jobs()
    with pytest.raises(ValueError, match=r"evaluations is no sgrl\.experiments"):
        get_experiment("own_experiments:evaluations")
    with pytest.raises(ValueError, match=r"can't be called '\.\./x'"):
        get_experiment("own_experiments:MISNAMED")


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="did you mean zero-shot"):
        get_experiment("zeroshot")
    with pytest.raises(ValueError, match="known are single-task"):
        get_experiment("xyz")
    with pytest.raises(ValueError, match="did you mean laptop"):
        get_budget("labtop")
    base = request("single-task")
    with pytest.raises(ValueError, match=r"did you mean .*swat"):
        replace(base, methods=("swet",))
    with pytest.raises(ValueError, match="unknown body"):
        replace(base, tasks=("hopper",))
    with pytest.raises(ValueError, match="seeds"):
        replace(base, seeds=0)
    hoppers = replace(request("zero-shot"), tasks=("3d_hopper++",))
    with pytest.raises(ValueError, match="holds no body out"):
        hoppers.evaluations(hoppers.jobs()[0])
