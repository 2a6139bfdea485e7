"""The house itself: what it is installed with, and how it is run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import sgrl

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def requirements(*extras: str) -> list[str]:
    """What the package and these extras need, without the package's own other extras."""
    optional = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(one for extra in extras for one in optional[extra])]
    return [line for line in lines if not line.startswith("sgrl[")]


@pytest.mark.parametrize("line", requirements("ray", "viewer", "test", "docs"))
def test_a_requirement_is_a_range_with_one_tested_version(line: str) -> None:
    name = re.split(r"[\[<>=]", line)[0]
    assert "==" not in line
    tested = {key.lower().replace("_", "-") for key in CONSTRAINTS}
    assert name in tested, f"{name} is missing in constraints.txt; `make constraints`"


@pytest.mark.parametrize("name", ["mujoco", "torch", "numpy", "gymnasium"])
def test_what_runs_is_what_is_said_to_be_tested(name: str) -> None:
    assert version(name).partition("+")[0] == CONSTRAINTS[name]


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "sgrl", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"sgrl {sgrl.__version__}\n"), done.stderr


def test_what_a_new_thing_costs_is_shown() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.findall(r"`(tests/[\w/]+\.py)::(\w+)` \|$", text, re.MULTILINE)
    assert len(shown) == 6
    for file, name in shown:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_a_version_is_listed_once() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert len(CONSTRAINTS) == sum(not line.startswith("#") for line in lines)


def test_every_target_that_is_spoken_of_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(phony.split()) == targets
    files = [*ROOT.glob(".github/**/*.*"), *ROOT.glob("*.md"), ROOT / ".ci" / "run"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    spoken = re.findall(r"(?:^|[`:] ?)make ([a-z]+)", text, re.MULTILINE)
    assert set(spoken) <= targets
