"""The dashboard over HTTP: files of the page, and the last picture of the cluster; nothing else.

Only who has the token of the address that was printed is answered. The first request brings it in
the address; a cookie that scripts cannot read keeps it, and the address is clean again. Nothing can
be changed through it: there is only GET.
"""

import http.cookies
import json
import secrets
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

from causalcast.dashboard.cluster_view import ClusterView
from causalcast.errors import CausalcastError, ConfigError
from causalcast.lab.page_server import PageHandler, PageServer
from causalcast.runtime.links.address_book import Address
from causalcast.runview.page_files import view_files

PAGE: Final = Path(__file__).parent / "page"
SHARED: Final = ("layout.js",)  # with pages that show runs
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def page_files() -> dict[str, bytes]:
    """What the page is made of."""
    files = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    shared = view_files()
    return files | {name: shared[name] for name in SHARED}


class DashboardServer(PageServer):
    """Serves one view at one address."""

    def __init__(self, view: ClusterView, listen: Address, option: str = "--listen") -> None:
        self.view = view
        self.files = page_files()
        self.is_local = listen.host in LOOPBACK
        try:
            super().__init__(listen.host, listen.port, secrets.token_urlsafe(24), _handler_of(self))
        except OSError as error:
            text = f"{option} {listen}: {error.strerror}; choose another address"
            raise ConfigError(text) from None
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

    def let_go(self) -> None:
        self.view.close()


def _handler_of(server: DashboardServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(PageHandler):
        """One request."""

        policy = POLICY
        timeout = 30.0

        def do_GET(self) -> None:  # noqa: N802 - Python's name
            path, _, query = self.path.partition("?")
            asked = {key: values[0] for key, values in urllib.parse.parse_qs(query).items()}
            if not self._is_meant_for_us():
                self.answer(421, b"not the name of this server", "txt")
            elif server.is_token(asked.get("token", "")):
                self._let_in(path)
            elif not server.is_token(self._cookie()):
                self.answer(403, b"open the whole address that `causalcast` printed", "txt")
            elif path == "/state.json":
                self.answer(200, json.dumps(server.view.picture()).encode(), "json")
            elif path == "/explain.json":
                self._explain(asked.get("node", ""), asked.get("message", ""))
            else:
                self.answer_with_file(server.files, path)

        def _let_in(self, path: str) -> None:
            """Keep the token in a cookie, out of the address and the history."""
            cookie = f"{server.cookie}={server.token}; HttpOnly; SameSite=Lax; Path=/"
            name = path.lstrip("/")
            where = f"/{name}" if name in server.files else "/"
            self.answer(303, b"", "txt", {"Set-Cookie": cookie, "Location": where})

        def _explain(self, node: str, message: str) -> None:
            try:
                answer = server.view.explain(node, message)
            except CausalcastError as error:
                answer = {"error": str(error)}
            self.answer(200, json.dumps(answer).encode(), "json")

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

    return Handler
