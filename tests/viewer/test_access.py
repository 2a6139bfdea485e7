"""Who is let in: plain requests and WebSockets, as other programs and other pages send them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPMessage
from typing import NamedTuple

import msgspec
import pytest

pytest.importorskip("viser")
import viser
import websockets
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from sgrl.morphology import get_body
from sgrl.viewer.access import is_loopback
from sgrl.viewer.live_page import Page
from sgrl.viewer.server import MAX_CLIENTS, MAX_MESSAGE, MAX_RATE, LocalServer, start_server
from sgrl.viewer.simulation import Simulation
from tests.viewer.drivers import Still

PROTOCOL = f"viser-v{viser.__version__}"
PATIENCE = 30.0
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (0.0, -3.0, 2.0),
    "fov": 1.0,
    "near": 0.01,
    "far": 1000,
    "image_height": 480,
    "image_width": 640,
    "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A page that draws a frame when a test says so."""
    server = start_server("127.0.0.1", 8740, "<b>title</b> & more")
    try:
        yield Page(server, Simulation(Still(), [get_body("3d_walker_7_full")]))
    finally:
        server.stop()


@pytest.fixture
def server(page: Page) -> LocalServer:
    assert isinstance(page._server, LocalServer)
    return page._server


class Answer(NamedTuple):
    """To a plain request."""

    status: int
    headers: HTTPMessage
    text: str = ""


def get(server: LocalServer, path: str, **headers: str) -> Answer:
    """Ask for a path."""
    connection = HTTPConnection("127.0.0.1", server.get_port(), timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            # What follows an upgrade has no end.
            text = "" if answer.status == 101 else answer.read().decode()
            return Answer(answer.status, answer.headers, text)
    finally:
        connection.close()


def upgrade(server: LocalServer, path: str | None = None, **headers: str) -> int:
    """The status of an attempt to open a WebSocket; a header that is empty is left out."""
    host = f"127.0.0.1:{server.get_port()}"
    wanted = {
        "Host": host,
        "Origin": f"http://{host}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": PROTOCOL,
        **headers,
    }
    given = {name: value for name, value in wanted.items() if value}
    return get(server, path or server.access.path, **given).status


def tab(server: LocalServer, watches: bool = True) -> ClientConnection:
    """A WebSocket as a tab of the page opens it, once those of other tests are gone."""
    if watches:
        wait_for(lambda: not server.get_clients())
    connection = connect(
        server.url.replace("http:", "ws:"),
        origin=Origin(f"http://127.0.0.1:{server.get_port()}"),
        subprotocols=[Subprotocol(PROTOCOL)],
        compression=None,
        max_size=None,
    )
    if watches:
        send(connection, CAMERA)
        wait_for(lambda: server.get_clients())
    return connection


def send(connection: ClientConnection, message: object) -> None:
    connection.send(msgspec.msgpack.encode(message))


def listen(connection: ClientConnection) -> None:
    """Until the server closes the connection."""
    while True:
        connection.recv(timeout=PATIENCE)


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_page_has_a_path_that_nobody_guesses(server: LocalServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.get_port()}{server.access.path}"
    assert re.fullmatch(r"/[\w-]{32}/", server.access.path)
    answer = get(server, server.access.path)
    assert answer.status == 200
    assert "<title>&lt;b&gt;title&lt;/b&gt; &amp; more</title>" in answer.text
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert upgrade(server) == 101


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/..%2f..%2findex.html", "/none/", "/%ff", "/?token"]
)
def test_other_paths_are_refused(server: LocalServer, path: str) -> None:
    answer = get(server, path)
    assert answer.status == 403
    assert "Open the one that `sgrl view` has printed" in answer.text
    assert upgrade(server, path) == 403


def test_a_token_that_is_almost_right(server: LocalServer) -> None:
    path = server.access.path
    for other in (path[:-2] + "/", path[:-1] + "x/", path.swapcase()):
        assert upgrade(server, other) == 403
    assert upgrade(server, path[:-1]) == 101, "the page leaves the last stroke out"


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "ftp://127.0.0.1:{port}",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_other_origins_are_refused(server: LocalServer, origin: str) -> None:
    assert upgrade(server, Origin=origin.format(port=server.get_port())) == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "evil.example",
        "127.0.0.1.evil.example:{port}",
        "192.168.0.4:{port}",
        "localhost; script-src *",
        "[::1",
        "",
    ],
)
def test_names_that_were_rebound_to_this_machine_are_refused(
    server: LocalServer, host: str
) -> None:
    host = host.format(port=server.get_port())
    assert upgrade(server, Host=host, Origin=f"http://{host}") in (400, 403)
    assert get(server, server.access.path, Host=host).status in (400, 403)


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "[::1]:{port}", "127.0.0.1:9000", "LOCALHOST"]
)
def test_names_of_this_machine_and_tunnels(server: LocalServer, host: str) -> None:
    host = host.format(port=server.get_port())
    assert upgrade(server, Host=host, Origin=f"http://{host}") == 101


