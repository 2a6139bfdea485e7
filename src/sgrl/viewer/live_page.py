"""The live page: runs the simulation while somebody watches, and does what they ask for."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable

import viser

from sgrl.viewer import readout
from sgrl.viewer.keys import bind_keys
from sgrl.viewer.limb_colors import Colors, action_colors, attention_colors, body_colors
from sgrl.viewer.pace import Pace
from sgrl.viewer.panel import Panel
from sgrl.viewer.simulation import Simulation, ground_point
from sgrl.viewer.stage import Stage

FRAME = 1 / 30
"""Seconds between two pictures."""
NUMBERS_EVERY = 6
"""Pictures between two updates of the numbers; faster could not be read."""
MAX_WISHES = 200
"""That wait to be fulfilled between two pictures; more are forgotten."""
IDLE = 0.1
"""Seconds between two looks whether somebody has come."""

_log = logging.getLogger(__name__)


class Page:
    """A simulation, its scene and its panel on one server."""

    def __init__(self, server: viser.ViserServer, simulation: Simulation) -> None:
        self.simulation = simulation
        self._wishes: queue.Queue[Callable[[], None]] = queue.Queue(MAX_WISHES)
        self.pace = Pace()
        self.stage = Stage(server, len(simulation.robots))
        self.panel = Panel(server, simulation, self.pace, self.do)
        bind_keys(server.gui, simulation, self.panel, self.do)
        self._server = server
        self._frames = 0
        self._colors: list[Colors] = []

        @server.scene.on_click()
        def _(event: viser.SceneClickEvent) -> None:
            xy = ground_point(event.ray_origin, event.ray_direction)
            if xy is not None:
                self.do(lambda: simulation.aim(self.stage.to_world(xy), self.panel.selected))

    def do(self, wish: Callable[[], None]) -> None:
        """Have something done between two frames; from any thread."""
        with contextlib.suppress(queue.Full):
            self._wishes.put_nowait(wish)

    def run(self, stop: threading.Event) -> None:
        """Go on until `stop` is set. With nobody watching nothing is computed."""
        while not stop.is_set():
            if not self._server.get_clients():
                self.pace.restart()
                stop.wait(IDLE)
                continue
            began = time.monotonic()
            self.frame()
            stop.wait(max(0.0, began + FRAME - time.monotonic()))

    def frame(self) -> None:
        """One picture: do what was asked for, simulate what is due, and show it."""
        self._fulfil_wishes()
        if not self.panel.paused:
            self.simulation.advance(self.pace.due())
        robots = self.simulation.robots
        labels = [readout.name(*one) for one in enumerate(robots, 1)] if len(robots) > 1 else []
        with self._server.atomic():
            self.stage.draw(
                robots,
                self._limb_colors(),
                follow=self.panel.selected if self.panel.follows else None,
                labels=labels,
            )
            if self._frames % NUMBERS_EVERY == 0:
                self.panel.refresh_numbers()
        self._frames += 1

    def _fulfil_wishes(self) -> None:
        while True:
            try:
                wish = self._wishes.get_nowait()
            except queue.Empty:
                return
            try:
                wish()
            except ValueError as error:
                self._tell("Not possible", str(error))
            except Exception as error:
                _log.exception("what was asked for on the page failed")
                self._tell("That failed", f"{type(error).__name__}: {error}")

    def _tell(self, title: str, text: str) -> None:
        """Show a note to all who watch, and the controls as things are."""
        self.panel.refresh_robots()
        for client in self._server.get_clients().values():
            client.add_notification(title, text, auto_close_seconds=8)

    def _limb_colors(self) -> list[Colors]:
        robots = self.simulation.robots
        if self.panel.coloring == "action":
            return [action_colors(robot.limb_actions) for robot in robots]
        if self.panel.coloring == "attention":
            # Dear, and it changes slowly enough.
            sizes = [robot.body.num_limbs for robot in robots]
            if self._frames % 3 == 0 or sizes != [len(colors) for colors in self._colors]:
                self._colors = [attention_colors(one) for one in self.simulation.attention()]
            return self._colors
        return [body_colors(robot.body, robot.color) for robot in robots]
