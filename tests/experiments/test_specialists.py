"""`sgrl specialists`: a job for each body, done once, without what it stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sgrl.experiments.runner import run_job
from sgrl.experiments.specialists import results_table, specialist_jobs, specialists_command
from sgrl.training.run import Run
from tests.training.tiny import TINY


def test_each_body_is_a_job_of_its_own(tmp_path: Path) -> None:
    jobs = specialist_jobs(["3d_hopper++", "3d_walker_7_full"], TINY, tmp_path)
    assert [job.label for job in jobs] == [
        "3d_hopper_3_shin",
        "3d_hopper_4_lower_shin",
        "3d_hopper_5_full",
        "3d_walker_7_full",
    ]
    assert len({job.name for job in jobs}) == 4
    assert all(len(job.settings.bodies) == 1 for job in jobs)


def test_a_finished_job_drops_its_replay(tmp_path: Path) -> None:
    (job,) = specialist_jobs(["3d_hopper_3_shin"], replace(TINY, eval_every=200), tmp_path)
    run_job(job)
    run = Run(job.folder)
    assert job.state().phase == "done"
    assert not run.replay.exists()
    table = Console(width=200, record=True)
    table.print(results_table([job]))
    text = table.export_text()
    assert "3d_hopper_3_shin" in text
    assert job.name in text


def test_the_plan_says_what_is_missing(tmp_path: Path, capsys: object) -> None:
    with pytest.raises(ValueError, match="name bodies or collections"):
        specialists_command(runs=tmp_path, dry_run=True)
    names, bodies = ("3d_hopper_3_shin",), ("3d_hopper_4_lower_shin", "3d_hopper_5_full")
    specialists_command(names, bodies, algorithm="td3", runs=tmp_path, dry_run=True)
    text = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "3 to start" in text
    assert not any(tmp_path.iterdir())
