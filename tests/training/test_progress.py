"""The bar and the lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from sgrl.training.progress import TrainingProgress, format_seconds


def show(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160, color_system=None)
    with TrainingProgress(100, 1000, console) as progress:
        assert not progress.due()
        now += 10.0
        assert progress.due()
        progress.update(200, {"hopper": 12.34, "walker": -1.0})
        assert not progress.due()
    return out.getvalue()


def test_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "200 of 1,000 steps, 10 steps/s, 1 min left, return hopper 12.3, walker -1.0\n"
    assert show(False, monkeypatch) == expected


def test_a_narrow_terminal_shows_four_families() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    returns = {"cheetah": -10569.26, "walker": -1018.04, "humanoid": -2283.1, "hopper": 1185.33}
    with TrainingProgress(29_000_000, 30_000_000, console) as progress:
        progress.update(29_999_000, returns, seconds_left=1e9)
        shown = out.getvalue()
    assert re.search(r"29999000/30000000 [\d,]+ steps/s [\d:]+ \d+ s left\n", shown)
    told = "return cheetah -10569.3, walker -1018.0, humanoid -2283.1, hopper 1185.3"
    assert told in shown
    assert "━" in shown, "nothing is left of the bar"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = show(True, monkeypatch)
    assert "200/1000" in shown
    assert "10 steps/s" in shown
    assert "return hopper 12.3, walker -1.0" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_the_time_left_is_that_at_the_rate_of_late(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SAC does: quick at first, by random actions, and slow from the first update on."""
    now, steps, lines = 1000.0, 0, []
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160, color_system=None)
    with TrainingProgress(0, 100_000, console) as progress:
        for second in range(200):
            now += 1.0
            steps += 5_000 if second < 2 else 50
            # A limit of time changes the total at every update.
            progress.update(steps, {}, seconds_left=3_000.0 - second)
            lines.append(out.getvalue().splitlines()[-2 if terminal else -1])
        assert "27 min left" in lines[-1], "80,100 steps, 50 a second; the limit comes later"
        now += 1.0
        progress.update(steps, {}, seconds_left=600.0)
        assert "10 min left" in out.getvalue().splitlines()[-2 if terminal else -1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (59.7, "60 s"), (185, "3 min"), (7500, "2 h 05 min"), (100_000, "1 d 3 h")],
)
def test_time_left(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
