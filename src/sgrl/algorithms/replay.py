"""The replay buffer: transitions of several bodies, in memory or in files that outlive a kill.

Each body has a ring of its own with an equal share of the capacity, so that a small body's
transitions cost what they hold. A transition is one record of float32: observation, next
observation, action, reward, whether it terminated, and its serial number. Memory and disk are
taken as records are written, not before.

Rings are longer than what is sampled, by a slack. What a checkpoint refers to therefore stays
as it is while at least `slack` further transitions are added, and a run that was killed and
goes back to its checkpoint samples the same numbers, to the bit.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.envs.observation import FEATURES
from sgrl.morphology import Morphology

NUMBER_BYTES = 4
"""Bytes of a float32."""
EXTRAS = 3
"""Numbers of a record beside observations and action: reward, terminated, serial number."""
SERIALS = 2**31 - 1
"""Serial numbers, from 1, start again after so many; an unwritten record has 0."""


@dataclass(frozen=True)
class Transitions:
    """A mini-batch; its rows may be of different bodies, padded at the end with zeros."""

    obs: Tensor
    """(rows, width)."""
    actions: Tensor
    """(rows, action_dim)."""
    rewards: Tensor
    """(rows,)."""
    next_obs: Tensor
    """(rows, width): the true next observation, of the old episode where that ended."""
    terminated: Tensor
    """(rows,), 1 where nothing follows. An episode that was cut off by its time limit is 0."""
    body_index: NDArray[np.intp]
    """(rows,): index into the bodies."""


class _Ring:
    """Records of one body, (rows, numbers) of float32, in memory or in a file."""

    def __init__(self, body: Morphology, rows: int, path: Path | None) -> None:
        self.body = body
        self.width, self.action_dim = body.num_limbs * FEATURES, body.action_dim
        self.rows = rows
        self.added = 0
        shape = (rows, record_numbers(body))
        self._file: int | None = None
        self.records: NDArray[np.float32]
        if path is None:
            # Pages of zeros are only taken when they are written.
            self.records = np.zeros(shape, np.float32)
            return
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        weakref.finalize(self, os.close, self._file)
        size, expected = os.fstat(self._file).st_size, NUMBER_BYTES * shape[0] * shape[1]
        if size == 0:
            os.ftruncate(self._file, expected)
        elif size != expected:
            short = "it is truncated, or " if size < expected else "it "
            raise ValueError(
                f"{path} holds {size:,} bytes, not {expected:,}: {short}was written for another "
                f"body, capacity or slack"
            )
        self.records = np.memmap(path, np.float32, "r", shape=shape)

    def write(self, records: NDArray[np.float32]) -> None:
        """Append records (n, numbers), n at most the ring's rows."""
        serials = 1 + (self.added + np.arange(len(records))) % SERIALS
        records[:, -1] = serials.astype(np.int32).view(np.float32)
        start = self.added % self.rows
        before_end = min(len(records), self.rows - start)
        self._put(start, records[:before_end])
        self._put(0, records[before_end:])
        self.added += len(records)

    def _put(self, start: int, records: NDArray[np.float32]) -> None:
        if not len(records):
            return
        if self._file is None:
            self.records[start : start + len(records)] = records
            return
        # Not through the memory map: there, a full disk would kill the process instead of
        # raising OSError.
        left = records.data.cast("B")
        offset = start * self.records.shape[1] * NUMBER_BYTES
        while left:
            written = os.pwrite(self._file, left, offset)
            left, offset = left[written:], offset + written

    def holds(self, number: int) -> bool:
        """Whether the transition that was added after `number` others is (still) there."""
        serial = self.records[number % self.rows, -1:].view(np.int32)[0]
        return int(serial) == 1 + number % SERIALS

    def flush(self) -> None:
        """Wait until the disk has it."""
        if self._file is not None:
            os.fsync(self._file)


def record_numbers(body: Morphology) -> int:
    """float32 numbers that a transition of a body takes."""
    return 2 * body.num_limbs * FEATURES + body.action_dim + EXTRAS


