"""Checkpoints: folders that appear whole, are checked when read, and hold no code.

checkpoints/0000025000/          named by the steps
  weights.safetensors            of the networks and what they stand on: "actor.…", "critic.…"
  state.safetensors              tensors and arrays of all else that a training goes on from
  state.json                     how they are nested, and the numbers between them
  checkpoint.json                what is said of it, and the SHA-256 of the files above and itself

Who only acts needs the first and the last: a published policy and `best` have no others.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgrl.files import SafeFolder, seal
from sgrl.training.state import decode_state, encode_state

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = "weights.safetensors"
TENSORS = "state.safetensors"
STATE = "state.json"
METADATA = "checkpoint.json"
FILES = (WEIGHTS, TENSORS, STATE, METADATA)
OLD_FILES = ("learner.pt", "arrays.npz")
"""In the place of the state's, until version 0.2: weights of such a checkpoint are still read."""
MOST_BYTES = {WEIGHTS: 2**32, TENSORS: 2**35, STATE: 2**26, METADATA: 2**24}
"""More than this no file of a checkpoint has."""
NAME = re.compile(r"0?(0[0-9]{9}|[1-9][0-9]{9,15})")
"""Ten digits or more. With a zero more in front it is the one before at the same steps, which still
counts while another takes its name."""
LEFT_OVER = re.compile(rf"\.{NAME.pattern}\.(draft|old)")
"""What a killed process leaves."""


