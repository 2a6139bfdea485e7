"""Whatever the command line is given: it works, or says in a line what is wrong; no traceback."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgrl.cli
from sgrl.algorithms.registry import ALGORITHMS
from sgrl.training.loop import Training, train
from sgrl.training.settings import TrainSettings
from tests.hostile import EXAMPLES, check_line, in_time, made
from tests.training.tiny import TINY

HOPPER = "3d_hopper_3_shin"
WORDS = (
    *("nan", "inf", "-inf", "-1", "0", "1", "2", "1e30", "-1e30", "1e400", "9" * 20, "9" * 400),
    *("", " ", "no", "yes", "None", "True", "--", "-", "=", "--help", "@", "a@best", "run@1"),
    *("[red]x[/red]", "[/]", "a\nb", "<b>", "\x1b[31m", "\r", "\u202e", "\udcff", "ünï", "x" * 300),
    *(".", "..", "../..", "run", "folder", "file", "file/x", "missing/x.html", "x.html", "x.mp4"),
    *("/dev/null", "/dev/full", "/proc/self/mem", "pipe", "link"),
    *("random", "set-hopper", "set+hn", "monolithic", "no:such", "nowhere:Class", ":", "os:path"),
    *(HOPPER, f"{HOPPER}_mirrored", "3d_hopper++", "paper", "fast", "smoke", "zero-shot", "list"),
    *("td3", "ppo", "sac", "distil", "v1", "mixed", "127.0.0.1:1", "HOST:PORT", "cuda", "cpu"),
)
TEXTS = st.text(st.characters(exclude_characters="\0/~"), max_size=6)
"""What is no path out of the folder that the test is in; no argument has a zero byte in it."""
VALUES = st.one_of(st.sampled_from(WORDS), TEXTS, st.integers(-3, 3).map(str))
CONFIGS = {row.options: row.config_class() for row in ALGORITHMS.values()}
SETTINGS = [field.name for field in dataclasses.fields(TrainSettings) if field.name != "config"] + [
    f"{name}.{field.name}"
    for name, config in CONFIGS.items()
    for field in dataclasses.fields(config)
]
TRAIN = (*SETTINGS, "recipe", "config", "trust", "steps", "bodies", "method", "resume", "init-from")
OPTIONS = {
    name: TRAIN if name in sgrl.cli.OWN_OPTIONS else tuple(inspect.signature(command).parameters)
    for name, command in sgrl.cli.COMMANDS.items()
}
HARMLESS = {
    # Only the plan: nothing would stop what it starts.
    "reproduce": ["--dry-run"],
    "specialists": ["--dry-run"],
    # Not all methods on all bodies.
    "certify": ["--methods", "monolithic", "--bodies", HOPPER, "--samples", "1"],
}


class WouldWorkError(Exception):
    """The arguments are good: what they ask for would begin now, and take its time."""


def begin(*_: Any, **__: Any) -> Any:
    raise WouldWorkError


def end(training: Training, *_: object) -> None:
    training.collector.close()
    training.metrics.close()
    raise WouldWorkError


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder, deep in others, where a run and things that are none lie."""
    folder = tmp_path_factory.mktemp("hostile") / "a" / "b" / "c"
    folder.mkdir(parents=True)
    train(replace(TINY, steps=120, runs=folder, name="run"))
    (folder / "folder").mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        os.chdir(folder)
        patch.setattr(Training, "run", end)
        for heavy in (
            "sgrl.training.evaluate.run_episodes",
            "sgrl.viewer.gallery.portrait",
            "sgrl.viewer.live.LiveViewer",
            "sgrl.viewer.replay_page.write_replay",
            "sgrl.viewer.video.write_video",
            "sgrl.demo._show_families",
            "sgrl.models.certificate._certify_one",
        ):
            patch.setattr(heavy, begin)
        yield folder
        os.chdir(before)


def run_command(arguments: list[str]) -> None:
    """Call the command in this process; it ends as a command may end."""
    out, errors = io.StringIO(), io.StringIO()
    code: Any = None
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        contextlib.suppress(WouldWorkError),
        in_time(),
    ):
        patch.setattr(sys, "argv", ["sgrl", *arguments])
        try:
            sgrl.cli.main()
        except SystemExit as ended:
            code = ended.code
    if isinstance(code, str):
        assert code.startswith("sgrl: ")
        first, *others = code.split("\n")
        check_line(first)
        for line in others:  # all that is wrong with settings
            check_line(line)
            assert " must " in line
    else:
        assert code in (None, 0, 2)
    assert "Traceback" not in out.getvalue() + errors.getvalue()


def arguments(command: str) -> st.SearchStrategy[list[str]]:
    """Some values, and some options with and without one."""
    names = st.sampled_from([f"--{name.replace('_', '-')}" for name in OPTIONS[command]])
    option = st.one_of(
        st.tuples(names, VALUES).map(list),
        st.tuples(names, VALUES).map(lambda pair: ["=".join(pair)]),
        names.map(lambda name: [name]),
        VALUES.map(lambda value: [value]),
    )
    return st.lists(option, max_size=4).map(lambda options: [*chain(*options)])


@pytest.mark.parametrize("command", sgrl.cli.COMMANDS)
def test_options(place: Path, command: str) -> None:
    @made(EXAMPLES * 5 // len(OPTIONS))
    @given(arguments(command))
    def run(options: list[str]) -> None:
        run_command([command, *HARMLESS.get(command, []), *options])

    run()


@made(EXAMPLES // 4)
@given(st.lists(VALUES, max_size=2))
def test_words(place: Path, words: list[str]) -> None:
    """Which are no command, or one without what it needs."""
    if not words or words[0] not in OPTIONS:
        run_command(words)
