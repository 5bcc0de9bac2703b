"""Serves a node's numbers over HTTP, and whether it is well: three pages, and nothing else.

    GET /metrics   its numbers, for Prometheus
    GET /healthz   200 while the node runs
    GET /readyz    200 while it takes part, 503 and the reason while it does not

Whoever can reach the address can read that, and do nothing more: requests are short, few at a time,
and answered at once. Of too many the oldest of the fullest address is cut off: who asks for a page
asks at once, so those who stay silent keep nobody out.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from causalcast.errors import NodeError
from causalcast.forks import close_in_child
from causalcast.limits import Limit, Span
from causalcast.runtime.links.address_book import Address, why_not_listening
from causalcast.runtime.links.doorway import Strangers

LONGEST_REQUEST: Final = Limit(
    "runtime.observing.metrics_server.longest_request",
    8 << 10,
    least=1 << 10,
    most=1 << 20,
    unit="bytes",
    about="a request for numbers",
)
MOST_AT_ONCE: Final = Limit(
    "runtime.observing.metrics_server.most_at_once",
    16,
    least=1,
    most=1024,
    unit="connections",
    about="requests for numbers at once",
)
WITHIN: Final = Span(
    "runtime.observing.metrics_server.within",
    5.0,
    least=0.5,
    most=60.0,
    about="for a whole request",
)


class MetricsServer:
    """Listens at one address; `numbers` makes the text, `trouble` says why it is not ready."""

    def __init__(
        self, address: Address, numbers: Callable[[], str], trouble: Callable[[], str]
    ) -> None:
        self._address = address
        self._numbers = numbers
        self._trouble = trouble
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._callers = Strangers(MOST_AT_ONCE.value, MOST_AT_ONCE.value)

    async def start(self) -> None:
        """Listen; NodeError where somebody else has the address."""
        try:
            listener = socket.create_server(
                (self._address.host, self._address.port),
                family=socket.AF_INET6 if ":" in self._address.host else socket.AF_INET,
            )
            close_in_child(listener)
            self._server = await asyncio.start_server(
                self._serve, sock=listener, limit=LONGEST_REQUEST.value
            )
        except OSError as error:
            raise NodeError(why_not_listening(self._address, error, "[metrics] listen")) from None

    def close(self) -> None:
        """Listen no longer, and hang up."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        address = writer.get_extra_info("peername")
        self._callers.enter(writer.transport, str(address[0] if address else ""))
        try:
            async with asyncio.timeout(WITHIN.value):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.split(b"\r\n", 1)[0].split()))
                await writer.drain()
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or asks for no page
        finally:
            self._open.discard(writer)
            self._callers.leave(writer.transport)
            writer.close()

    def _answer(self, request: list[bytes]) -> bytes:
        path = request[1].split(b"?")[0] if len(request) == 3 else b""
        if path not in (b"/metrics", b"/healthz", b"/readyz"):
            there = "there are /metrics, /healthz and /readyz\n"
            return _page("404 Not Found", "text/plain", there)
        if request[0] != b"GET":
            return _page("405 Method Not Allowed", "text/plain", "only GET\n")
        if path == b"/healthz":
            return _page("200 OK", "text/plain", "ok\n")
        if path == b"/readyz":
            trouble = self._trouble()
            status = "503 Service Unavailable" if trouble else "200 OK"
            return _page(status, "text/plain", f"{trouble or 'ready'}\n")
        return _page("200 OK", "text/plain; version=0.0.4; charset=utf-8", self._numbers())


def _page(status: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
