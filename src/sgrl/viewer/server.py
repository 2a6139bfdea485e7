"""The server of a page: on this machine only unless told otherwise, on a port that is free."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import patch

import viser
import websockets.asyncio.server as websocket_server
from websockets.asyncio.server import ServerConnection

from sgrl.viewer.access import Access
from sgrl.viewer.messages import MessageFilter

PORTS_TRIED = 100
MAX_CLIENTS = 16
"""Tabs at once."""
MAX_MESSAGE = 16 * 1024
"""Bytes; what a page sends takes a few hundred."""
MAX_RATE = 300
"""Messages that are read from a tab in a second; the rest waits there."""
TOO_MANY = 1013
"""The code of a WebSocket for: try again later."""

_starting = threading.Lock()
_log = logging.getLogger(__name__)


class LocalServer(viser.ViserServer):
    """A server that answers whoever has its address, and that nobody can publish."""

    def __init__(self, host: str, port: int, title: str) -> None:
        self.access = Access(host, title)
        messages = MessageFilter()
        with _guarded(self.access, messages) as caught:
            super().__init__(host=host, port=port, label=title, verbose=False)
        if not caught:
            self.stop()
            raise RuntimeError(
                f"the viewer can't guard the page of viser {viser.__version__}; install viser 1.1"
            )
        messages.open(self.gui)

    @property
    def url(self) -> str:
        """The address of the page; whoever has it may use the page."""
        return self._origin + self.access.path

    @property
    def ticket_url(self) -> str:
        """An address that leads to the page once."""
        return self._origin + self.access.ticket_path

    @property
    def _origin(self) -> str:
        host = self.get_host()
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        return f"http://{f'[{host}]' if ':' in host else host}:{self.get_port()}"

    def request_share_url(self, verbose: bool = True) -> str | None:
        """No: the page would be open to the internet through viser's own servers."""
        return None

    def stop(self) -> None:
        """End it without viser's own good-bye."""
        with contextlib.redirect_stdout(io.StringIO()):
            super().stop()


class _Connection(ServerConnection):
    """Hands on the messages of a tab that are allowed, at a bounded rate."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.messages = MessageFilter()
        self._second, self._count = 0, 0
        self._refused = 0

    async def recv(self, decode: bool | None = None) -> Any:
        """The next message that is allowed."""
        while True:
            message = await super().recv(decode)
            await self._slow_down()
            if self.messages.allows(message):
                return message
            self._refused += 1
            if self._refused == 1:
                _log.info("a page sent what no control of it sends; such messages are ignored")

    async def _slow_down(self) -> None:
        now = time.monotonic()
        if int(now) != self._second:
            self._second, self._count = int(now), 0
        self._count += 1
        if self._count >= MAX_RATE:
            await asyncio.sleep(1 - now % 1)


@contextlib.contextmanager
def _guarded(access: Access, messages: MessageFilter) -> Iterator[list[bool]]:
    """Have a viser server that starts in here answer as `access` and `messages` say.

    viser passes nothing on to the server of WebSockets that it starts, so that is caught as it
    does. The list stays empty if a version of viser starts it in another way.
    """
    serve = websocket_server.serve
    caught: list[bool] = []
    clients: set[ServerConnection] = set()

    def guarded_serve(
        handler: Callable[[ServerConnection], Awaitable[None]],
        host: str,
        port: int,
        **settings: Any,
    ) -> websocket_server.serve:
        async def limited(connection: ServerConnection) -> None:
            if len(clients) == MAX_CLIENTS:
                await connection.close(TOO_MANY, f"{MAX_CLIENTS} tabs at once are the most")
                return
            assert isinstance(connection, _Connection)
            connection.messages = messages
            clients.add(connection)
            try:
                await handler(connection)
            finally:
                clients.remove(connection)

        settings |= {"process_request": access.answer, "max_size": MAX_MESSAGE}
        caught.append(True)
        return serve(limited, host, port, create_connection=_Connection, **settings)

    with _starting, patch.object(websocket_server, "serve", guarded_serve):
        yield caught


def start_server(host: str, port: int, title: str) -> LocalServer:
    """A server at this address, on the first free port from `port` on; `title` is the page's."""
    found = free_port(host, port)
    # viser greets with a box of its own; what to open is said by whoever starts the server.
    with contextlib.redirect_stdout(io.StringIO()):
        server = LocalServer(host, found, title)
    # Browsers open connections ahead and close them unused; each would be reported at length.
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    return server


def free_port(host: str, port: int) -> int:
    """The first port from `port` on that is not in use; ValueError for a bad address."""
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {port}")
    last = min(port + PORTS_TRIED, 65536)
    for candidate in range(port, last):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, candidate, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
        except socket.gaierror:
            raise ValueError(f"{host!r} is not an address of this machine") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            if error.errno == errno.EACCES:
                raise ValueError(
                    f"port {candidate} needs the rights of an administrator; take one from 1024 on"
                ) from None
            raise ValueError(f"can't listen on {host}: {error.strerror}") from None
        return candidate
    raise ValueError(f"no free port from {port} to {last - 1} on {host}")