def _available(folder: Path | None) -> int:
    """Bytes that may be taken, of memory or of the folder's disk."""
    if folder is not None:
        replaced = sum(path.stat().st_blocks * 512 for path in folder.glob("*.f32"))
        return shutil.disk_usage(folder).free + replaced
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        match = None
    if match:
        return 1024 * int(match[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Replay:
    """The newest transitions of some bodies, `capacity` in all, an equal share for each.

    With a folder they live in memory-mapped files there, and `load_state_dict` finds them again
    after a restart. `slack` more are kept than are sampled, counted over all bodies, which
    are expected to be fed alike.
    """

    def __init__(
        self,
        bodies: Sequence[Morphology],
        capacity: int,
        *,
        folder: Path | None = None,
        slack: int = 0,
    ) -> None:
        self.bodies = tuple(bodies)
        if not self.bodies or capacity < len(self.bodies) or slack < 0:
            raise ValueError(
                f"a replay buffer needs bodies, room for a transition of each and no negative "
                f"slack; got {len(self.bodies)} bodies, capacity {capacity}, slack {slack}"
            )
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        needed, room = self.bytes_needed(bodies, capacity, slack), self.room(bodies, folder)
        if capacity + slack > room:
            where = "memory" if folder is None else f"the disk of {folder}"
            fits = f"{max(0, room - slack):,} would fit"
            if slack > room:
                fits = (
                    f"{slack:,} of them are kept for older checkpoints: take a smaller "
                    "checkpoint_every or keep"
                )
            raise ValueError(
                f"a replay buffer of {capacity:,} transitions takes {needed / 1e9:.2f} GB and "
                f"does not fit in {where}; {fits}"
            )
        self.capacity, self.slack = capacity, slack
        self.share = capacity // len(self.bodies)
        """Transitions of a body that are sampled, at most."""
        rows = _ring_rows(len(self.bodies), capacity, slack)
        self._rings = [
            _Ring(body, rows, None if folder is None else folder / f"{index:02}_{body.name}.f32")
            for index, body in enumerate(self.bodies)
        ]
        # A batch comes sorted by the number of limbs, which makes padding cheaper.
        self._order = np.argsort([body.num_limbs for body in self.bodies], kind="stable")
        self._width = max(ring.width for ring in self._rings)
        self._action_dim = max(ring.action_dim for ring in self._rings)

    @staticmethod
    def bytes_needed(bodies: Sequence[Morphology], capacity: int, slack: int = 0) -> int:
        """Bytes of a full buffer."""
        rows = _ring_rows(len(bodies), capacity, slack)
        return NUMBER_BYTES * rows * sum(record_numbers(body) for body in bodies)

    @staticmethod
    def room(bodies: Sequence[Morphology], folder: Path | None = None) -> int:
        """Transitions, slack among them, that would fit into memory or on the folder's disk.

        Files of an earlier buffer in the folder count as free.
        """
        row_of_each = NUMBER_BYTES * sum(record_numbers(body) for body in bodies)
        return _available(folder) // row_of_each * len(bodies)

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(bodies,): transitions of each that may be sampled."""
        return np.minimum([ring.added for ring in self._rings], self.share)

    def add(
        self,
        body_index: NDArray[np.intp],
        obs: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_obs: NDArray[Any],
        terminated: NDArray[Any],
    ) -> None:
        """Store transitions: arrays (n, ...), padded as the vector environment gives them."""
        for index in np.unique(body_index):
            ring = self._rings[index]
            of_body = np.flatnonzero(body_index == index)
            n, m = ring.width, ring.action_dim
            for first in range(0, len(of_body), ring.rows):
                rows = of_body[first : first + ring.rows]
                records = np.empty((len(rows), ring.records.shape[1]), np.float32)
                records[:, :n] = obs[rows, :n]
                records[:, n : 2 * n] = next_obs[rows, :n]
                records[:, 2 * n : 2 * n + m] = actions[rows, :m]
                records[:, 2 * n + m] = rewards[rows]
                records[:, 2 * n + m + 1] = terminated[rows]
                ring.write(records)

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        body: int | None = None,
    ) -> Transitions:
        """Transitions drawn uniformly, with replacement, from all stored; or of one body."""
        order = self._order if body is None else np.array([body])
        ends = np.cumsum(self.sizes[order])
        if not ends[-1]:
            raise ValueError("nothing to sample: no transitions were added")
        drawn = np.sort(rng.integers(0, ends[-1], rows))
        stops = np.searchsorted(drawn, ends)
        starts = np.concatenate(([0], stops[:-1]))
        width, action_dim = self._width, self._action_dim
        if body is not None:
            width, action_dim = self._rings[body].width, self._rings[body].action_dim
        table = np.zeros((rows, 2 * width + action_dim + 2), np.float32)
        body_index = np.repeat(order, stops - starts)
        for index, end, start, stop in zip(order, ends, starts, stops, strict=True):
            if start == stop:
                continue
            ring = self._rings[index]
            n, m = ring.width, ring.action_dim
            # What is drawn below `end` counts back from the newest.
            numbers = drawn[start:stop] + (ring.added - end)
            records = ring.records.take(numbers % ring.rows, axis=0)
            part = table[start:stop]
            part[:, :n] = records[:, :n]
            part[:, width : width + n] = records[:, n : 2 * n]
            part[:, 2 * width : 2 * width + m] = records[:, 2 * n : 2 * n + m]
            part[:, -2:] = records[:, 2 * n + m : 2 * n + m + 2]
        values = torch.from_numpy(table).to(device)
        return Transitions(
            obs=values[:, :width],
            actions=values[:, 2 * width : 2 * width + action_dim],
            rewards=values[:, -2],
            next_obs=values[:, width : 2 * width],
            terminated=values[:, -1],
            body_index=body_index,
        )

    def flush(self) -> None:
        """Wait until the disk has all that was added. A killed process needs no flush."""
        for ring in self._rings:
            ring.flush()

    def state_dict(self) -> dict[str, Any]:
        """How far it is; what was added stays where it is."""
        return {
            "bodies": [body.name for body in self.bodies],
            "rows": [ring.rows for ring in self._rings],
            "added": [ring.added for ring in self._rings],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back, in the same buffer or with its files opened again, to a `state_dict`."""
        now = self.state_dict()
        if any(list(state[key]) != now[key] for key in ("bodies", "rows")):
            raise ValueError("this state is of a replay buffer of other bodies or another size")
        for ring, added in zip(self._rings, state["added"], strict=True):
            oldest = added - min(added, self.share)
            if added and not (ring.holds(oldest) and ring.holds(added - 1)):
                raise ValueError(
                    f"the stored transitions of {ring.body.name} are missing, or newer ones "
                    f"have taken their place: the slack was too small"
                )
        for ring, added in zip(self._rings, state["added"], strict=True):
            ring.added = added


def _ring_rows(bodies: int, capacity: int, slack: int) -> int:
    """Transitions kept of each body."""
    return capacity // bodies + -(-slack // bodies)
