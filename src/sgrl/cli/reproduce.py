"""`sgrl reproduce`: the paper's evaluations by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Console
from rich.table import Table

from sgrl.command_line import BodiesOption
from sgrl.plugins import TRUST, TrustOption

if TYPE_CHECKING:
    from sgrl.experiments.experiment import Request

RUNS = Path("runs/reproduce")
RESULTS = Path("results")


def reproduce_command(
    name: tyro.conf.Positional[str],
    *,
    budget: str = "laptop",
    algorithm: str | None = None,
    methods: tuple[str, ...] = (),
    bodies: BodiesOption = (),
    seeds: int | None = None,
    processes: int | None = None,
    cluster: str | None = None,
    device: str = "cpu",
    runs: Path = RUNS,
    out: Path | None = None,
    dry_run: bool = False,
    train: bool = True,
    trust: TrustOption = (),
) -> None:
    """Reproduce an evaluation of the paper: train what is missing, write table and figure.

    What is done is not done again, what was cut off goes on: give the same command again.
    `sgrl reproduce list` lists the evaluations.

    Args:
        name: The evaluation, one of your own as module:NAME, or list.
        budget: What it may cost: smoke (minutes), laptop (hours on two cores) or paper (a cluster).
        algorithm: What learns, such as ppo, or your own as module:Class; the budget's own if not
            given.
        methods: Methods, instead of the evaluation's.
        bodies: Bodies or collections to train on, instead of the evaluation's.
        seeds: Trainings of each method, instead of the budget's number.
        processes: Trainings at once; one for each core if not given.
        cluster: Train on this Ray cluster, HOST:PORT of its head; its nodes must share `runs`.
        device: Where the networks live.
        runs: Folder of the trainings, which the evaluations share.
        out: Folder for the results; results/NAME-BUDGET if not given.
        dry_run: Only show the plan.
        train: Train what is missing; if not, only what has been trained is tried and tabulated.
    """
    TRUST.add(trust)
    TRUST.add_named((name, *methods, algorithm or ""))
    TRUST.distrust(runs=runs)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=True)
    if name == "list":
        console.print(_list(runs))
        return
    # Here, because sgrl --help must not wait for torch.
    from sgrl.cluster.jobs import RayRunner
    from sgrl.experiments.local import LocalRunner
    from sgrl.experiments.plan import make_plan
    from sgrl.experiments.reproduce import check_folder, reproduce, require_all, write_findings

    request = make_request(name, budget, algorithm, methods, bodies, seeds, device, runs)
    out = out or RESULTS / f"{request.experiment.name}-{budget}"
    check_folder(request, out)
    jobs = request.jobs()
    for job in jobs:
        request.evaluations(job)  # says at once what cannot be tried
    if cluster is not None and processes is not None:
        raise ValueError("processes are for this machine; on a cluster Ray knows how many fit")
    runner = LocalRunner(processes) if cluster is None else RayRunner(cluster)
    plan = make_plan(jobs)
    console.print(f"{request.experiment.title} ({request.experiment.place})", markup=False)
    console.print(plan.table())
    console.print(plan.summary(runner.processes))
    if dry_run:
        return
    if not train:
        require_all(jobs)
        written = write_findings(request, out, lambda line: console.print(line, markup=False))
    else:
        written = reproduce(request, out, runner, console)
    console.print((out / "table.md").read_text(encoding="utf-8"), markup=False)
    console.print(f"wrote {', '.join(path.name for path in written)} to {out}", markup=False)


def make_request(
    name: str,
    budget: str,
    algorithm: str | None,
    methods: tuple[str, ...],
    bodies: tuple[str, ...],
    seeds: int | None,
    device: str,
    runs: Path,
) -> Request:
    """Turn words into values; ValueError says which word is unknown."""
    from sgrl.experiments.budgets import get_budget
    from sgrl.experiments.catalogue import get_experiment
    from sgrl.experiments.experiment import Request

    experiment, chosen = get_experiment(name), get_budget(budget)
    algorithm = algorithm or chosen.algorithm
    return Request(experiment, chosen, runs, algorithm, methods, bodies, seeds, device)


def _list(runs: Path) -> Table:
    """The evaluations, where they stand in the paper, and what has been run."""
    from sgrl.experiments.budgets import BUDGETS
    from sgrl.experiments.catalogue import EXPERIMENTS
    from sgrl.experiments.experiment import Request
    from sgrl.experiments.plan import make_plan

    table = Table(title="sgrl reproduce NAME --budget BUDGET: trainings done of all")
    for column in ("name", "what", "in the paper", *BUDGETS):
        table.add_column(column)
    for name, experiment in EXPERIMENTS.items():
        cells = []
        for budget in BUDGETS.values():
            plan = make_plan(Request(experiment, budget, runs, budget.algorithm).jobs())
            written = (RESULTS / f"{name}-{budget.name}" / "table.md").is_file()
            cells.append(f"{plan.count('done')}/{len(plan.jobs)}{', table' if written else ''}")
        table.add_row(name, experiment.title, experiment.place, *cells)
    return table
