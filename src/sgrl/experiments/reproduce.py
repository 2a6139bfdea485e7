"""A request made into its files: plan, train what is missing, evaluate, tabulate, draw."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from sgrl.experiments.experiment import Request
from sgrl.experiments.figures import draw_profile, save_figure
from sgrl.experiments.findings import Results, write_trials
from sgrl.experiments.grid_progress import GridProgress
from sgrl.experiments.plan import make_plan, waves
from sgrl.experiments.runner import Job, JobResult, Runner
from sgrl.experiments.tables import latex_page, markdown_page
from sgrl.experiments.trials import evaluate_jobs
from sgrl.files import writable
from sgrl.training.interrupt import RaisedSignals, output_may_close

ABOUT = "about.json"


def reproduce(request: Request, out: Path, runner: Runner, console: Console) -> list[Path]:
    """Train what is missing, then write the results. Returns the files.

    RuntimeError if a training failed; what the others have learned is kept. SIGINT, SIGTERM and a
    terminal that closes raise SignalInterrupt, a KeyboardInterrupt, when all have saved.
    """
    check_folder(request, out)
    with RaisedSignals(), output_may_close():
        train_missing(request.jobs(), runner, console)
        return write_findings(request, out, lambda line: console.print(line, markup=False))


def train_missing(jobs: list[Job], runner: Runner, console: Console) -> None:
    """Bring every job to its end; those that start from others after them."""
    unfinished = make_plan(jobs).unfinished()
    failed: list[JobResult] = []
    try:
        with GridProgress(unfinished, console) as progress:
            for group in waves(unfinished):
                broken = {outcome.job.folder for outcome in failed}
                ready = [job for job in group if job.settings.init_from not in broken]
                for job in (job for job in group if job not in ready):
                    reason = f"what it starts from failed: {job.settings.init_from}"
                    failed.append(JobResult(job, "failed", reason))
                    progress.report(job, "failed", reason)
                if ready:
                    outcomes = runner.run(ready, progress.report)
                    failed += [outcome for outcome in outcomes if outcome.status != "done"]
    except KeyboardInterrupt:
        console.print("stopped; what was trained is saved. To go on, give the same command again.")
        raise
    if failed:
        # Each was reported with its log when it failed.
        first = failed[0]
        raise RuntimeError(
            f"{len(failed)} of {len(jobs)} trainings did not finish, {first.job.label} the first: "
            f"{first.reason or first.status} (see {first.job.log}). The same command tries them "
            "again, only them"
        )


def require_all(jobs: list[Job]) -> None:
    """FileNotFoundError that lists what has not been trained to its end."""
    missing = make_plan(jobs).unfinished()
    if missing:
        shown = ", ".join(job.label for job in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise FileNotFoundError(
            f"{len(missing)} of {len(jobs)} trainings are missing or not finished: {shown}{more}; "
            "leave --no-train out to train them"
        )


def check_folder(request: Request, out: Path) -> None:
    """ValueError if the folder has results of something else: no table mixes budgets."""
    file = out / ABOUT
    if not file.is_file():
        if out.exists() and any(out.iterdir()):
            raise ValueError(f"{out} has other things in it; give a new folder with --out")
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    for name, own in _about(request).items():
        if found.get(name) != own:
            raise ValueError(
                f"{out} has results of another {name}: {found.get(name)}, not {own}; "
                "give a folder of its own with --out"
            )


def _about(request: Request) -> dict[str, Any]:
    """What all results in a folder share."""
    return {
        "experiment": request.experiment.name,
        "budget": request.budget.name,
        "algorithm": request.algorithm,
        "runs": str(request.runs.resolve()),
    }


def write_findings(request: Request, out: Path, say: Callable[[str], None]) -> list[Path]:
    """Try out what was trained, and write episodes, table and figure. Returns the files."""
    # First of all, so that a folder that was cut off is known for what it is.
    command = shlex.join(["sgrl", *sys.argv[1:]])
    about = _about(request) | {"command": command, "jobs": [job.name for job in request.jobs()]}
    with writable(out / ABOUT) as draft:
        draft.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    results = evaluate_jobs(request, out / "trials", say)
    return [out / ABOUT, *write_trials(results.trials, out), *write_pages(results, request, out)]


def write_pages(results: Results, request: Request, out: Path) -> list[Path]:
    """The table and the figure. Returns the files."""
    written = []
    for name, text in (
        ("table.md", markdown_page(results, request)),
        ("table.tex", latex_page(results, request)),
    ):
        with writable(out / name) as draft:
            draft.write_text(text, encoding="utf-8")
        written.append(out / name)
    written += save_figure(request.experiment.draw(results), out / "figure")
    if request.experiment.compares_bodies and len(results.methods()) > 1:
        written += save_figure(draw_profile(results), out / "profile")
    return written
