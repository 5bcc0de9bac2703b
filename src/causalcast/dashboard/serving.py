"""The dashboard over HTTP: files of the page, and the last picture of the cluster; nothing else.

Only who has the token of the address that was printed is answered. The first request brings it in
the address; a cookie that scripts cannot read keeps it, and the address is clean again. Nothing can
be changed through it: there is only GET.
"""

import contextlib
import hmac
import http.cookies
import json
import secrets
import socket
import sys
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from causalcast.dashboard.cluster_view import ClusterView
from causalcast.errors import CausalcastError, ConfigError
from causalcast.lab.site import PAGE as LAB_PAGE
from causalcast.runtime.links.address_book import Address

PAGE: Final = Path(__file__).parent / "page"
SHARED: Final = ("layout.js",)  # with the page of the lab
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def page_files() -> dict[str, bytes]:
    """What the page is made of."""
    files = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    return files | {name: (LAB_PAGE / name).read_bytes() for name in SHARED}


class _Http(ThreadingHTTPServer):
    """Threads end with the program; a browser that hangs up is no event."""

    daemon_threads = True

    def __init__(self, address: Address, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell what went wrong here, and nothing of connections that were closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class DashboardServer:
    """Serves one view at one address."""

    def __init__(self, view: ClusterView, listen: Address, option: str = "--listen") -> None:
        self.view = view
        self.files = page_files()
        self.token = secrets.token_urlsafe(24)
        self.is_local = listen.host in LOOPBACK
        try:
            self._http = _Http(listen, _handler_of(self))
        except OSError as error:
            text = f"{option} {listen}: {error.strerror}; choose another address"
            raise ConfigError(text) from None
        self.port: int = self._http.server_address[1]
        self._host = listen.host

    @property
    def address(self) -> str:
        """What to open in a browser."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Its name: browsers do not tell the ports of one host apart."""
        return f"causalcast_dashboard_{self.port}"

    def serve(self) -> None:
        """Until `close` is called in another thread, or Ctrl-C."""
        try:
            self._http.serve_forever(poll_interval=0.2)
        finally:
            self._http.server_close()
            self.view.close()

    def close(self) -> None:
        """Let `serve` return."""
        self._http.shutdown()

    def is_token(self, given: str) -> bool:
        """Compared in constant time."""
        return hmac.compare_digest(given.encode(), self.token.encode())


def _handler_of(server: DashboardServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        protocol_version = "HTTP/1.1"
        timeout = 30.0

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            asked = {key: values[0] for key, values in urllib.parse.parse_qs(query).items()}
            if not self._is_meant_for_us():
                self._answer(421, b"not the name of this server", "txt")
            elif server.is_token(asked.get("token", "")):
                self._let_in(path)
            elif not server.is_token(self._cookie()):
                self._answer(403, b"open the whole address that `causalcast` printed", "txt")
            elif path == "/state.json":
                self._answer(200, json.dumps(server.view.picture()).encode(), "json")
            elif path == "/explain.json":
                self._explain(asked.get("node", ""), asked.get("message", ""))
            else:
                name = path.lstrip("/") or "index.html"
                data = server.files.get(name)
                if data is None:
                    self._answer(404, b"no such file", "txt")
                else:
                    self._answer(200, data, name.rpartition(".")[2])

        def _let_in(self, path: str) -> None:
            """Keep the token in a cookie, out of the address and the history."""
            cookie = f"{server.cookie}={server.token}; HttpOnly; SameSite=Lax; Path=/"
            name = path.lstrip("/")
            where = f"/{name}" if name in server.files else "/"
            self._answer(303, b"", "txt", {"Set-Cookie": cookie, "Location": where})

        def _explain(self, node: str, message: str) -> None:
            try:
                answer = server.view.explain(node, message)
            except CausalcastError as error:
                answer = {"error": str(error)}
            self._answer(200, json.dumps(answer).encode(), "json")

        def _cookie(self) -> str:
            try:
                jar = http.cookies.SimpleCookie(self.headers.get("Cookie", ""))
            except http.cookies.CookieError:
                return ""
            found = jar.get(server.cookie)
            return "" if found is None else found.value

        def _is_meant_for_us(self) -> bool:
            """By its name: a foreign name that leads here is an attack of another page."""
            if not server.is_local:
                return True  # people reach it by names that are not known here
            names = [f"{host}:{server.port}" for host in ("127.0.0.1", "localhost", "[::1]")]
            return self.headers.get("Host", "") in names

        def _answer(
            self, code: int, data: bytes, ending: str, more: dict[str, str] | None = None
        ) -> None:
            self.send_response(code)
            self.send_header("Content-Type", TYPES.get(ending, "text/plain; charset=utf-8"))
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            for name, value in (more or {}).items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # the page was closed meanwhile
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *words: Any) -> None:
            """Nothing: the terminal is for people, and the token stands in an address."""

    return Handler
