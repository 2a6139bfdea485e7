"""Who may open the page and its WebSocket: whoever has the address that was printed.

Any web page in the user's browser can send requests to this machine. So each request must name
this machine (`Host`; a name that an attacker has rebound to it is another one), come from our own
page (`Origin`), and know a secret, which is the path of the address.
"""

from __future__ import annotations

import gzip
import hmac
import http
import ipaddress
import re
import secrets
import socket
from html import escape
from pathlib import Path

import viser
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Request, Response

PAGE = Path(viser.__file__).parent / "client" / "build" / "index.html"
KEEP_ADDRESS = "<script>history.replaceState = () => {};</script>"
"""viser writes the address of its WebSocket behind that of the page, which has it already."""
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
"""A `Host` header: an address in brackets or a name, and perhaps a port."""
REFUSED = "This is not the whole address. Open the one that `sgrl view` has printed.\n"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether it is an address in numbers, which nobody can let point elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Access:
    """Answers requests: with the page, a way to its WebSocket, or a refusal."""

    def __init__(self, host: str, title: str) -> None:
        """`host`: the address that is served on; `title`: that of the page, any text."""
        self._host = host
        self._token = secrets.token_urlsafe(24)
        self._ticket = secrets.token_urlsafe(24)
        text = PAGE.read_text(encoding="utf-8")
        text = text.replace("<title>Viser</title>", f"<title>{escape(title)}</title>", 1)
        text = text.replace("<head>", f"<head>{KEEP_ADDRESS}", 1)
        self._page = text.encode()
        self._zipped = gzip.compress(self._page)

    @property
    def path(self) -> str:
        """The path of the page and of its WebSocket."""
        return f"/{self._token}/"

    @property
    def ticket_path(self) -> str:
        """An address that leads to the page once.

        A browser is started with it, because every user of a machine can read the arguments of
        its processes.
        """
        return f"/{self._ticket}"

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """A response, or None to let a WebSocket be opened."""
        try:
            host = request.headers.get("Host", "")
            origin = request.headers.get("Origin")
            upgrade = request.headers.get("Upgrade", "").lower()
            protocol = request.headers.get("Sec-WebSocket-Protocol")
        except MultipleValuesError:
            return _refusal("a header that there must be once is there twice\n")
        if not self._names_this_machine(host):
            return _refusal(f"{self._host} is not called by this name here\n")
        path = request.path.partition("?")[0].strip("/")
        if not upgrade and self._ticket and _equal(path, self._ticket):
            self._ticket = ""
            return _response(http.HTTPStatus.SEE_OTHER, "", Location=self.path)
        if not _equal(path, self._token):
            return _refusal(REFUSED)
        if not upgrade:
            return self._send_page(host, "gzip" in request.headers.get("Accept-Encoding", ""))
        if origin not in (f"http://{host}", f"https://{host}"):
            return _refusal("only the viewer's own page may connect\n")
        if protocol != f"viser-v{viser.__version__}":
            return _refusal("this page is of another version; reload it\n")
        return None

    def _names_this_machine(self, header: str) -> bool:
        """Whether a `Host` is this machine; any port, since a tunnel may have another."""
        parts = HOST.fullmatch(header)
        if parts is None:
            return False
        name = (parts[1] or parts[2]).lower()
        if name == self._host.lower() or is_loopback(name):
            return True
        if is_loopback(self._host):
            return False
        return is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())

    def _send_page(self, host: str, zipped: bool) -> Response:
        sources = {
            "default-src": "'none'",
            "script-src": "'unsafe-inline' 'wasm-unsafe-eval' blob:",
            "worker-src": "blob:",
            "style-src": "'unsafe-inline'",
            "img-src": "data: blob:",
            "font-src": "data:",
            # The WebSocket is named because not every browser counts it as 'self'.
            "connect-src": f"'self' ws://{host} wss://{host} data: blob:",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        headers = Headers(
            {
                "Content-Type": "text/html; charset=utf-8",
                "Content-Security-Policy": "; ".join(f"{k} {v}" for k, v in sources.items()),
            }
        )
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return _finish(http.HTTPStatus.OK, headers, self._zipped if zipped else self._page)


def _equal(first: str, second: str) -> bool:
    """In a time that does not say how much of it is right."""
    return hmac.compare_digest(first.encode(), second.encode())


def _refusal(text: str) -> Response:
    return _response(http.HTTPStatus.FORBIDDEN, text)


def _response(status: http.HTTPStatus, text: str, **headers: str) -> Response:
    return _finish(
        status, Headers({"Content-Type": "text/plain; charset=utf-8", **headers}), text.encode()
    )


def _finish(status: http.HTTPStatus, headers: Headers, body: bytes) -> Response:
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    headers["Cache-Control"] = "no-store"
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return Response(status.value, status.phrase, headers, body)
