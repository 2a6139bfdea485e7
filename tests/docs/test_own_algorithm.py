"""docs/howto/own_algorithm.md does what it says: its algorithm trains, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, blocks, commands

PAGE = DOCS / "howto" / "own_algorithm.md"
TINY = ["--steps", "200", "--envs-per-body", "2", "--threads", "1", "--log-every", "64"]


def sgrl(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-P", "-m", "sgrl.cli", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def test_the_page_is_short_and_its_code_is_what_the_tests_use() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) < 80
    (code,) = blocks(PAGE, "python")
    tested = (ROOT / "tests" / "algorithms" / "external.py").read_text(encoding="utf-8")
    assert [line for line in code.splitlines() if line] == [
        line for line in tested.splitlines() if line
    ]


def test_its_algorithm_trains_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(blocks(PAGE, "python")[0], encoding="utf-8")
    fresh, resumed = commands(PAGE)
    done = sgrl(*fresh, *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "own"
    settings = json.loads((run / "settings.json").read_text(encoding="utf-8"))
    assert settings["algorithm"] == "mine:REINFORCE"
    assert settings["config"] == {"std": 0.2}
    done = sgrl(*resumed[:3], "--steps", "300", cwd=tmp_path)
    assert done.returncode != 0
    assert "add --trust mine" in done.stderr
    resumed[resumed.index("--steps") + 1] = "300"
    done = sgrl(*resumed, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (run / "metrics.csv").read_text(encoding="utf-8").splitlines()
    losses = [row.split(",")[rows[0].split(",").index("loss")] for row in rows[1:]]
    assert all(losses)
    assert len(losses) == 4
