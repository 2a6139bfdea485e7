"""Killed with SIGKILL at random moments and resumed each time, a run loses nothing."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgrl.algorithms.distil_config import DistilConfig
from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.sac_config import SACConfig
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint
from sgrl.training.loop import train
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_to_json

from .tiny import EXTERNAL, TINY, TRUSTED, assert_same_run

KILLS = 8
NIGHTLY_KILLS = 200
STEPS_OF_A_KILL = 160
CHANGES = {"checkpoint_every": 60, "log_every": 20, "keep": 2}
"""Checkpoints and rows come so often that kills hit all parts of their writing."""

PPO = PPOConfig(n_steps=4, n_epochs=1, batch_size=8, compile="no")
SAC = SACConfig(
    batch_size=8,
    learning_starts=60,
    utd_ratio=0.1,
    critic_width=8,
    buffer_size=500,
    compile="no",
    products="float32",
)
DISTIL = DistilConfig(
    batch_size=8, learning_starts=60, buffer_size=500, compile="no", products="float32"
)
TRAININGS = {
    "td3": TINY,
    "ppo": replace(TINY, algorithm="ppo", config=PPO),
    "sac": replace(TINY, algorithm="sac", config=SAC),
    "distil": replace(TINY, algorithm="distil", config=DISTIL),
    "external": EXTERNAL,
}
COMPILED = replace(
    TINY,
    bodies=TINY.bodies[:1],
    envs_per_body=4,
    algorithm="sac",
    method="monolithic",
    network=None,
    config=replace(SAC, compile="yes"),
)
"""On one body, by a method whose compiled updates are small."""

NURSERY = """
import os, sys
import sgrl.cli, sgrl.training.command
import torch._dynamo, torch.utils.tensorboard  # which a training imports when it begins
from sgrl.training.settings_file import settings_from_json

for line in sys.stdin:
    given = line.strip()
    child = os.fork()
    if child == 0:
        if given.endswith(".json"):
            with open(given) as file:
                settings = settings_from_json(file.read())
            sgrl.training.command.train_command(settings)
        else:
            sys.argv = ["sgrl", "train", "--resume", given]
            sgrl.cli.main()
        sys.stderr.flush()
        os._exit(0)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
"""Forks a process for each training it reads of, which spares them the imports: seconds each.

Prints the process's id, and when it has ended its exit code.
"""


class Nursery:
    """Starts trainings, one at a time, each in a process of its own."""

    def __init__(self, log: Path) -> None:
        self._log = open(log, "a+")  # noqa: SIM115 (until close)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ
            | {
                "OMP_NUM_THREADS": "1",
                "SGRL_TRUST": ",".join(TRUSTED),
                # What is compiled is kept, but not where a kill could spoil it for others.
                "TORCHINDUCTOR_CACHE_DIR": str(log.parent / "compiled"),
            },
            text=True,
        )

    def start(self, given: Path) -> int:
        """Train by a file of settings, or resume a run; the id of the process that does."""
        assert self._process.stdin is not None
        print(given, file=self._process.stdin, flush=True)
        return self._next_number()

    def wait(self) -> int:
        """The exit code of the training that was started; -9 after SIGKILL."""
        return self._next_number()

    def _next_number(self) -> int:
        assert self._process.stdout is not None
        # What the trainings themselves print comes the same way.
        for line in self._process.stdout:
            if line.strip().lstrip("-").isdigit():
                return int(line)
        pytest.fail(self.said())

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path / "errors.txt")
    yield nursery
    nursery.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in five minutes"
        time.sleep(0.0005)


def wait_for_row(run: Path) -> None:
    """Until a training writes a row, after it has cut off those that are written again."""
    file = run / "metrics.csv"
    before = file.stat().st_mtime_ns if file.exists() else 0
    wait_until(lambda: file.exists() and file.stat().st_mtime_ns > before)
    cut = file.stat().st_size
    wait_until(lambda: file.stat().st_size > cut)


