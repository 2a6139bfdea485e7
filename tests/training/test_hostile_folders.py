"""Whatever somebody put into a run's folder: it is read, or refused in a line; nothing hangs.

Checksums are made to fit, as whoever makes such a folder would.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save

from sgrl.files import seal
from sgrl.markup import error_lines
from sgrl.report.groups import make_groups
from sgrl.report.page import make_page
from sgrl.report.runs import read_runs
from sgrl.training.checkpoint import METADATA, WEIGHTS, list_checkpoints
from sgrl.training.history import history_of
from sgrl.training.loop import Training, train
from sgrl.training.policy import load_policy
from sgrl.training.results import BodyResult, Episode, write_results
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from tests.hostile import EXAMPLES, check_line, in_time, made
from tests.training.test_resuming import alter
from tests.training.tiny import TINY

pytestmark = pytest.mark.filterwarnings("ignore:.*trying the checkpoint before")
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([10**30, 10**400, -(10**18), 2**63, 1e308, -0.0]),
    st.floats(allow_nan=True, allow_infinity=True),
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["../x", "/etc/passwd", "os:system", "a\nb", "[/]", "\x1b[2J", "<b>", "\ud800"]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ARRAYS = st.one_of(
    st.lists(st.integers(0, 3), max_size=3).map(lambda shape: np.zeros(shape)),
    st.lists(st.integers(0, 3), max_size=3).map(lambda shape: torch.zeros(shape)),
    st.just(np.array(["x"])),
    st.just(torch.full((2,), float("nan"))),
)
CHOICES = st.lists(st.integers(0, 200), min_size=1, max_size=9)
"""Which key or item to go down into, at each level, and where to stop."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = train(replace(TINY, steps=200, runs=tmp_path_factory.mktemp("runs"), name="whole"))
    episode = Episode(0, 1.0, 10, 1.0, 0, 5.0, False, False)
    write_results(
        [BodyResult("set", TINY.bodies[0], "v1", (episode,))], run / "evaluations" / "001", about={}
    )
    return run


@pytest.fixture(scope="module")
def copy(whole: Path) -> Callable[[], Run]:
    """A copy to damage, always in the same place."""

    def make() -> Run:
        folder = whole.parent / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        return Run(Path(shutil.copytree(whole, folder)))

    return make


@pytest.fixture(autouse=True)
def _train_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(training: Training, *_: object) -> None:
        training.collector.close()
        training.metrics.close()

    monkeypatch.setattr(Training, "run", end)
    # What a report measures of its weights takes longer than all the rest.
    monkeypatch.setattr("sgrl.report.page.certificate_table", lambda groups: "")


def show(run: Run) -> None:
    """As a report does."""
    records = read_runs([run.path])
    for record in records:
        record.evaluations()
    make_page(make_groups(records), "title", run.path.parent)


READERS: dict[str, Callable[[Run], object]] = {
    "settings": Run.settings,
    "metrics": Run.metrics,
    "versions": Run.versions,
    "physics": Run.physics,
    "policy": lambda run: load_policy(run.path),
    "history": lambda run: history_of(run, list_checkpoints(run.checkpoints)[-1]),
    "report": show,
    "resume": lambda run: train(TrainSettings(resume=run.path, steps=800)),
    "init_from": lambda run: train(replace(TINY, runs=run.path.parent / "new", init_from=run.path)),
}


def read_all(run: Run, names: tuple[str, ...]) -> None:
    """Each reader in turn; what one refuses, it refuses in a line."""
    for name in names:
        try:
            with in_time():
                READERS[name](run)
        except (ValueError, OSError) as error:
            check_line(error_lines(error))  # as every command shows it


def set_somewhere(values: Any, choices: list[int], value: Any) -> None:
    """Replace something in nested dicts and lists, or leave it out of them."""
    for choice in choices:
        keys = list(values) if isinstance(values, dict) else list(range(len(values)))
        if not keys:
            return
        key = keys[choice % len(keys)]
        below = values[key]
        if choice is choices[-1] or not isinstance(below, dict | list) or not below:
            values[key] = value
            return
        values = below


