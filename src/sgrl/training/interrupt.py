"""Being asked to stop, at a moment of one's own choosing; and going on when nobody reads."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO

SIGNALS = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))
)
STDERR = 2
"""Its file descriptor."""


class InterruptedTrainingError(Exception):
    """A signal asked to stop; the run was saved first."""

    def __init__(self, number: int, steps: int, run: Path) -> None:
        name = signal.Signals(number).name
        super().__init__(f"{name}: saved at {steps:,} steps. To go on: sgrl train --resume {run}")
        self.number = number


class SignalInterrupt(KeyboardInterrupt):
    """A signal, whichever it was, raised as Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Handlers:
    """A context in which the first of `SIGNALS` is handled, and a second stops at once.

    Ctrl-C is taken also where it was ignored, as below `nohup make` and in many CI runners: who
    sends it means it. A terminal that closes is not, where that is ignored: `nohup` asks for that.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Any:
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                before = signal.getsignal(number)
                if number in (signal.SIGINT, signal.SIGTERM) or before is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        for one, handler in self._before.items():
            if handler is signal.SIG_IGN:
                is_ctrl_c = one == signal.SIGINT
                handler = signal.default_int_handler if is_ctrl_c else signal.SIG_DFL
            signal.signal(one, handler)
        self._received(number)

    def _received(self, number: int) -> None:
        raise NotImplementedError


class StopRequest(_Handlers):
    """A context in which the first signal is noted and told, and a second acts as it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.signal: int | None = None
        """The signal that came, if one did."""

    def _received(self, number: int) -> None:
        self.signal = number
        name = signal.Signals(number).name
        # The line may have a progress bar on it. Not `print`, which this may have interrupted.
        with suppress(OSError, ValueError):  # nobody may listen any more
            start = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""
            line = f"{start}{name}: the run will be saved; a second signal stops at once\n"
            os.write(STDERR, line.encode())


class RaisedSignals(_Handlers):
    """A context in which the first signal is raised as SignalInterrupt, however this began."""

    def _received(self, number: int) -> None:
        raise SignalInterrupt(number)


@contextmanager
def output_may_close() -> Iterator[None]:
    """A context in which what is printed may go nowhere: its reader or its terminal is gone."""
    before = sys.stdout, sys.stderr
    # There is none where a process has no console.
    streams: list[Any] = [None if one is None else _Output(one) for one in before]
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        for one in filter(None, streams):
            one.flush()
        sys.stdout, sys.stderr = before


class _Output:
    """A stream that nobody has to read."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Nobody reads what is still in its buffer, nor what libraries print."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
