"""Several tabs on one page, one that breaks off, and none."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("viser")
import viser

from sgrl.viewer.server import LocalServer
from tests.viewer.drivers import Still
from tests.viewer.watching import PATIENCE, SIZE, WALKER, has_moved, opened, viewing, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_tabs_come_and_go(browser: Browser) -> None:
    with (
        browser.new_context(viewport=SIZE) as context,
        viewing(context, Still(), WALKER) as (viewer, first),
    ):
        simulation = viewer.simulation
        second = opened(context, viewer)
        wait_for(lambda: len(viewer.server.get_clients()) == 2, second, "both tabs")
        (robot,) = simulation.robots
        target = robot.target
        second.mouse.click(120, 330)
        wait_for(lambda: has_moved(robot, target), second, "the click")
        second.close()
        break_off(viewer.server)
        first.bring_to_front()
        wait_for(lambda: len(viewer.server.get_clients()) == 1, first, "the second tab to go")
        steps = simulation.steps
        wait_for(lambda: simulation.steps > steps + 20, first, "the first to go on")
        target = robot.target
        first.mouse.click(300, 330)
        wait_for(lambda: has_moved(robot, target), first, "its click")

        first.close()
        end = time.monotonic() + PATIENCE
        while viewer.server.get_clients():
            assert time.monotonic() < end, "the server notices that the tab is closed"
            time.sleep(0.05)
        # A frame that has begun may take its time to end.
        end, steps = time.monotonic() + PATIENCE, -1
        while simulation.steps != steps:
            assert time.monotonic() < end, "nobody watches, so nothing is computed"
            steps = simulation.steps
            time.sleep(1.0)
        third = opened(context, viewer)
        wait_for(lambda: simulation.steps > steps, third, "it to go on")


def test_a_body_that_the_list_of_bodies_lacks(browser: Browser) -> None:
    """Such as a mirror image: another one can be added."""
    image = "3d_walker_6_right_foot_mirrored"
    with (
        browser.new_context(viewport=SIZE) as context,
        viewing(context, Still(), image) as (viewer, page),
    ):
        simulation = viewer.simulation
        page.get_by_role("button", name="Add").click()
        wait_for(lambda: len(simulation.robots) == 2, page, "a second robot")
        assert [robot.whole.name for robot in simulation.robots] == [image, image]


def break_off(server: LocalServer) -> None:
    """Connect as a tab does, listen a little, and vanish without a good-bye."""
    host, port = server.get_host(), server.get_port()
    with socket.create_connection((host, port), timeout=PATIENCE) as connection:
        request = (
            f"GET {server.access.path} HTTP/1.1",
            f"Host: {host}:{port}",
            f"Origin: http://{host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: viser-v{viser.__version__}",
        )
        connection.sendall("\r\n".join((*request, "", "")).encode())
        heard = b""
        while len(heard) < 10_000:
            heard += connection.recv(4096)
        assert heard.startswith(b"HTTP/1.1 101")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
