"""Ten thousand inputs in one process: command line, resets, actions, run folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = (
    "test_hostile_arguments.py",
    "envs/test_hostile_input.py",
    "training/test_hostile_folders.py",
)
EXAMPLES = 1000
"""For each test: together they then make more than ten thousand."""


@pytest.mark.nightly
def test_ten_thousand_inputs() -> None:
    command = [sys.executable, "-m", "pytest", *(str(HERE / file) for file in FILES)]
    subprocess.run(command, env=os.environ | {"SGRL_EXAMPLES": str(EXAMPLES)}, check=True)
