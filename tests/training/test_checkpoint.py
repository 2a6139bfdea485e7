"""Checkpoints: whole or not there, checked when read, the last few kept."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sgrl.files import SafeFolder, seal
from sgrl.training.checkpoint import (
    FILES,
    METADATA,
    STATE,
    TENSORS,
    WEIGHTS,
    Checkpoint,
    CorruptCheckpointError,
    checkpoint_folder,
    list_checkpoints,
    read_checkpoint,
    read_metadata,
    read_newest,
    read_weights,
    set_aside,
    write_checkpoint,
)


def make(value: float = 1.0, steps: int = 5) -> Checkpoint:
    shared = torch.full((4, 3), value)
    return Checkpoint(
        weights={"actor.w": shared[:2], "actor.turned": shared.T, "critic.w": shared},
        state={
            "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "lr": 1e-4},
            "keys": np.array([2**64 - 1], np.uint64),
            "bodies": np.array(["x", "longer"]),
            "shared": [shared, shared[1:]],
        },
        metadata={"steps": steps, "seconds": 0.1 + 0.2, "rng": 2**127 + 1},
    )


def test_everything_comes_back(tmp_path: Path) -> None:
    written = make(steps=7)
    folder = write_checkpoint(tmp_path / "checkpoints", 7, written.pack(), keep=3)
    assert folder == checkpoint_folder(tmp_path / "checkpoints", 7)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    found = read_checkpoint(folder)
    for name, tensor in written.weights.items():
        assert torch.equal(found.weights[name], tensor)
        assert torch.equal(read_weights(folder)[name], tensor)
    assert found.state is not None
    assert written.state is not None
    assert found.state["optimizer"] == written.state["optimizer"]
    for name in ("keys", "bodies"):
        np.testing.assert_array_equal(found.state[name], written.state[name], strict=True)
    assert torch.equal(found.state["shared"][1], written.state["shared"][1])
    assert {name: found.metadata[name] for name in written.metadata} == written.metadata


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    for steps in (5, 100, 20, 3_000_000):
        write_checkpoint(tmp_path, steps, make(steps=steps).pack(), keep=2)
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
        for name in ("rename", "remove_file", "remove_folder"):
            patch.setattr(SafeFolder, name, watched(getattr(SafeFolder, name)))
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
        later = write_checkpoint(tmp_path, steps, make(3.0, steps).pack(), keep=3)
    assert list_checkpoints(tmp_path) == [folder, later]


def test_a_full_disk_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    write = SafeFolder.write_new

    def until_full(self: SafeFolder, name: str, data: bytes) -> None:
        write(self, name, data[: len(data) // 2])
        if name.endswith(TENSORS):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SafeFolder, "write_new", until_full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path, 6, make(steps=6).pack(), keep=1)
    assert list(tmp_path.iterdir()) == [first]
    read_checkpoint(first)


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".0000000006.draft").mkdir()
    (tmp_path / ".0000000006.draft" / WEIGHTS).write_bytes(b"half")
    (tmp_path / ".0000000001.old").mkdir()
    folder = write_checkpoint(tmp_path, 6, make(steps=6).pack(), keep=1)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "empty"])
def test_damage_is_noticed(tmp_path: Path, name: str, damage: str) -> None:
    good = write_checkpoint(tmp_path, 5, make(1.0).pack(), keep=2)
    bad = write_checkpoint(tmp_path, 6, make(2.0, 6).pack(), keep=2)
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


def test_a_change_of_any_byte_of_the_metadata_is_noticed(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    whole = (folder / METADATA).read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1
        (folder / METADATA).write_bytes(altered)
        with pytest.raises(CorruptCheckpointError, match="checkpoint"):
            read_checkpoint(folder)
    (folder / METADATA).write_bytes(whole.replace(b'"seconds": 0', b'"seconds": 1'))
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json is truncated or altered"):
        read_checkpoint(folder)
    (folder / METADATA).write_bytes(whole.replace(b' "seconds": 0.30000000000000004,\n', b""))
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json does not say steps, sec"):
        read_checkpoint(folder)


def test_metadata_of_before_they_had_a_checksum(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    metadata = json.loads((folder / METADATA).read_bytes())
    del metadata["sha256"][METADATA]
    (folder / METADATA).write_text(json.dumps(metadata))
    assert read_checkpoint(folder).metadata == metadata


def test_a_second_one_set_aside(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        names.append(set_aside(write_checkpoint(tmp_path, 5, make().pack(), keep=2)).name)
    assert names == ["0000000005.corrupt", "0000000005.corrupt-2"]


def test_no_checkpoint(tmp_path: Path) -> None:
    assert read_newest(tmp_path, lambda folder, reason: pytest.fail(reason)) is None


def test_an_old_one_is_read_for_its_weights_alone(tmp_path: Path) -> None:
    """Until version 0.2 the state was pickled: nothing unpickles it any more."""
    run = tmp_path / "run"
    run.mkdir()
    folder = write_checkpoint(run / "checkpoints", 5, only_weights(make()).pack(), keep=1)
    age(folder, {"learner.pt": b"\x80\x04N.", "arrays.npz": b""})
    assert (read_weights(folder)["actor.w"] == 1.0).all()
    with pytest.raises(ValueError, match=f"an earlier version .* --init-from {run}") as refused:
        read_checkpoint(folder)
    assert not isinstance(refused.value, CorruptCheckpointError), "it would be set aside"


def test_one_to_act_with(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "best", 5, only_weights(make()).pack(), keep=1)
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, METADATA}
    assert read_weights(folder).keys() == make().weights.keys()
    with pytest.raises(ValueError, match="is of weights to act with and has no training"):
        read_checkpoint(folder)


def only_weights(checkpoint: Checkpoint) -> Checkpoint:
    return Checkpoint(checkpoint.weights, None, checkpoint.metadata)


def age(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a checkpoint, and make their checksums fit."""
    metadata = json.loads((folder / METADATA).read_bytes())
    for name, data in files.items():
        (folder / name).write_bytes(data)
        metadata["sha256"][name] = hashlib.sha256(data).hexdigest()
    (folder / METADATA).write_bytes(seal(metadata, METADATA))


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "5"},
        {"steps": True},
        {"steps": 5.0},
        {"steps": -5},
        {"seconds": None},
        {"seconds": -1.0},
        {"seconds": float("nan")},
        {"seconds": [1]},
    ],
)
def test_metadata_of_wrong_types(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    metadata = json.loads((folder / METADATA).read_bytes()) | change
    (folder / METADATA).write_bytes(seal(metadata, METADATA))
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json (does not|is of|says)"):
        read_metadata(folder)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"sha256": []}', "[" * 100_000, '"' * 3, ""])
