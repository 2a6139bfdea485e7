"""Every system call of a save is a crash point: the run goes on from this checkpoint or the one
before, to the bit."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from sgrl.training.checkpoint import (
    FILES,
    CorruptCheckpointError,
    list_checkpoints,
    read_checkpoint,
    read_metadata,
    read_newest,
    read_weights,
    write_checkpoint,
)
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from tests.training.crashing import Call, Disk, Recorder, Survives
from tests.training.tiny import TINY, assert_same_run, with_changes

SAVED, BEFORE, MORE = 400, 300, 480
"""Steps of the checkpoint that is saved, of the one before, and of the run that goes on."""
KEPT = with_changes(TINY, keep=2, buffer_size=1000)
TRUNCATIONS = 20
FLIPS = 1000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(with_changes(KEPT, steps=MORE, runs=tmp_path_factory.mktemp("runs"), name="whole"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at 300 and 400 steps, and rows and transitions up to 400."""
    return train(with_changes(KEPT, steps=SAVED, runs=tmp_path_factory.mktemp("runs"), name="run"))


def record(run: Path, patch: pytest.MonkeyPatch, *, again: bool) -> tuple[Disk, list[Call]]:
    """A save, from a run that lacks it or has one at the same steps, and its calls."""
    newest = list_checkpoints(run / "checkpoints")[-1]
    packed = {name: (newest / name).read_bytes() for name in FILES}
    if not again:
        shutil.rmtree(newest)
    disk = Disk(run)
    with patch.context() as inner:
        recorder = Recorder(run, inner)
        write_checkpoint(run / "checkpoints", SAVED, packed, keep=1)
    return disk, recorder.calls


def crashes(
    run: Path, folder: Path, patch: pytest.MonkeyPatch, *, again: bool = False
) -> Iterator[Path]:
    """The run after a crash at each call of a save, once for each way to crash."""
    disk, calls = record(run, patch, again=again)
    for number, call in enumerate([None, *calls]):
        if call is not None:
            disk.do(call)
        for survives in get_args(Survives):
            yield disk.write(folder / f"{number:03}-{survives}", survives)


@pytest.mark.parametrize("again", [False, True], ids=["new", "in the place of another"])
def test_a_crash_at_each_call_of_a_save(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    reached = []
    for crashed in crashes(copy, tmp_path, monkeypatch, again=again):
        found = read_newest(crashed / "checkpoints", lambda _, reason: pytest.fail(reason))
        assert found is not None
        reached.append(found.metadata["steps"])
        # The next save finds room, and leaves nothing behind.
        newest = list_checkpoints(crashed / "checkpoints")[-1]
        packed = {name: (newest / name).read_bytes() for name in FILES}
        write_checkpoint(crashed / "checkpoints", reached[-1], packed, keep=1)
        assert [int(one.name) for one in (crashed / "checkpoints").iterdir()] == reached[-1:]
        shutil.rmtree(crashed)
    assert set(reached) == ({SAVED} if again else {BEFORE, SAVED})
    assert len(reached) > 60, "the calls of a save"


def goes_on(crashed: Path, whole: Path) -> None:
    train(TrainSettings(resume=crashed, steps=MORE))
    assert_same_run(crashed, whole)


def test_a_run_goes_on_after_some_crashes(
    run: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    left = list(crashes(copy, tmp_path, monkeypatch))
    for crashed in random.Random(0).sample(left, 2):
        goes_on(crashed, whole)


@pytest.mark.nightly
def test_a_run_goes_on_after_every_crash(
    run: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    for crashed in crashes(copy, tmp_path, monkeypatch):
        goes_on(crashed, whole)
        shutil.rmtree(crashed)


def damaged(data: bytes, flips: int, rng: random.Random) -> Iterator[bytes]:
    """A file cut off at twenty places, and with single bits turned over."""
    for part in range(TRUNCATIONS):
        yield data[: len(data) * part // TRUNCATIONS]
    for bit in rng.sample(range(8 * len(data)), min(flips, 8 * len(data))):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        yield bytes(altered)


def notice_all_damage(run: Path, flips: int) -> None:
    """The checkpoint before is used, and it is said why; settings are refused."""
    newest, rng = list_checkpoints(run / "checkpoints")[-1], random.Random(0)
    for name in FILES:
        whole = (newest / name).read_bytes()
        for data in damaged(whole, flips, rng):
            (newest / name).write_bytes(data)
            complaints: list[str] = []
            found = read_newest(run / "checkpoints", lambda _, why, own=complaints: own.append(why))
            assert found is not None
            assert found.metadata["steps"] == BEFORE
            (line,) = complaints
            assert name in line
            assert "\n" not in line
        (newest / name).write_bytes(whole)
    assert read_checkpoint(newest).metadata["steps"] == SAVED
    file = Run(run).settings_file
    whole = file.read_bytes()
    for data in damaged(whole.rstrip(), flips, rng):
        file.write_bytes(data)
        with pytest.raises(ValueError, match=r"settings\.json: [^\n]*\Z"):
            Run(run).settings()


def test_damage_is_noticed(run: Path, tmp_path: Path) -> None:
    notice_all_damage(Path(shutil.copytree(run, tmp_path / "copy")), flips=20)


@pytest.mark.nightly
def test_a_thousand_flipped_bits_of_every_file(run: Path, tmp_path: Path) -> None:
    notice_all_damage(Path(shutil.copytree(run, tmp_path / "copy")), flips=FLIPS)


def test_the_best_weights_are_as_safe(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "best"
    folder.parent.mkdir()
    whole = read_checkpoint(list_checkpoints(run / "checkpoints")[-1])
    packed = replace(whole, state=None).pack()
    kept = write_checkpoint(folder, SAVED, packed, keep=1)
    for name, read in ((FILES[0], read_weights), (FILES[-1], read_metadata)):
        for data in damaged(packed[name], 20, random.Random(1)):
            (kept / name).write_bytes(data)
            with pytest.raises(CorruptCheckpointError):
                read(kept)
        (kept / name).write_bytes(packed[name])
    assert os.listdir(folder) == [kept.name]