def damage_json(file: Path, choices: list[int], value: Any, sealed: bool = False) -> None:
    values = json.loads(file.read_text(encoding="utf-8"))
    set_somewhere(values, choices, value)
    if sealed:
        values = json.loads(json.dumps(values)) | {"sha256": values.get("sha256", {})}
        try:
            file.write_bytes(seal(values, file.name))
        except (TypeError, ValueError, AttributeError):
            return  # no checksum can be made to fit
    else:
        file.write_text(json.dumps(values))


@made(EXAMPLES // 10)
@given(CHOICES, VALUES)
def test_settings(copy: Callable[[], Run], choices: list[int], value: Any) -> None:
    run = copy()
    values = json.loads(run.settings_file.read_text())
    del values["sha256"]  # then it is believed
    run.settings_file.write_text(json.dumps(values))
    damage_json(run.settings_file, choices, value)
    read_all(run, ("policy", "report", "resume", "init_from"))


@made(EXAMPLES // 10)
@given(CHOICES, VALUES)
def test_what_a_checkpoint_says(copy: Callable[[], Run], choices: list[int], value: Any) -> None:
    run = copy()
    for folder in list_checkpoints(run.checkpoints):
        damage_json(folder / METADATA, choices, value, sealed=True)
    read_all(run, ("policy", "resume", "init_from", "history"))


@made(EXAMPLES // 10)
@given(CHOICES, st.one_of(VALUES, ARRAYS))
def test_state(copy: Callable[[], Run], choices: list[int], value: Any) -> None:
    run = copy()
    try:
        alter(run, lambda state: set_somewhere(state, choices, value))
    except (TypeError, ValueError, OverflowError):
        return  # nothing that can be written
    read_all(run, ("resume",))


@made(EXAMPLES // 10)
@given(st.integers(0, 99), ARRAYS.filter(torch.is_tensor), st.sampled_from(["set", "drop", "add"]))
def test_weights(copy: Callable[[], Run], number: int, value: torch.Tensor, how: str) -> None:
    run = copy()
    for folder in list_checkpoints(run.checkpoints):
        weights = load_file(folder / WEIGHTS)
        name = sorted(weights)[number % len(weights)]
        if how == "drop":
            del weights[name]
        else:
            weights[name if how == "set" else f"{name}.more"] = value
        data = save(weights)
        (folder / WEIGHTS).write_bytes(data)
        metadata = json.loads((folder / METADATA).read_bytes())
        metadata["sha256"][WEIGHTS] = hashlib.sha256(data).hexdigest()
        (folder / METADATA).write_bytes(seal(metadata, METADATA))
    read_all(run, ("policy", "resume", "init_from"))


@made(EXAMPLES // 10)
@given(
    st.sampled_from(["versions.json", "evaluations/001/summary.json"]),
    CHOICES,
    VALUES,
    st.booleans(),
)
def test_other_json(
    copy: Callable[[], Run], name: str, choices: list[int], value: Any, card: bool
) -> None:
    run = copy()
    damage_json(run.path / name, choices, value)
    if card:
        (run.path / "card.json").write_text(json.dumps(value))
    read_all(run, ("versions", "physics", "history", "report"))


@made(EXAMPLES // 10)
@given(
    st.sampled_from(["settings.json", "versions.json", "metrics.csv", "log.txt", "card.json"]),
    st.one_of(st.binary(max_size=40), VALUES.map(lambda value: json.dumps(value).encode())),
    st.integers(0, 2000),
)
def test_bytes(copy: Callable[[], Run], name: str, data: bytes, start: int) -> None:
    run = copy()
    file = run.path / name
    before = file.read_bytes() if file.exists() else b""
    file.write_bytes(before[:start] + data + before[start + len(data) :])
    read_all(run, ("settings", "metrics", "versions", "physics", "history", "report", "resume"))