def wait_for_more(run: Path, rows: int) -> None:
    """Until a training has written so many rows more: time would tell nothing of its speed."""
    file = run / "metrics.csv"
    enough = file.read_bytes().count(b"\n") + rows
    wait_until(lambda: file.read_bytes().count(b"\n") >= enough)


def kill_while_writing(process: int, checkpoints: Path) -> None:
    """Kill a process with a checkpoint half written: stop it to see whether that is so."""

    def stopped_in_the_middle() -> bool:
        if not any(checkpoints.glob(".*.draft")):
            return False
        os.kill(process, signal.SIGSTOP)
        caught = any(checkpoints.glob(".*.draft"))
        os.kill(process, signal.SIGKILL if caught else signal.SIGCONT)
        return caught

    # Not the draft that an earlier kill left, which is swept away with the next checkpoint.
    wait_until(lambda: not any(checkpoints.glob(".*.draft")))
    wait_until(stopped_in_the_middle)


@pytest.mark.parametrize("name", TRAININGS)
def test_killed_again_and_again(nursery: Nursery, tmp_path: Path, name: str) -> None:
    loses_nothing(nursery, tmp_path, TRAININGS[name], KILLS)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TRAININGS)
def test_killed_two_hundred_times(nursery: Nursery, tmp_path: Path, name: str) -> None:
    loses_nothing(nursery, tmp_path, TRAININGS[name], NIGHTLY_KILLS)


@pytest.mark.nightly
def test_killed_two_hundred_times_compiled(nursery: Nursery, tmp_path: Path) -> None:
    """Also while it compiles, which takes the longest part of a life."""
    loses_nothing(nursery, tmp_path, COMPILED, NIGHTLY_KILLS, beginning=4.0)


def loses_nothing(
    nursery: Nursery, tmp_path: Path, tiny: TrainSettings, kills: int, beginning: float = 0.2
) -> None:
    """Killed so often, and resumed each time, a run ends as one that was not.

    Every fourth kill comes within as many seconds as `beginning` says.
    """
    changes: dict[str, Any] = CHANGES | {"steps": STEPS_OF_A_KILL * kills}
    if isinstance(tiny.config, DistilConfig):
        teacher = train(replace(TINY, runs=tmp_path, name="teacher"))
        changes["config"] = replace(tiny.config, teachers=(str(teacher),))
    given, whole, run = (tmp_path / name for name in ("settings.json", "whole", "killed"))
    settings = replace(tiny, **changes, runs=tmp_path, name=whole.name)
    given.write_text(settings_to_json(settings))
    nursery.start(given)
    assert nursery.wait() == 0, nursery.said()
    with open(whole / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    row_seconds = float(rows[-1]["wall/seconds"]) / len(rows)
    given.write_text(settings_to_json(replace(settings, name=run.name)))
    checkpoints = run / "checkpoints"
    rng = random.Random(1)
    reached = []
    for kill in range(kills):
        process = nursery.start(run if kill else given)
        wait_until(run.exists)
        if kill % 4 == 0:  # when it begins, or reads the last checkpoint
            time.sleep(rng.uniform(0.0, beginning) if kill else 0.0)
            os.kill(process, signal.SIGKILL)
        elif kill % 4 == 3:
            kill_while_writing(process, checkpoints)
        else:  # when it trains
            wait_for_row(run)
            wait_for_more(run, rng.randrange(4, 14))
            time.sleep(rng.uniform(0.0, row_seconds))
            os.kill(process, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL, nursery.said()
        there = list_checkpoints(checkpoints)
        for folder in there:
            read_checkpoint(folder)
        reached.append(int(there[-1].name) if there else 0)
        print(f"kill {kill}: the last checkpoint is at {reached[-1]} steps")
    assert reached[0] == 0
    assert reached == sorted(reached)
    assert len(set(reached)) > kills // 4
    nursery.start(run)
    assert nursery.wait() == 0, nursery.said()
    assert_same_run(run, whole)