def test_addresses_of_a_server_for_other_machines() -> None:
    server = start_server("0.0.0.0", 8760, "title")
    try:
        for host in ("192.168.0.4:1", "localhost", "[2001:db8::1]:80"):
            assert upgrade(server, Host=host, Origin=f"http://{host}") == 101
        assert upgrade(server, Host="evil.example", Origin="http://evil.example") == 403
    finally:
        server.stop()


def test_a_page_of_another_version(server: LocalServer) -> None:
    assert upgrade(server, **{"Sec-WebSocket-Protocol": "viser-v0.0.0"}) == 403


def test_a_ticket_leads_to_the_page_once(server: LocalServer) -> None:
    path = server.access.ticket_path
    assert upgrade(server, path) == 403
    first = get(server, path)
    assert (first.status, first.headers["Location"]) == (303, server.access.path)
    assert get(server, path).status == 403
    assert get(server, "/").status == 403


def test_who_can_reach_an_address() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.0.4", "::", "example.org")))


def test_garbage_is_ignored_and_the_page_goes_on(page: Page, server: LocalServer) -> None:
    with tab(server) as connection:
        body, (robot,) = page.panel._body, page.simulation.robots
        uuid = body._impl.uuid
        scene = {"name": "/world", "updates": {"visible": False}, "type": "SceneNodeUpdateMessage"}
        for message in (
            {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": "nope"}},
            {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"options": ["nope"]}},
            {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"uuid": "x", "value": "nope"}},
            {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"update_cb": 1}},
            {"type": "GuiUpdateMessage", "uuid": "none", "updates": {"value": True}},
            {"type": "ShareUrlRequest"},
            {"type": "RunJavascriptMessage", "source": "alert(1)"},
            {"type": "nothing"},
            scene,
            [],
            None,
        ):
            send(connection, message)
        connection.send(b"\xff" * 100)
        connection.send(b"")
        connection.send("text")
        choice = "3d_walker_5_foot"
        send(connection, {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": choice}})
        wait_for(lambda: body.value == choice)
        assert "nope" not in body.options
        wait_for(lambda: not page._wishes.empty())
        page.frame()
        assert page.simulation.robots[0] is not robot
        assert page.simulation.robots[0].whole.name == choice
        steps = page.simulation.steps
        time.sleep(0.02)
        page.frame()
        assert page.simulation.steps > steps


def test_messages_that_are_too_large(server: LocalServer) -> None:
    with tab(server) as connection:
        connection.send(b"\x00" * (MAX_MESSAGE + 1))
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            listen(connection)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    wait_for(lambda: not server.get_clients())


def test_more_tabs_than_there_may_be(server: LocalServer) -> None:
    tabs = [tab(server, watches=False) for _ in range(MAX_CLIENTS)]
    try:
        with (
            tab(server, watches=False) as another,
            pytest.raises(websockets.ConnectionClosedError, match="16 tabs at once"),
        ):
            another.recv(timeout=PATIENCE)
    finally:
        for each in tabs:
            each.close()

    def has_room() -> bool:
        with tab(server, watches=False) as another:
            try:
                another.recv(timeout=PATIENCE)
            except websockets.ConnectionClosedError:
                return False
            return True

    wait_for(has_room)


def test_a_flood_of_messages_waits_outside(page: Page, server: LocalServer) -> None:
    """A part of it is not read yet when the second in which it came is over."""
    clicks: list[object] = []
    server.scene.on_click()(clicks.append)
    click = {
        "type": "ScenePointerMessage",
        "event_type": "click",
        "ray_origin": (0.0, 0.0, 2.0),
        "ray_direction": (0.0, 0.6, -0.8),
        "screen_pos": ((0.5, 0.5),),
        "modifier": None,
    }
    with tab(server) as connection:
        start = time.monotonic()
        for _ in range(3 * MAX_RATE):
            send(connection, click)
        wait_for(lambda: len(clicks) == 3 * MAX_RATE)
        assert time.monotonic() - start > 1
    assert page._wishes.full(), "and of what is read, the page remembers a bounded part"
    page.frame()
    assert page._wishes.empty()


def test_an_error_in_a_control_is_shown_and_logged(
    page: Page, server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise KeyError("broken")

    with tab(server) as connection:
        page.do(fails)
        before = page.simulation.steps
        page.frame()
        while b"KeyError" not in shown(connection):
            pass
        time.sleep(0.02)
        page.frame()
        assert page.simulation.steps > before
    assert "what was asked for on the page failed" in caplog.text
    assert "KeyError: 'broken'" in caplog.text


def shown(connection: ClientConnection) -> bytes:
    """What the next message to a tab says, unpacked."""
    import zstandard

    raw = connection.recv(timeout=PATIENCE)
    assert isinstance(raw, bytes)
    length = int.from_bytes(raw[8:16], "little")
    return zstandard.ZstdDecompressor().decompress(raw[16 : 16 + length])
