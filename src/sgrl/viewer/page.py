"""The live page: runs the simulation while somebody watches, and does what they ask for."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable

import viser

from sgrl.viewer.colours import Colours, action_colours, attention_colours, body_colours
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
        self._server = server
        self._frames = 0
        self._colours: list[Colours] = []

        @server.scene.on_click()
        def _(event: viser.SceneClickEvent) -> None:
            place = ground_point(event.ray_origin, event.ray_direction)
            if place is not None:
                self.do(lambda: simulation.aim(self.stage.to_world(place)))

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
        labels = [f"{i}" for i in range(1, len(robots) + 1)] if len(robots) > 1 else []
        with self._server.atomic():
            self.stage.draw(
                robots,
                self._limb_colours(),
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

    def _limb_colours(self) -> list[Colours]:
        robots = self.simulation.robots
        if self.panel.colouring == "action":
            return [action_colours(robot.limb_actions) for robot in robots]
        if self.panel.colouring == "attention":
            # Dear, and it changes slowly enough.
            sizes = [robot.body.num_limbs for robot in robots]
            if self._frames % 3 == 0 or sizes != [len(colours) for colours in self._colours]:
                self._colours = [attention_colours(one) for one in self.simulation.attention()]
            return self._colours
        return [body_colours(robot.body) for robot in robots]
