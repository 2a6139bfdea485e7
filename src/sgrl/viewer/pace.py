"""Real time: how much to simulate now, and what to say when the machine can't keep up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

LONGEST_STEP = 0.06
"""Seconds; a delay beyond this is not made up for, so that all robots slow down alike."""
WINDOW = 2.0
"""Seconds over which the pace is measured."""


class Pace:
    """Turns the time that has passed into time to simulate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.speed = 1.0
        """Simulated seconds per second that are wanted; less is slow motion."""
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Forget the time that has passed, after a pause."""
        self._last = self._clock()
        self._history: deque[tuple[float, float]] = deque([(self._last, 0.0)])
        self._simulated = 0.0

    def due(self) -> float:
        """Seconds to simulate now."""
        now = self._clock()
        seconds = min(now - self._last, LONGEST_STEP) * self.speed
        self._last = now
        self._simulated += seconds
        self._history.append((now, self._simulated))
        while now - self._history[0][0] > WINDOW:
            self._history.popleft()
        return seconds

    @property
    def achieved(self) -> float:
        """Simulated seconds per second of late."""
        (start, before), (end, after) = self._history[0], self._history[-1]
        return (after - before) / (end - start) if end > start else self.speed

    @property
    def keeps_up(self) -> bool:
        """Whether it is about as fast as wanted."""
        return self.achieved > 0.95 * self.speed