class CorruptCheckpointError(ValueError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a training goes on from: copies, since it is written while that goes on."""

    weights: dict[str, Tensor]
    """Weights of the networks, and of what else a policy or a new training from them needs."""
    state: dict[str, Any] | None
    """All else: nested dicts, lists, tensors, arrays, numbers. None of one to act with alone."""
    metadata: dict[str, Any]
    """What is said of it, as JSON has it: `steps`, `seconds`, and of which run it is."""

    def pack(self) -> dict[str, bytes]:
        """The contents of its files."""
        import torch
        from safetensors.torch import save

        # Which refuses tensors that share memory.
        own = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.weights.items()
        }
        packed = {WEIGHTS: save(own)}
        if self.state is not None:
            structure, tensors = encode_state(self.state)
            packed |= {TENSORS: save(tensors), STATE: json.dumps(structure).encode()}
        digests = {name: _digest(data) for name, data in packed.items()}
        return packed | {METADATA: seal(self.metadata | {"sha256": digests}, METADATA)}


def checkpoint_folder(checkpoints: Path, steps: int) -> Path:
    """Where the checkpoint at so many steps lies."""
    return checkpoints / f"{steps:010d}"


def list_checkpoints(checkpoints: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; whether they are good is not looked at.

    A folder of another name or content, as a user may have put there, is none.
    """
    run = SafeFolder(checkpoints.parent)
    if not run.mode(checkpoints.name):
        return []
    found = [
        checkpoints / name
        for name in run.folders(checkpoints.name)
        if NAME.fullmatch(name) and _known(run, f"{checkpoints.name}/{name}")
    ]
    return sorted(found, key=lambda path: (int(path.name), path.name))


def write_checkpoint(checkpoints: Path, steps: int, packed: Mapping[str, bytes], keep: int) -> Path:
    """Write what `Checkpoint.pack` gave, then remove all but it and the newest others, `keep` in
    all.

    Whenever the process dies or the power goes, what is there under a name of digits is whole, and
    there is one if there was one before.
    """
    run, above = SafeFolder(checkpoints.parent), checkpoints.name
    name = checkpoint_folder(checkpoints, steps).name
    final, draft, before = f"{above}/{name}", f"{above}/.{name}.draft", f"{above}/0{name}"
    if not run.mode(above):
        run.make_folder(above)
        run.sync()
    _sweep(run, above)
    try:
        run.make_folder(draft)
        for file, data in packed.items():
            run.write_new(f"{draft}/{file}", data)
        run.sync(draft)
        if run.mode(final):
            run.rename(final, before)
        run.rename(draft, final)
        run.sync(above)
        if run.mode(before):
            _discard(run, before)
    except BaseException:
        _remove(run, draft)
        raise
    others = [path.name for path in list_checkpoints(checkpoints) if path.name != name]
    for old in others[: max(0, len(others) - keep + 1)]:
        _discard(run, f"{above}/{old}")
    return checkpoints / name


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
    """A checkpoint, every byte checked; CorruptCheckpointError says what is wrong with it.

    ValueError of one that is whole and has no state to go on from.
    """
    metadata = read_metadata(folder)
    weights = _read_tensors(folder / WEIGHTS, metadata)
    if TENSORS not in metadata["sha256"]:
        old = set(OLD_FILES) <= set(metadata["sha256"])
        why = "was written by an earlier version" if old else "is of weights to act with"
        raise ValueError(
            f"{folder} {why} and has no training to go on from: start a new run from its weights "
            f"with --init-from {folder.parent.parent}"
        )
    tensors, text = _read_tensors(folder / TENSORS, metadata), _read(folder / STATE, metadata)
    try:
        state = decode_state(json.loads(text), tensors)
        if not isinstance(state, dict):
            raise ValueError("it is no object")
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptCheckpointError(f"{folder / STATE} is not a state: {error}") from None
    return Checkpoint(weights, state, metadata)


def read_metadata(folder: Path) -> dict[str, Any]:
    """What checkpoint.json says, every byte checked; CorruptCheckpointError if it is not whole.

    Of one that lists no checksum of its own, as before there was one, the content is not checked.
    """
    file = folder / METADATA
    run, name = _safe(folder)
    try:
        data = run.read(f"{name}/{METADATA}", MOST_BYTES[METADATA])
        metadata = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorruptCheckpointError(f"{file} cannot be read ({reason})") from None
    if (wrong := _wrong(metadata, folder)) is not None:
        raise CorruptCheckpointError(f"{file} {wrong}")
    if METADATA in metadata["sha256"] and data != seal(metadata, METADATA):
        raise CorruptCheckpointError(f"{file} is truncated or altered")
    known: dict[str, Any] = metadata
    return known


def _wrong(metadata: Any, folder: Path) -> str | None:
    """What is wrong with the contents of a checkpoint.json."""
    match metadata:
        case {
            "steps": int(steps),
            "seconds": int() | float() as seconds,
            "sha256": dict(digests),
        }:
            pass
        case _:
            return "does not say steps, seconds and checksums"
    names = set(digests) - {METADATA}
    if names not in ({WEIGHTS}, {WEIGHTS, TENSORS, STATE}, {WEIGHTS, *OLD_FILES}):
        return "does not list all files and no others"
    if isinstance(steps, bool) or not NAME.fullmatch(folder.name) or int(folder.name) != steps:
        return f"is of another checkpoint, at {steps} steps"
    if not (math.isfinite(seconds) and seconds >= 0):
        return f"says that it took {seconds} seconds"
    return None


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint alone, checked, on the CPU."""
    return _read_tensors(folder / WEIGHTS, read_metadata(folder))


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
    run, name = _safe(folder)
    number, aside = 1, f"{name}.corrupt"
    while run.mode(aside):
        number += 1
        aside = f"{name}.corrupt-{number}"
    run.rename(name, aside)
    return run.path / aside


def _safe(folder: Path) -> tuple[SafeFolder, str]:
    """The run of a checkpoint, and the checkpoint's name in it."""
    return SafeFolder(folder.parent.parent), f"{folder.parent.name}/{folder.name}"


def _read(file: Path, metadata: Mapping[str, Any]) -> bytes:
    run, name = _safe(file.parent)
    try:
        data = run.read(f"{name}/{file.name}", MOST_BYTES[file.name])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorruptCheckpointError(f"{file} cannot be read ({reason})") from None
    if _digest(data) != metadata["sha256"][file.name]:
        raise CorruptCheckpointError(f"{file} is truncated or altered")
    return data


def _read_tensors(file: Path, metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    return decode_tensors(_read(file, metadata), file)


def decode_tensors(data: bytes, file: Path) -> dict[str, Tensor]:
    """The tensors that the contents of a file are; CorruptCheckpointError if they are none."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        # Its checksum may be right: somebody wrote both.
        raise CorruptCheckpointError(f"{file} holds no tensors ({error})") from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _known(run: SafeFolder, name: str) -> bool:
    """Whether a folder has files of a checkpoint in it."""
    return not {WEIGHTS, METADATA}.isdisjoint(run.files(name))


def _discard(run: SafeFolder, name: str) -> None:
    """Remove a checkpoint; it loses its name first, so that half of one is never found."""
    above, _, last = name.rpartition("/")
    doomed = f"{above}/.{last}.old"
    if run.mode(doomed):
        _remove(run, doomed)
    run.rename(name, doomed)
    _remove(run, doomed)


def _remove(run: SafeFolder, name: str) -> None:
    """Remove a folder and the files of a checkpoint in it; what else is there stays."""
    with suppress(OSError, ValueError):
        for file in (*FILES, *OLD_FILES):
            run.remove_file(f"{name}/{file}")
        run.remove_folder(name)


def _sweep(run: SafeFolder, above: str) -> None:
    """Remove what a killed process left behind."""
    for name in run.folders(above):
        if LEFT_OVER.fullmatch(name):
            _remove(run, f"{above}/{name}")
    for folder in list_checkpoints(run.path / above):
        taken = checkpoint_folder(folder.parent, int(folder.name))
        if folder != taken and run.mode(f"{above}/{taken.name}"):
            _discard(run, f"{above}/{folder.name}")
