"""docs/tutorials/own_network.md does what it says: code and commands run, with tiny trainings."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "own_network.md"
TINY = {
    "certify": "--samples 1",
    "train": "--steps 96 --envs-per-body 2 --threads 1 --log-every 24 --checkpoint-every 48 "
    "--ppo.n-steps 4 --ppo.batch-size 12 --ppo.n-epochs 1",
    "eval": "--episodes 2 --threads 1",
    "report": "",
}
"""What is added to each of the page's commands."""


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As an installed command runs: the working folder is not on the path."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder after all of the page's commands, and what each of them printed."""
    folder = tmp_path_factory.mktemp("own_network")
    (folder / "mine.py").write_text(blocks("python")[0], encoding="utf-8")
    outputs = {}
    for line in blocks("sh")[0].splitlines():
        command, *rest = shlex.split(line)[1:]
        done = python("-m", "sgrl.cli", command, *rest, *TINY[command].split(), cwd=folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        outputs[line] = done.stdout
    return folder, outputs


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) < 60
    assert (len(blocks("python")), len(blocks("sh"))) == (2, 1)


def test_its_method_is_certified(said: tuple[Path, dict[str, str]]) -> None:
    (table,) = (text for line, text in said[1].items() if " certify " in line)
    marks = {
        cells[1].strip(): "".join(cell.strip()[0] for cell in cells[2:-1])
        for cells in (line.split("|") for line in table.splitlines()[2:])
    }
    assert marks == {"mine:DeepSets": "✓✗✗✗✗", "mine:DeepSets+hn": "✓✓✗✗✗"}


def test_it_is_trained_evaluated_and_reported_beside_ours(
    said: tuple[Path, dict[str, str]],
) -> None:
    folder, outputs = said
    recorded = json.loads((folder / "runs" / "mine" / "settings.json").read_text(encoding="utf-8"))
    assert recorded["method"] == "mine:DeepSets+hn"
    (evaluated,) = (text for line, text in outputs.items() if " eval " in line)
    assert "| mine:DeepSets+hn | 3d_hopper_3_shin |" in evaluated
    page = (folder / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    assert data["series"] == ["mine:DeepSets+hn", "set"]
    assert "<td>mine, 96 steps</td>" in page, "the certificate of what it has learned"


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    module, script = blocks("python")
    (tmp_path / "mine.py").write_text(module, encoding="utf-8")
    here = "import sys; sys.path.insert(0, '')\n"
    done = python("-W", "error", "-c", here + script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "frame=target" in done.stdout


def test_a_run_without_its_module_says_what_to_do(
    said: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    run = said[0] / "runs" / "mine"
    done = python("-m", "sgrl.cli", "eval", str(run), cwd=said[0])
    assert done.returncode == 1
    assert "add --trust mine" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = python("-m", "sgrl.cli", "eval", str(run), "--trust", "mine", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("sgrl: ")
    assert "the method mine:DeepSets needs the module mine, which" in done.stderr
    assert "PYTHONPATH" in done.stderr
    assert len(done.stderr.splitlines()) == 1
