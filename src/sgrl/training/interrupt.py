"""Being asked to stop by Ctrl-C or SIGTERM, at a moment of one's own choosing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STDERR = 2
"""Its file descriptor."""


class InterruptedTrainingError(Exception):
    """A signal asked to stop; the run was saved first."""

    def __init__(self, number: int, steps: int, run: Path) -> None:
        name = signal.Signals(number).name
        super().__init__(f"{name}: saved at {steps:,} steps. To go on: sgrl train --resume {run}")
        self.number = number


class StopRequest:
    """A context in which the first signal is noted and told, and a second acts as it would have."""

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that came, if one did."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._put_back()
        name = signal.Signals(number).name
        # The line may have a progress bar on it. Not `print`, which this may have interrupted.
        start = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""
        line = f"{start}{name}: the run will be saved; a second signal stops at once\n"
        with suppress(OSError):  # nobody may listen any more
            os.write(STDERR, line.encode())

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
