"""`sgrl specialists`: a training for each body of a collection, as a grid."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sgrl.command_line import BodiesOption
from sgrl.envs.variant import Variant
from sgrl.plugins import TRUST, TrustOption

if TYPE_CHECKING:
    from sgrl.experiments.runner import Job
    from sgrl.training.settings import TrainSettings

RUNS = Path("runs/specialists")
METHOD = "monolithic+tn"
"""What learned most per core-minute on one body."""


def specialists_command(
    names: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[BODY ...]")
    ] = (),
    bodies: BodiesOption = (),
    *,
    minutes: float | None = None,
    steps: int | None = None,
    method: str = METHOD,
    preset: str = "fast",
    algorithm: str = "sac",
    variant: Variant = "mixed",
    seed: int = 0,
    init_from: Path | None = None,
    processes: int | None = None,
    cluster: str | None = None,
    device: str = "cpu",
    runs: Path = RUNS,
    dry_run: bool = False,
    trust: TrustOption = (),
) -> None:
    """Train a specialist for each body, as many at once as there are cores.

    What is done is not done again, what was cut off goes on: give the same command again.
    `sgrl distil runs/specialists/*` makes one policy of them.

    Args:
        names: Bodies or collections, such as 3d_walker++.
        bodies: The same, as other commands ask for them.
        minutes: Minutes of each training, if its steps are not done before.
        steps: Transitions of each training; the algorithm's number if not given.
        method: The network's method; one that is made for one body will do.
        preset: Size of the networks: fast, many or paper.
        algorithm: What learns, such as sac, or your own as module:Class.
        variant: The task: far targets (v1), near ones (v2), or episodes of both (mixed).
        seed: Of everything random.
        init_from: Start all of them from the weights of this run.
        processes: Trainings at once; one for each core if not given.
        cluster: Train on this Ray cluster, HOST:PORT of its head; its nodes must share `runs`.
        device: Where the networks live.
        runs: Folder of the trainings.
        dry_run: Only show the plan.
    """
    TRUST.add(trust)
    TRUST.add_named((method, algorithm))
    TRUST.distrust(runs=runs)
    # Here, because help must not wait for torch.
    from sgrl.cluster.jobs import RayRunner
    from sgrl.experiments.local import LocalRunner
    from sgrl.experiments.plan import make_plan
    from sgrl.experiments.reproduce import train_missing
    from sgrl.training.settings import TrainSettings

    if not (names or bodies):
        raise ValueError("name bodies or collections: sgrl specialists 3d_walker++")
    if cluster is not None and processes is not None:
        raise ValueError("processes are for this machine; on a cluster Ray knows how many fit")
    common = TrainSettings(
        method=method,
        preset=preset,
        algorithm=algorithm,
        variant=variant,
        steps=steps,
        minutes=minutes,
        seed=seed,
        device=device,
        init_from=init_from,
    )
    jobs = specialist_jobs((*names, *bodies), common, runs)
    runner = LocalRunner(processes) if cluster is None else RayRunner(cluster)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=True)
    plan = make_plan(jobs)
    console.print(plan.table())
    console.print(plan.summary(runner.processes))
    if dry_run:
        return
    train_missing(jobs, runner, console)
    console.print(results_table(jobs))


def specialist_jobs(bodies: Sequence[str], common: TrainSettings, runs: Path) -> list[Job]:
    """A job for each body of some names or collections."""
    from dataclasses import replace

    from sgrl.experiments.runner import make_job
    from sgrl.morphology import resolve_bodies

    names = [body.name for body in resolve_bodies(tuple(bodies))]
    return [make_job(replace(common, bodies=(name,)), name, runs) for name in names]


def results_table(jobs: Sequence[Job]) -> Table:
    """The best evaluation of each job while it was trained."""
    from sgrl.experiments.findings import read_curve

    table = Table(title_justify="left")
    for column in ("specialist", "best return", "at steps", "run"):
        table.add_column(column, justify="left" if column in ("specialist", "run") else "right")
    for job in jobs:
        steps, returns = read_curve(job.folder, "eval/return")
        cells = ("", "")
        if len(returns):
            best = int(returns.argmax())
            cells = (f"{returns[best]:,.0f}", f"{int(steps[best]):,}")
        table.add_row(Text(job.label), *cells, Text(job.name))
    return table
