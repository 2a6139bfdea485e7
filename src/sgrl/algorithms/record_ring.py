"""A ring of records in memory, or in a file that outlives a kill, and whether it fits there.

Imports no torch.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RecordRing:
    """The newest `rows` records of one type, whose field `serial` counts them from 1.

    It starts again after the largest number that the field holds; a record that was not written yet
    has 0.
    """

    def __init__(self, kind: np.dtype[Any], rows: int, path: Path | None) -> None:
        self.rows, self.added = rows, 0
        self._most = int(np.iinfo(kind["serial"]).max)
        self._file: int | None = None
        self.records: NDArray[Any]
        if path is None:
            # Pages of zeros are only taken when they are written.
            self.records = np.zeros(rows, kind)
            return
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        weakref.finalize(self, os.close, self._file)
        size, expected = os.fstat(self._file).st_size, rows * kind.itemsize
        if size == 0:
            os.ftruncate(self._file, expected)
        elif size != expected:
            short = "it is truncated, or " if size < expected else "it "
            raise ValueError(
                f"{path} holds {size:,} bytes, not {expected:,}: {short}was written for another "
                f"body, capacity or slack"
            )
        self.records = np.memmap(path, kind, "r", shape=(rows,))

    def append(self, records: NDArray[Any]) -> None:
        """Add records, in place of the oldest."""
        records["serial"] = 1 + (self.added + np.arange(len(records))) % self._most
        for first in range(0, len(records), self.rows):
            part = records[first : first + self.rows]
            start = self.added % self.rows
            before_end = min(len(part), self.rows - start)
            self._put(start, part[:before_end])
            self._put(0, part[before_end:])
            self.added += len(part)

    def _put(self, start: int, records: NDArray[Any]) -> None:
        if not len(records):
            return
        if self._file is None:
            self.records[start : start + len(records)] = records
            return
        # Not through the memory map: there, a full disk would kill the process instead of
        # raising OSError.
        left = memoryview(records.tobytes())
        offset = start * self.records.itemsize
        while left:
            written = os.pwrite(self._file, left, offset)
            left, offset = left[written:], offset + written

    def holds(self, number: int) -> bool:
        """Whether the record that was added after `number` others is (still) there."""
        return int(self.records["serial"][number % self.rows]) == 1 + number % self._most

    def check_holds(self, added: int, share: int, name: str) -> None:
        """ValueError unless the newest `share` of the first `added` records are there."""
        oldest = max(0, added - share)
        if added and not (self.holds(oldest) or self.records["serial"].any()):
            raise ValueError(
                f"what was stored of {name} is gone, as it is after a finished training of a grid: "
                "start a new run from its weights, with --init-from"
            )
        if added and not (self.holds(oldest) and self.holds(added - 1)):
            raise ValueError(
                f"what was stored of {name} is missing, or newer records have taken its place: the "
                "slack was too small"
            )

    def flush(self) -> None:
        """Wait until the disk has it."""
        if self._file is not None:
            os.fsync(self._file)


def free_bytes(folder: Path | None) -> int:
    """Bytes that are free in memory or, with a folder, on its disk; files in it count as free."""
    if folder is not None:
        replaced = sum(path.stat().st_blocks * 512 for path in folder.iterdir() if path.is_file())
        return shutil.disk_usage(folder).free + replaced
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found:
        return 1024 * int(found[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def make_room(kinds: Sequence[np.dtype[Any]], rows: int, folder: Path | None, what: str) -> int:
    """Bytes of rings of so many rows, one of each kind; ValueError if they don't fit in memory.

    With a folder, which is made, on its disk.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    needed = rows * sum(kind.itemsize for kind in kinds)
    if needed > (free := free_bytes(folder)):
        where = "memory" if folder is None else f"the disk of {folder}"
        raise ValueError(
            f"{what} takes {needed / 1e9:.2f} GB and does not fit in {where}, which has "
            f"{free / 1e9:.2f} GB; take a smaller buffer_size, checkpoint_every or keep"
        )
    return needed


def check_sizes(bodies: int, capacity: int, slack: int) -> None:
    """ValueError unless a buffer can be of these sizes."""
    if not bodies or capacity < bodies or slack < 0:
        raise ValueError(
            f"a replay buffer needs bodies, room for a transition of each and no negative "
            f"slack; got {bodies} bodies, capacity {capacity}, slack {slack}"
        )
