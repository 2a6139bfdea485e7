"""A viewer that runs: its server, its page, and the browser that is opened on it."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sgrl.envs.rendering import has_display
from sgrl.envs.variant import Variant
from sgrl.morphology import Morphology
from sgrl.viewer.choice import make_simulation, need_viser
from sgrl.viewer.simulation import Simulation

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy

PORT = 8080


class LiveViewer:
    """Robots on a page that is served until it is closed."""

    def __init__(self, simulation: Simulation, host: str = "127.0.0.1", port: int = PORT) -> None:
        need_viser()
        from sgrl.viewer.live_page import Page
        from sgrl.viewer.server import start_server

        self.simulation = simulation
        self._server = start_server(host, port, f"{simulation.driver.name} · sgrl")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._page = Page(self._server, simulation)
        except BaseException:
            self._server.stop()
            raise

    def __repr__(self) -> str:
        return f"<{self.simulation.driver.name} at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">{escape(self.simulation.driver.name)}</a>'

    @property
    def url(self) -> str:
        """The address of the page; whoever has it may use the page."""
        return self._server.url

    @property
    def port(self) -> int:
        """Where it is served, which is another one than was asked for if that was in use."""
        return self._server.get_port()

    def open_browser(self) -> bool:
        """Open the page in the user's browser; False where there is no screen or no browser."""
        # In a terminal alone a browser for text could start, which shows nothing of this.
        return has_display() and webbrowser.open(self._server.ticket_url)

    def run(self) -> None:
        """Go on until it is closed or interrupted."""
        try:
            self._page.run(self._stop)
        finally:
            self._server.stop()

    def start(self) -> None:
        """Go on in the background."""
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


def view(
    policy: str | Path | TrainedPolicy | None = None,
    bodies: Sequence[str | Morphology] = (),
    *,
    port: int = PORT,
    open_browser: bool = True,
    variant: Variant = "v2",
    seed: int = 0,
    block: bool | None = None,
) -> LiveViewer:
    """Drive robots in the browser, as `sgrl view` does: click on the ground, and they run there.

    `policy` is one that was loaded, a run, or the name of a policy that ships; without one, the
    best that ships. `bodies` are those to begin with. The call returns when it is interrupted, but
    in a notebook or at a prompt (or with `block=False`) at once: `close()` of its result ends it.
    """
    viewer = LiveViewer(make_simulation(policy, bodies, variant, seed, roams=False), port=port)
    if not (open_browser and viewer.open_browser()):
        print(f"{viewer.simulation.driver.name} at {viewer.url}", flush=True)
    if block is None:
        block = not hasattr(sys, "ps1") and "ipykernel" not in sys.modules
    if not block:
        viewer.start()
        return viewer
    try:
        viewer.run()
    except KeyboardInterrupt:
        viewer.close()
    return viewer
