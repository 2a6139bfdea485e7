"""The server of a page: on this machine only unless told otherwise, on a port that is free."""

from __future__ import annotations

import contextlib
import errno
import io
import ipaddress
import logging
import socket

import viser

PORTS_TRIED = 100


class LocalServer(viser.ViserServer):
    """A server that nobody can ask to publish the page on the internet."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """No: any browser tab could ask for a tunnel through viser's own servers."""
        return None

    def stop(self) -> None:
        """End it without viser's own good-bye."""
        with contextlib.redirect_stdout(io.StringIO()):
            super().stop()


def start_server(host: str, port: int, title: str) -> LocalServer:
    """A server at this address, on the first free port from `port` on."""
    found = free_port(host, port)
    # viser greets with a box of its own; what to open is said by whoever starts the server.
    with contextlib.redirect_stdout(io.StringIO()):
        server = LocalServer(host=host, port=found, label=title, verbose=False)
    # Browsers open connections ahead and close them unused; each would be reported at length.
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    return server


def free_port(host: str, port: int) -> int:
    """The first port from `port` on that nothing listens on; ValueError for a bad address."""
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
