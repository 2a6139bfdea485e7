"""What a page of another origin can do with the viewer in the same browser: nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("viser")
import viser

from tests.conftest import REBOUND
from tests.viewer.drivers import Still
from tests.viewer.watching import SIZE, WALKER, Viewer, viewing, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OPENS = """
([url, protocol]) => new Promise(resolve => {
    const socket = new WebSocket(url, [protocol]);
    socket.onopen = () => { socket.close(); resolve("open"); };
    socket.onerror = () => resolve("refused");
})
"""
READS = """
url => fetch(url, {credentials: "include"}).then(answer => answer.text(), () => "refused")
"""
EMBEDS = """
url => new Promise(resolve => {
    const frame = document.createElement("iframe");
    frame.src = url;
    frame.onload = () => resolve(true);
    document.body.append(frame);
})
"""
PROTOCOL = f"viser-v{viser.__version__}"


class Blank(BaseHTTPRequestHandler):
    """An empty page, whatever is asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title><body></body>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of another server on this machine, which is another origin."""
    server = HTTPServer(("127.0.0.1", 0), Blank)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running() -> Iterator[Viewer]:
    """A viewer without a tab."""
    viewer = Viewer(Still(), WALKER)
    try:
        yield viewer
    finally:
        viewer.close()


def test_a_page_of_another_origin_reaches_nothing(browser: Browser, elsewhere: str) -> None:
    """Not even one that knows the whole address."""
    with (
        browser.new_context(viewport=SIZE) as context,
        viewing(context, Still(), WALKER) as (viewer, page),
    ):
        (robot,) = viewer.simulation.robots
        target, clients = robot.target, set(viewer.server.get_clients())
        other = context.new_page()
        other.goto(elsewhere)
        root = f"http://127.0.0.1:{viewer.server.get_port()}/"
        for url in (root, viewer.server.url):
            address = url.replace("http:", "ws:")
            assert other.evaluate(OPENS, [address, PROTOCOL]) == "refused"
            assert other.evaluate(READS, url) == "refused"
        assert page.evaluate(OPENS, [viewer.server.url.replace("http:", "ws:"), PROTOCOL]) == "open"
        assert "<div id" in page.evaluate(READS, viewer.server.url)
        other.evaluate(EMBEDS, viewer.server.url)
        other.wait_for_timeout(1000)
        (frame,) = [frame for frame in other.frames if frame != other.main_frame]
        assert frame.locator("canvas").count() == 0
        assert set(viewer.server.get_clients()) == clients
        assert (robot.target == target).all()
        page.bring_to_front()
        steps = viewer.simulation.steps
        wait_for(lambda: viewer.simulation.steps > steps, page, "the page to go on")


def test_a_name_that_was_rebound_reaches_nothing(browser: Browser) -> None:
    with browser.new_context(viewport=SIZE) as context, running() as viewer:
        page = context.new_page()
        url = viewer.server.url.replace("127.0.0.1", REBOUND)
        answer = page.goto(url)
        assert answer is not None
        assert answer.status == 403
        assert REBOUND in answer.url
        assert page.evaluate(OPENS, [url.replace("http:", "ws:"), PROTOCOL]) == "refused"
        assert page.goto(viewer.server.url).status == 200  # type: ignore[union-attr]


def test_the_page_may_ask_nobody_else(browser: Browser, elsewhere: str) -> None:
    """Should a name or a note ever bring markup in, it can't call home."""
    with browser.new_context(viewport=SIZE) as context, running() as viewer:
        page = context.new_page()
        page.goto(viewer.server.url)
        assert page.evaluate(READS, elsewhere) == "refused"
        assert page.evaluate(OPENS, [elsewhere.replace("http:", "ws:"), PROTOCOL]) == "refused"
        refused = page.evaluate(
            """
            url => new Promise(resolve => {
                const image = new Image();
                image.onload = () => resolve(false);
                document.addEventListener("securitypolicyviolation", () => resolve(true));
                image.src = url;
                document.body.append(image);
            })
            """,
            elsewhere,
        )
        assert refused


def test_the_address_stays_as_it_was_opened(browser: Browser) -> None:
    with browser.new_context(viewport=SIZE) as context, running() as viewer:
        page = context.new_page()
        page.goto(viewer.server.ticket_url)
        wait_for(lambda: viewer.server.get_clients(), page, "the page to connect")
        assert page.url == viewer.server.url
