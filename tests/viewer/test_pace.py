"""Real time against a clock that the test turns."""

from __future__ import annotations

import pytest

from sgrl.viewer.pace import LONGEST_STEP, Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_simulated_time_is_the_time_that_has_passed() -> None:
    clock = Clock()
    pace = Pace(clock)
    total = 0.0
    for passed in (0.03, 0.01, 0.05, 0.04) * 30:
        clock.now += passed
        total += pace.due()
    assert total == pytest.approx(clock.now - 100)
    assert pace.achieved == pytest.approx(1.0)
    assert pace.keeps_up


def test_slow_motion_is_not_falling_behind() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.speed = 0.25
    for _ in range(50):
        clock.now += 0.04
        assert pace.due() == pytest.approx(0.01)
    assert pace.achieved == pytest.approx(0.25)
    assert pace.keeps_up


def test_a_slow_machine_slows_down_and_is_told() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(50):
        clock.now += 3 * LONGEST_STEP
        assert pace.due() == LONGEST_STEP
    assert pace.achieved == pytest.approx(1 / 3)
    assert not pace.keeps_up
    for _ in range(100):
        clock.now += 0.03
        pace.due()
    assert pace.keeps_up, "what is long past does not count"


def test_a_pause_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now += 60
    pace.restart()
    clock.now += 0.02
    assert pace.due() == pytest.approx(0.02)
    assert pace.keeps_up
