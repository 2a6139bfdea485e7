"""Addresses and ports."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("viser")
from sgrl.morphology import get_body
from sgrl.viewer.live_page import Page
from sgrl.viewer.server import free_port, start_server
from sgrl.viewer.simulation import Simulation
from tests.viewer.drivers import Still


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that something listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_next_port_if_one_is_in_use(taken: int) -> None:
    port = free_port("127.0.0.1", taken)
    assert taken < port < taken + 50
    assert free_port("127.0.0.1", port) == port


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_ports_that_there_are_not(port: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 65535"):
        free_port("127.0.0.1", port)


def test_no_port_left(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgrl.viewer.server.PORTS_TRIED", 1)
    with pytest.raises(ValueError, match=f"no free port from {taken} to {taken}"):
        free_port("127.0.0.1", taken)


@pytest.mark.parametrize("host", ["192.0.2.7", "no.such.host.invalid", "not an address"])
def test_addresses_of_others(host: str) -> None:
    with pytest.raises(ValueError, match=r"listen|not an address"):
        free_port(host, 8080)


def test_a_port_for_administrators(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("socket.socket.bind", refused)
    with pytest.raises(ValueError, match="port 80 needs the rights of an administrator"):
        free_port("127.0.0.1", 80)


def test_the_page_can_not_be_published(capsys: pytest.CaptureFixture[str]) -> None:
    server = start_server("127.0.0.1", 8700, "title")
    try:
        assert server.get_host() == "127.0.0.1"
        assert server.request_share_url() is None
    finally:
        server.stop()
    assert capsys.readouterr().out == ""


def test_a_connection_that_says_nothing_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    server = start_server("127.0.0.1", 8700, "title")
    try:
        socket.create_connection(("127.0.0.1", server.get_port())).close()
        time.sleep(1.0)  # for news to come
    finally:
        server.stop()
    assert [record.name for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_choice_that_has_gone_is_a_note_on_the_page() -> None:
    """Another tab may have removed the robot that is chosen here."""
    server = start_server("127.0.0.1", 8700, "title")
    try:
        page = Page(server, Simulation(Still(), [get_body("3d_walker_7_full")]))
        before = page.panel.selected
        page.do(lambda: page.panel._select("2: 3d_walker_7_full"))
        page.frame()
        assert page.panel.selected is before
    finally:
        server.stop()
