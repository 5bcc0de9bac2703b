"""What pages over HTTP have in common: who is answered, with which headers, and how it ends."""

import contextlib
import hmac
import socket
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "json": "application/json",
    "wasm": "application/wasm",
    "zip": "application/zip",
}


class _Http(ThreadingHTTPServer):
    """Threads end with the program; a browser that hangs up is no event."""

    daemon_threads = True

    def __init__(
        self, host: str, port: int, handler: Callable[..., BaseHTTPRequestHandler]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell what went wrong here, and nothing of connections that were closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class PageServer:
    """Serves at one address until it is closed; who has its token may ask."""

    def __init__(
        self, host: str, port: int, token: str, handler: Callable[..., BaseHTTPRequestHandler]
    ) -> None:
        self.token = token
        self._http = _Http(host, port, handler)
        self.port: int = self._http.server_address[1]

    def serve(self) -> None:
        """Until `close` is called in another thread, or Ctrl-C."""
        try:
            self._http.serve_forever(poll_interval=0.2)
        finally:
            self._http.server_close()
            self.let_go()

    def let_go(self) -> None:
        """Nobody can ask any more: end what is behind the page."""

    def close(self) -> None:
        """Let `serve` return."""
        self._http.shutdown()

    def is_token(self, given: str) -> bool:
        """Compared in constant time; headers may hold any character."""
        return hmac.compare_digest(given.encode(), self.token.encode())


class PageHandler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    policy = "default-src 'none'"  # what the page may load
    caching = "no-store"

    def answer(
        self, code: int, data: bytes, ending: str, more: dict[str, str] | None = None
    ) -> None:
        """Send `data`, of the type that files with this ending have."""
        self.send_response(code)
        self.send_header("Content-Type", TYPES.get(ending, "text/plain; charset=utf-8"))
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", self.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", self.caching)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        with contextlib.suppress(ConnectionError):  # the page was closed meanwhile
            self.end_headers()
            self.wfile.write(data)

    def answer_with_file(self, files: dict[str, bytes], path: str) -> None:
        """Send one of these files, or say that there is none."""
        name = path.lstrip("/") or "index.html"
        data = files.get(name)
        if data is None:
            self.answer(404, b"no such file", "txt")
        else:
            self.answer(200, data, name.rpartition(".")[2])

    def log_message(self, *words: Any) -> None:
        """Nothing: the terminal is for people, and a token may stand in an address."""
