"""What a training shows meanwhile: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

REFRESH_SECONDS = 0.25
"""Between changes of the bar."""
LINE_SECONDS = 10.0
"""Between plain lines, at least."""
BAR_WIDTH = 24
"""Columns of the bar, where there is room."""
RATE_SECONDS = 60.0
"""Time that steps per second, and so the time left, are counted over."""


def make_console() -> Console:
    """The standard output; lines are left as they are where it is not a terminal."""
    return Console(soft_wrap=True, highlight=False)


class _Bar(Progress):
    """The returns have a line of their own: 80 columns do not hold four families besides."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            yield Text(task.fields["returns"], no_wrap=True, overflow="ellipsis")


class TrainingProgress:
    """A context that shows how far a training is, from `start` to `goal` steps."""

    def __init__(self, start: int, goal: int, console: Console) -> None:
        self.console = console
        self._goal = goal
        self._shown = time.monotonic()
        self._recent = deque([(self._shown, start)])
        self._bar: Progress | None = None
        if self.console.is_terminal:
            self._bar = _Bar(
                # Without a width of its own it is what gives way on a narrow terminal.
                BarColumn(bar_width=None, table_column=Column(max_width=BAR_WIDTH)),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                # Not rich's own column, which forgets the rate whenever the total changes.
                TextColumn("{task.fields[left]}"),
                console=self.console,
                transient=True,
                auto_refresh=False,
            )
            self._task = self._bar.add_task(
                "", total=goal, completed=start, rate="", left="", returns="warming up"
            )

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def due(self) -> bool:
        """Whether `update` would show anything new: its arguments take time to make."""
        interval = LINE_SECONDS if self._bar is None else REFRESH_SECONDS
        return time.monotonic() - self._shown >= interval

    def update(
        self, steps: int, returns: Mapping[str, float], seconds_left: float = math.inf
    ) -> None:
        """Show the steps and recent returns by family; it ends in `seconds_left` at the latest."""
        now = self._shown = time.monotonic()
        while len(self._recent) > 1 and now - self._recent[0][0] > RATE_SECONDS:
            self._recent.popleft()
        since, before = self._recent[0]
        rate = (steps - before) / max(now - since, 1e-9)
        self._recent.append((now, steps))
        by_steps = max(0, self._goal - steps) / rate if rate else math.inf
        seconds = min(by_steps, seconds_left)
        left = f"{format_seconds(seconds)} left" if seconds < math.inf else "time left unknown"
        shown = "return " + ", ".join(f"{name} {value:.1f}" for name, value in returns.items())
        if self._bar is not None:
            # With a limit of time, the whole is what will be done by then.
            total = min(self._goal, steps + round(rate * min(seconds_left, 1e9)))
            self._bar.update(
                self._task,
                completed=steps,
                total=max(total, steps),
                rate=f"{rate:,.0f} steps/s",
                left=left,
                returns=shown if returns else "no episode yet",
                refresh=True,
            )
            return
        done = (
            f"{steps:,} of {self._goal:,} steps" if by_steps <= seconds_left else f"{steps:,} steps"
        )
        line = f"{done}, {rate:,.0f} steps/s, {left}"
        self.console.print(f"{line}, {shown}" if returns else line, markup=False)


def format_seconds(seconds: float) -> str:
    """A duration in words: 5 s, 3 min, 2 h 05 min or 1 d 4 h."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
