"""A page on its server in a tab of a real browser, and what can be seen there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sgrl.morphology import FAMILIES, get_body
from sgrl.viewer.driver import Driver
from sgrl.viewer.live_page import Page as ViewerPage
from sgrl.viewer.robot import XY, Robot
from sgrl.viewer.server import LocalServer, start_server
from sgrl.viewer.simulation import Simulation

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

CHEETAH, WALKER = "3d_cheetah_14_full", "3d_walker_7_full"
SIZE = {"width": 760, "height": 480}
SCENE = (0, 190, 430, 480)
"""Pixels left, top, right, bottom of where robots are; beside it is the panel, above it the
browser's warning that it draws in software."""
COARSE = "?fixedDpr=0.5"
"""Fewer pixels, for the same reason."""
PATIENCE = 180.0
"""Seconds; a browser that draws in software on a busy machine is slow."""


def wait_for(
    condition: Callable[[], object], page: Page, what: str, patience: float = PATIENCE
) -> None:
    """Let the page go on until something holds."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"waited {patience:g} s for {what}"
        page.wait_for_timeout(50)


def has_moved(robot: Robot, before: XY) -> bool:
    """Whether its target has. It stays, but for rounding, where a robot falls and gets up."""
    return bool(np.hypot(*(robot.target - before)) > 1e-3)


class Viewer:
    """A page on its server, run by a thread as `sgrl view` does."""

    def __init__(self, driver: Driver, *bodies: str, paused: bool = False) -> None:
        self.simulation = Simulation(driver, [get_body(body) for body in bodies])
        self.server: LocalServer = start_server("127.0.0.1", 8720, "sgrl")
        self.page = ViewerPage(self.server, self.simulation)
        self.page.panel.paused = paused
        self.url = self.server.url + COARSE
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.page.run, args=(self._stop,))
        self._thread.start()

    def pause(self, paused: bool) -> None:
        """Hold time still, or let it go on, from the next frame on."""
        self.page.do(lambda: setattr(self.page.panel, "paused", paused))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.server.stop()


@contextmanager
def held(viewer: Viewer, page: Page) -> Iterator[Robot]:
    """Time stands still, and the robot in the middle of the picture.

    Whatever is done then has one outcome, however slow the machine and wherever the robot was.
    """
    robot = viewer.page.panel.selected
    viewer.pause(True)
    wait_for(lambda: viewer.page.panel.paused, page, "the pause")
    middle = np.zeros(2)
    wait_for(
        lambda: np.allclose(viewer.page.stage.to_world(middle), robot.xy, atol=0.01),
        page,
        "the camera to be there",
    )
    try:
        yield robot
    finally:
        viewer.pause(False)


@contextmanager
def viewing(
    context: BrowserContext, driver: Driver, *bodies: str, paused: bool = False
) -> Iterator[tuple[Viewer, Page]]:
    """A viewer, and a tab that shows it."""
    viewer = Viewer(driver, *bodies, paused=paused)
    try:
        yield viewer, opened(context, viewer)
    finally:
        viewer.close()


def opened(context: BrowserContext, viewer: Viewer) -> Page:
    """A tab in which the robot can be seen."""
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(viewer.url)
    family = viewer.simulation.robots[0].whole.family
    wait_for(lambda: colored(page, family).sum() > 100, page, f"the {family} to be drawn")
    return page


def picture(page: Page) -> NDArray[np.uint8]:
    """The scene, (height, width, 3)."""
    left, top, right, bottom = SCENE
    part = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    return np.asarray(Image.open(BytesIO(page.screenshot(clip=part))).convert("RGB"))


def colored(page: Page, family: str) -> NDArray[np.bool_]:
    """Pixels of a family's hue in any light, (height, width); ground and sky are grey."""
    pixels = picture(page).astype(float) / 255
    hue = pixels - pixels.mean(axis=-1, keepdims=True)
    wanted = np.array(FAMILIES[family].color[:3])
    wanted = wanted - wanted.mean()
    likeness = hue @ wanted / (np.linalg.norm(hue, axis=-1) * np.linalg.norm(wanted) + 1e-9)
    return (likeness > 0.95) & (np.ptp(pixels, axis=-1) > 0.15)
