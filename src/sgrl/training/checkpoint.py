"""Checkpoints: folders that appear whole, are checked when read, and hold no pickled code.

checkpoints/0000025000/          named by the steps
  weights.safetensors            of the networks and what they stand on: "actor.…", "critic.…"
  learner.pt                     TD3's targets, optimisers: nested tensors and numbers
  arrays.npz                     environments, replay cursors, random states, tallies
  checkpoint.json                counters, and the SHA-256 of the files above and of itself
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WEIGHTS = "weights.safetensors"
LEARNER = "learner.pt"
ARRAYS = "arrays.npz"
FACTS = "checkpoint.json"


class CorruptCheckpointError(ValueError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a training goes on from: copies, since it is written while that goes on."""

    weights: dict[str, Tensor]
    """Of the networks, and of what else a policy or a new training from them needs."""
    learner: dict[str, Any]
    """What else the algorithm needs to go on: nested tensors, numbers and strings."""
    arrays: dict[str, NDArray[Any]]
    """States of environments, replay and random generators."""
    facts: dict[str, Any]
    """Counters and whose checkpoint it is, as JSON has them."""

    def pack(self) -> dict[str, bytes]:
        """The contents of its files."""
        from safetensors.torch import save

        # Which refuses tensors that share memory.
        own = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.weights.items()
        }
        learner, arrays = io.BytesIO(), io.BytesIO()
        torch.save(self.learner, learner)
        np.savez(arrays, allow_pickle=False, **self.arrays)
        packed = {WEIGHTS: save(own), LEARNER: learner.getvalue(), ARRAYS: arrays.getvalue()}
        digests = {name: _digest(data) for name, data in packed.items()}
        return packed | {FACTS: _seal(self.facts | {"sha256": digests})}


def checkpoint_folder(checkpoints: Path, steps: int) -> Path:
    """Where the checkpoint at so many steps lies."""
    return checkpoints / f"{steps:010d}"


def list_checkpoints(checkpoints: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; whether they are good is not looked at."""
    if not checkpoints.is_dir():
        return []
    found = (path for path in checkpoints.iterdir() if path.name.isdigit())
    return sorted(found, key=lambda path: (int(path.name), path.name))


def write_checkpoint(checkpoints: Path, steps: int, packed: dict[str, bytes], keep: int) -> Path:
    """Write what `Checkpoint.pack` gave, then remove all but the newest `keep`.

    Whenever the process dies, what is there under a name of digits is whole, and there is one if
    there was one before.
    """
    final = checkpoint_folder(checkpoints, steps)
    draft = checkpoints / f".{final.name}.draft"
    # With a zero more in front it still counts as a checkpoint, until another has its name.
    before = checkpoints / f"0{final.name}"
    checkpoints.mkdir(exist_ok=True)
    _sweep(checkpoints)
    try:
        draft.mkdir()
        for name, data in packed.items():
            _write_file(draft / name, data)
        _sync_folder(draft)
        if final.exists():
            os.rename(final, before)
        os.replace(draft, final)
        _sync_folder(checkpoints)
        if before.exists():
            _discard(before)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    for old in list_checkpoints(checkpoints)[:-keep]:
        _discard(old)
    return final


class CheckpointWriter:
    """Packs and writes a run's checkpoints, one at a time, in a thread: training goes on."""

    def __init__(self, checkpoints: Path, keep: int, before: Callable[[], None]) -> None:
        """`before` is called in the thread, before anything is written."""
        self._checkpoints, self._keep, self._before = checkpoints, keep, before
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[Path] | None = None

    def write(self, steps: int, checkpoint: Checkpoint) -> None:
        """Begin to write; raises what went wrong with the one before."""
        self.finish()
        self._pending = self._thread.submit(self._write, steps, checkpoint)

    def _write(self, steps: int, checkpoint: Checkpoint) -> Path:
        self._before()
        return write_checkpoint(self._checkpoints, steps, checkpoint.pack(), self._keep)

    def finish(self) -> None:
        """Wait for the one that is being written; raises what went wrong with it."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait, whatever comes of it, and end the thread."""
        self._thread.shutdown()


def read_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint, every byte checked; CorruptCheckpointError says what is wrong with it."""
    from safetensors.torch import load

    facts = read_facts(folder)
    data = {name: _read_checked(folder / name, facts) for name in (WEIGHTS, LEARNER, ARRAYS)}
    with np.load(io.BytesIO(data[ARRAYS]), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    learner = torch.load(io.BytesIO(data[LEARNER]), weights_only=True, map_location="cpu")
    return Checkpoint(load(data[WEIGHTS]), learner, arrays, facts)


def read_facts(folder: Path) -> dict[str, Any]:
    """What checkpoint.json says, every byte checked; CorruptCheckpointError if it is not whole.

    Of one that lists no checksum of its own, as before there was one, nothing is checked.
    """
    file = folder / FACTS
    try:
        data = file.read_bytes()
        facts: dict[str, Any] = json.loads(data)
        names = set(facts["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptCheckpointError(f"{file} cannot be read ({error})") from None
    if names - {FACTS} != {WEIGHTS, LEARNER, ARRAYS}:
        raise CorruptCheckpointError(f"{file} does not list all files and no others")
    if FACTS in names and data != _seal(facts):
        raise CorruptCheckpointError(f"{file} is truncated or altered")
    return facts


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint alone, checked, on the CPU."""
    from safetensors.torch import load

    return load(_read_checked(folder / WEIGHTS, read_facts(folder)))


def read_newest(checkpoints: Path, complain: Callable[[Path, str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; `complain` hears of those that are not."""
    for folder in reversed(list_checkpoints(checkpoints)):
        try:
            return read_checkpoint(folder)
        except CorruptCheckpointError as error:
            complain(folder, str(error))
    return None


def set_aside(folder: Path) -> Path:
    """Rename a corrupt checkpoint so that it is neither used nor counted nor lost."""
    number, aside = 1, folder.with_name(f"{folder.name}.corrupt")
    while aside.exists():
        number += 1
        aside = folder.with_name(f"{folder.name}.corrupt-{number}")
    os.rename(folder, aside)
    return aside


def _read_checked(file: Path, facts: dict[str, Any]) -> bytes:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CorruptCheckpointError(f"{file} cannot be read ({error.strerror})") from None
    if _digest(data) != facts["sha256"][file.name]:
        raise CorruptCheckpointError(f"{file} is truncated or altered")
    return data


def _seal(facts: dict[str, Any]) -> bytes:
    """The contents of checkpoint.json: facts, and among the checksums that of all the others."""
    digests = {name: digest for name, digest in facts["sha256"].items() if name != FACTS}
    text = json.dumps(facts | {"sha256": digests}, indent=1)
    digests[FACTS] = _digest(text.encode())
    return json.dumps(facts | {"sha256": digests}, indent=1).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_file(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make names in a folder survive a loss of power, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _discard(folder: Path) -> None:
    """Remove a checkpoint; it loses its name first, so that half of one is never found."""
    doomed = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(doomed, ignore_errors=True)
    os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sweep(checkpoints: Path) -> None:
    """Remove what a killed process left behind."""
    for left in checkpoints.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
    for folder in list_checkpoints(checkpoints):
        taken = checkpoint_folder(checkpoints, int(folder.name))
        if folder != taken and taken.exists():
            _discard(folder)
