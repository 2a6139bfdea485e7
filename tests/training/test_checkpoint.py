"""Checkpoints: whole or not there, checked when read, the last few kept."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sgrl.training import checkpoint as module
from sgrl.training.checkpoint import (
    ARRAYS,
    FACTS,
    LEARNER,
    WEIGHTS,
    Checkpoint,
    CorruptCheckpointError,
    checkpoint_folder,
    list_checkpoints,
    read_checkpoint,
    read_newest,
    read_weights,
    set_aside,
    write_checkpoint,
)


def make(value: float = 1.0) -> Checkpoint:
    shared = torch.full((4, 3), value)
    return Checkpoint(
        weights={"actor.w": shared[:2], "actor.turned": shared.T, "critic.w": shared},
        learner={"optimiser": {"state": {0: {"step": torch.tensor(3.0)}}, "lr": 1e-4}},
        arrays={"env.keys": np.array([2**64 - 1], np.uint64), "env.bodies": np.array(["x"])},
        facts={"steps": 7, "sum": 0.1 + 0.2, "rng": 2**127 + 1},
    )


def test_everything_comes_back(tmp_path: Path) -> None:
    written = make()
    folder = write_checkpoint(tmp_path / "checkpoints", 7, written.pack(), keep=3)
    assert folder == checkpoint_folder(tmp_path / "checkpoints", 7)
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, LEARNER, ARRAYS, FACTS}
    found = read_checkpoint(folder)
    for name, tensor in written.weights.items():
        assert torch.equal(found.weights[name], tensor)
        assert torch.equal(read_weights(folder)[name], tensor)
    assert found.learner == written.learner
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert {name: found.facts[name] for name in written.facts} == written.facts


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    for steps in (5, 100, 20, 3_000_000):
        write_checkpoint(tmp_path, steps, make().pack(), keep=2)
    assert [int(path.name) for path in list_checkpoints(tmp_path)] == [100, 3_000_000]
    assert len(list(tmp_path.iterdir())) == 2, "something is left behind"
    assert list_checkpoints(tmp_path / "nowhere") == []


def test_writing_again_takes_the_place(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 5, make(1.0).pack(), keep=2)
    folder = write_checkpoint(tmp_path, 5, make(2.0).pack(), keep=2)
    assert (read_weights(folder)["actor.w"] == 2.0).all()


def test_there_is_one_while_another_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if killed before or after each step on the disk."""
    write_checkpoint(tmp_path, 5, make(1.0).pack(), keep=1)
    packed = make(2.0).pack()
    seen: list[float] = []

    def watched(act: Callable[..., None]) -> Callable[..., None]:
        def watch(*args: Any, **named: Any) -> None:
            for step in (lambda: None, lambda: act(*args, **named)):
                step()
                found = [read_checkpoint(folder) for folder in list_checkpoints(tmp_path)]
                seen.append(found[-1].weights["actor.w"][0, 0].item())

        return watch

    with monkeypatch.context() as patch:
        for name in ("rename", "replace"):
            patch.setattr(module.os, name, watched(getattr(module.os, name)))
        patch.setattr(module.shutil, "rmtree", watched(module.shutil.rmtree))
        folder = write_checkpoint(tmp_path, 5, packed, keep=1)
    assert seen == sorted(seen)
    assert set(seen) == {1.0, 2.0}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_place_that_was_half_taken(tmp_path: Path) -> None:
    """A kill left the one before, alone or beside the one that took its place."""
    before = write_checkpoint(tmp_path, 5, make(1.0).pack(), keep=3).rename(
        tmp_path / "00000000005"
    )
    assert [int(path.name) for path in list_checkpoints(tmp_path)] == [5]
    folder = write_checkpoint(tmp_path, 5, make(2.0).pack(), keep=3)
    assert list_checkpoints(tmp_path) == [folder]
    for steps in (5, 10**9):
        shutil.copytree(folder, before)
        later = write_checkpoint(tmp_path, steps, make(3.0).pack(), keep=3)
    assert list_checkpoints(tmp_path) == [folder, later]


def test_a_full_disk_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    write = module._write_file

    def until_full(path: Path, data: bytes) -> None:
        write(path, data[: len(data) // 2])
        if path.name == ARRAYS:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_write_file", until_full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path, 6, make().pack(), keep=1)
    assert list(tmp_path.iterdir()) == [first]
    read_checkpoint(first)


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".0000000006.draft").mkdir()
    (tmp_path / ".0000000006.draft" / WEIGHTS).write_bytes(b"half")
    (tmp_path / ".0000000001.old").mkdir()
    folder = write_checkpoint(tmp_path, 6, make().pack(), keep=1)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", [WEIGHTS, LEARNER, ARRAYS, FACTS])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "empty"])
def test_damage_is_noticed(tmp_path: Path, name: str, damage: str) -> None:
    good = write_checkpoint(tmp_path, 5, make(1.0).pack(), keep=2)
    bad = write_checkpoint(tmp_path, 6, make(2.0).pack(), keep=2)
    file = bad / name
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "altered":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes(b"" if damage == "empty" else data[: len(data) // 2])
    with pytest.raises(CorruptCheckpointError, match=name.replace(".", r"\.")):
        read_checkpoint(bad)
    complaints: dict[Path, str] = {}
    found = read_newest(tmp_path, complaints.__setitem__)
    assert found is not None
    assert (found.weights["actor.w"] == 1.0).all()
    assert list(complaints) == [bad]
    aside = set_aside(bad)
    assert list_checkpoints(tmp_path) == [good]
    assert aside.is_dir()


def test_a_change_of_any_byte_of_the_facts_is_noticed(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    whole = (folder / FACTS).read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1
        (folder / FACTS).write_bytes(altered)
        with pytest.raises(CorruptCheckpointError, match="checkpoint"):
            read_checkpoint(folder)
    (folder / FACTS).write_bytes(whole.replace(b'"steps": 7', b'"steps": 8'))
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json is truncated or altered"):
        read_checkpoint(folder)
    (folder / FACTS).write_bytes(whole.replace(b' "steps": 7,\n', b""))
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json is truncated or altered"):
        read_checkpoint(folder)


def test_facts_of_before_they_had_a_checksum(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    facts = json.loads((folder / FACTS).read_bytes())
    del facts["sha256"][FACTS]
    (folder / FACTS).write_text(json.dumps(facts))
    assert read_checkpoint(folder).facts == facts


def test_a_second_one_set_aside(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        names.append(set_aside(write_checkpoint(tmp_path, 5, make().pack(), keep=2)).name)
    assert names == ["0000000005.corrupt", "0000000005.corrupt-2"]


def test_no_checkpoint(tmp_path: Path) -> None:
    assert read_newest(tmp_path, lambda folder, reason: pytest.fail(reason)) is None
