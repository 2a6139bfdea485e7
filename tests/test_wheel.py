"""The wheel in an environment that has nothing else: every command starts and does its work."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMANDS = [
    "--version",
    "envs",
    "policies",
    "certify --methods set --bodies 3d_hopper_3_shin --samples 1",
    "train --name tiny --algorithm ppo --bodies 3d_hopper_3_shin --minutes 0.05 --threads 1",
    "eval tiny --episodes 2 --threads 1",
    "report runs/tiny -o report.html",
    "publish tiny -o mine --episodes 2 --threads 1",
    "reproduce list",
]

pytestmark = pytest.mark.nightly


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that knows nothing of this source tree."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    variables = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run(*build, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / "bin"
    install = (programs / "python", "-m", "pip", "install", "--quiet")
    run(*install, "--constraint", ROOT / "constraints.txt", wheel, cwd=folder)
    return programs


def test_every_command_runs(installed: Path, tmp_path: Path) -> None:
    for arguments in COMMANDS:
        run(installed / "sgrl", *arguments.split(), cwd=tmp_path)
    assert (tmp_path / "mine" / "card.md").exists()
    assert (tmp_path / "report.html").exists()


def test_the_environments_run_without_torch(installed: Path, tmp_path: Path) -> None:
    script = """
import sys
import gymnasium, sgrl
env = gymnasium.make("sgrl/3d_cheetah_14_full-v1")
env.reset(seed=0)
env.step(env.action_space.sample())
assert "torch" not in sys.modules
print(sgrl.__file__)
"""
    where = run(installed / "python", "-W", "error", "-c", script, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