def test_metadata_that_is_something_else(tmp_path: Path, text: str) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    (folder / METADATA).write_text(text)
    with pytest.raises(CorruptCheckpointError, match=r"checkpoint\.json (does not|cannot)"):
        read_metadata(folder)


@pytest.mark.parametrize("name", [WEIGHTS, TENSORS, STATE])
@pytest.mark.parametrize("data", [b"", b"rubbish", b"\xff" * 64, b"[" * 100_000, b"[1, 2]"])
def test_rubbish_whose_checksum_fits(tmp_path: Path, name: str, data: bytes) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    age(folder, {name: data})
    with pytest.raises(CorruptCheckpointError, match=name.replace(".", r"\.")) as refused:
        read_checkpoint(folder)
    assert "\n" not in str(refused.value)


def test_an_old_one_under_a_newer_name(tmp_path: Path) -> None:
    old = write_checkpoint(tmp_path, 5, make().pack(), keep=9)
    old.rename(checkpoint_folder(tmp_path, 6))
    with pytest.raises(CorruptCheckpointError, match="is of another checkpoint, at 5 steps"):
        read_checkpoint(checkpoint_folder(tmp_path, 6))


def test_what_a_user_keeps_there_stays(tmp_path: Path) -> None:
    for name in (".ssh", ".config", "2024", "2024010112", "notes", ".0000000005.draft.txt"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    (tmp_path / ".0000000004.old").mkdir()
    (tmp_path / ".0000000004.old" / "mine").write_text("mine, in a name of ours")
    before = sorted(tmp_path.iterdir())
    for steps in (5, 6):
        write_checkpoint(tmp_path, steps, make(steps=steps).pack(), keep=1)
    (folder,) = list_checkpoints(tmp_path)
    assert sorted({*tmp_path.iterdir()} - {folder}) == before
    assert all((path / "mine").is_file() for path in before)


def test_checkpoints_that_lead_elsewhere(tmp_path: Path) -> None:
    """A link in the place of `checkpoints`, of one of them, and of a file."""
    home, run = tmp_path / "home", tmp_path / "run"
    run.mkdir()
    write_checkpoint(run / "checkpoints", 5, make().pack(), keep=1)
    (run / "checkpoints").rename(home)
    before = sorted(home.rglob("*"))
    (run / "checkpoints").symlink_to(home)
    for act in (
        lambda: list_checkpoints(run / "checkpoints"),
        lambda: write_checkpoint(run / "checkpoints", 6, make(steps=6).pack(), keep=1),
    ):
        with pytest.raises(ValueError, match="checkpoints is a link"):
            act()
    (run / "checkpoints").unlink()
    (run / "checkpoints").mkdir()
    (linked := checkpoint_folder(run / "checkpoints", 5)).symlink_to(home / linked.name)
    assert list_checkpoints(run / "checkpoints") == []
    with pytest.raises(CorruptCheckpointError, match=f"{linked.name} is a link"):
        read_checkpoint(linked)
    linked.unlink()
    linked.mkdir()
    for file in FILES:
        (linked / file).symlink_to(home / linked.name / file)
    with pytest.raises(CorruptCheckpointError, match=f"{METADATA} is a link"):
        read_checkpoint(linked)
    assert sorted(home.rglob("*")) == before


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 5, make().pack(), keep=1)
    (folder / METADATA).unlink()
    os.mkfifo(folder / METADATA)
    with pytest.raises(CorruptCheckpointError, match="is not a file"):
        read_checkpoint(folder)
