"""A ring of records in memory, or in a file that outlives a kill. Imports no torch."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RecordRing:
    """The newest `rows` records of one type, whose field `serial` counts them from 1."""

    def __init__(self, kind: np.dtype[Any], rows: int, path: Path | None) -> None:
        self.rows, self.added = rows, 0
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
        records["serial"] = 1 + self.added + np.arange(len(records))
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
        return int(self.records["serial"][number % self.rows]) == 1 + number

    def check_holds(self, added: int, share: int, name: str) -> None:
        """ValueError unless the newest `share` of the first `added` records are there."""
        oldest = max(0, added - share)
        if added and not (self.holds(oldest) and self.holds(added - 1)):
            raise ValueError(
                f"what was stored of {name} is missing, or newer records have taken its place: the "
                "slack was too small"
            )

    def flush(self) -> None:
        """Wait until the disk has it."""
        if self._file is not None:
            os.fsync(self._file)
