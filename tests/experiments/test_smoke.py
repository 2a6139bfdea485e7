"""The budget `smoke`, end to end: every file of all seven experiments, killed and started again."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sgrl.cli.reproduce import reproduce_command
from sgrl.experiments.catalogue import EXPERIMENTS
from sgrl.training.run import Run

from .fabricated import request

RUNS = Path("runs/reproduce")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def processes(run: Path) -> int:
    """That have trained in a run."""
    return len(Run(run).versions()["processes"])


def descendants(process: int) -> list[int]:
    """Children of a process, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(parents.get(process, []))
    for child in found:
        found += parents.get(child, [])
    return found


def test_killed_in_the_middle_and_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (job for job in request("orientation", runs=RUNS).jobs()[:2])
    arguments = ("--budget", "smoke", "--methods", "set", "--processes", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "sgrl.cli", "reproduce", "orientation", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not any((second.folder / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None, "it has ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    for one in [process.pid, *descendants(process.pid)]:
        os.kill(one, signal.SIGKILL)
    process.wait()
    assert first.state().phase == "done"
    assert second.state().steps > 0
    assert not Path("results/orientation-smoke/table.md").exists()

    reproduce_command("orientation", budget="smoke", methods=("set",), processes=1)
    assert "1 done, 1 to go on with, 0 to start" in capsys.readouterr().out
    assert (processes(first.folder), processes(second.folder)) == (1, 2)
    assert second.state().phase == "done"
    assert Path("results/orientation-smoke/table.md").exists()


def test_all_seven(capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, so that what they share is trained once; then all of them again."""
    for name in EXPERIMENTS:
        reproduce_command(name, budget="smoke", processes=1)
        check_files(name, capsys.readouterr().out)
    check_nothing_is_done_again(capsys)
    check_the_list(capsys)
    check_other_results_are_refused()


def check_files(name: str, shown: str) -> None:
    out = Path("results") / f"{name}-smoke"
    written = {path.name for path in out.iterdir()}
    assert written >= {"about.json", "episodes.csv", "table.md", "table.tex"}
    assert written >= {"figure.png", "figure.svg"}
    asked = request(name, runs=RUNS)
    trials = sum(len(asked.evaluations(job)) for job in asked.jobs())
    with open(out / "episodes.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == trials * asked.budget.episodes
    assert (out / "table.md").read_text().strip() in shown
    if name == "zero-shot":
        assert "6 done, 0 to go on with, 0 to start" in shown, "it shares multi-task's"


def check_nothing_is_done_again(capsys: pytest.CaptureFixture[str]) -> None:
    kept = [*Path("results").glob("*/trials/*"), *RUNS.glob("*/checkpoints/*")]
    before = {path: path.stat().st_mtime_ns for path in kept}
    pages = {path: path.read_text() for path in Path("results").glob("*/table.*")}
    assert len(pages) == 2 * len(EXPERIMENTS)
    for name in EXPERIMENTS:
        reproduce_command(name, budget="smoke", processes=1)
    shown = capsys.readouterr().out
    assert ": started" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("tried ")]
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    assert {path: path.read_text() for path in pages} == pages


def check_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce_command("list")
    shown = capsys.readouterr().out
    assert "tab:fixinitd" in shown
    assert "4/4, table" in shown
    assert "0/6" in shown


def check_other_results_are_refused() -> None:
    out = Path("results/bias-smoke")
    with pytest.raises(ValueError, match="another budget: smoke, not laptop"):
        reproduce_command("bias", budget="laptop", out=out, dry_run=True)
    with pytest.raises(ValueError, match="another algorithm: ppo, not td3"):
        reproduce_command("bias", budget="smoke", algorithm="td3", dry_run=True)
    with pytest.raises(ValueError, match="another experiment"):
        reproduce_command("ablations", budget="smoke", out=out, dry_run=True)
    with pytest.raises(ValueError, match="another runs"):
        reproduce_command("bias", budget="smoke", runs=Path("elsewhere"), dry_run=True)
    with pytest.raises(ValueError, match="other things in it"):
        reproduce_command("bias", budget="smoke", out=Path("results"), dry_run=True)


def test_missing_runs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError, match=r"4 of 4 trainings are missing .*--no-train"):
        reproduce_command("orientation", budget="laptop", train=False)
    reproduce_command("orientation", budget="laptop", dry_run=True)
    assert "4 to start; about" in capsys.readouterr().out
    assert not Path("results/orientation-laptop").exists()
    with pytest.raises(ValueError, match="did you mean orientation"):
        reproduce_command("orientations", budget="smoke")
