"""Replays: one file that plays in a browser without any server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("viser")
from sgrl.morphology import get_body
from sgrl.viewer.driver import RandomDriver
from sgrl.viewer.replay_page import FPS, caption, write_replay
from sgrl.viewer.simulation import Simulation
from tests.viewer.drivers import Still
from tests.viewer.watching import CHEETAH, COARSE, PATIENCE, SIZE, colored, picture, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_replay_plays_from_disk_and_offline(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "new" / "replay.html"
    simulation = Simulation(RandomDriver(), [get_body(CHEETAH)])
    assert write_replay(path, simulation, seconds=12.0) == 12 * FPS
    assert simulation.time == pytest.approx(12.0, abs=2 / FPS)
    assert [found.name for found in path.parent.iterdir()] == ["replay.html"]
    asked: list[str] = []
    with browser.new_context(viewport=SIZE, offline=True) as context:
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.goto(path.as_uri() + COARSE)
        wait_for(lambda: colored(page, "cheetah").sum() > 100, page, "the cheetah")
        clock = page.locator("[role=slider]").first
        start, before = picture(page), clock.get_attribute("aria-valuenow")
        wait_for(lambda: clock.get_attribute("aria-valuenow") != before, page, "time to pass")
        wait_for(lambda: (picture(page) != start).any(), page, "the picture to move")
        assert float(clock.get_attribute("aria-valuemax") or 0) == pytest.approx(12.0, abs=0.1)
    outside = [url for url in asked if not url.startswith(("file:", "blob:", "data:"))]
    assert outside == []


def test_a_replay_is_an_html_file(tmp_path: Path) -> None:
    simulation = Simulation(Still(), [get_body(CHEETAH)])
    with pytest.raises(ValueError, match=r"a replay is an \.html file"):
        write_replay(tmp_path / "replay.mp4", simulation, seconds=1.0)
    assert not list(tmp_path.iterdir())


def test_a_replay_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(Still):
        def act(self, robots: object) -> list[np.ndarray]:  # type: ignore[override]
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_replay(tmp_path / "a.html", Simulation(Broken(), [get_body(CHEETAH)]), seconds=1.0)
    assert not list(tmp_path.iterdir())


def test_what_is_said_of_a_robot() -> None:
    (robot,) = Simulation(Still(), [get_body(CHEETAH)]).robots
    robot.speed, robot.total = 2.34, 56.7
    robot.aim(robot.xy + np.array([0.0, 5.0]))
    assert caption(robot) == "2.3 m/s  return 57  5.0 m to go"
