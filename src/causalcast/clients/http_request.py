"""One request over HTTP/1.1, read strictly: a head, and a body whose length was said."""

import asyncio
import re
import urllib.parse
from typing import Final, final

from causalcast.errors import WireError
from causalcast.limits import Limit

PARAMETERS: Final = Limit(
    "clients.http_request.parameters",
    1100,
    least=16,
    most=1 << 16,
    unit="parameters",
    about="in the address of one request",
)
REQUEST_LINE: Final = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
HEADER_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")


@final
class HttpRequest:
    """The head of a request."""

    def __init__(self, head: bytes) -> None:
        """WireError if it is none."""
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        found = REQUEST_LINE.fullmatch(first)
        if found is None:
            raise WireError("no request of HTTP/1.1")
        self.method, target, minor = found.groups()
        path, _, query = target.partition("?")
        self.path = path
        try:
            self._query = urllib.parse.parse_qs(
                query, keep_blank_values=True, max_num_fields=PARAMETERS.value
            )
        except ValueError:
            raise WireError(f"more than {PARAMETERS.value} parameters") from None
        self._headers: dict[str, str] = {}
        for line in lines:
            header = HEADER_LINE.fullmatch(line)
            if header is None:
                raise WireError("a line of the head that is no header")
            name = header[1].lower()
            if name in self._headers:
                if name in ("content-length", "host", "authorization", "origin"):
                    raise WireError(f"two headers {name}")
                continue
            self._headers[name] = header[2].strip()
        self.goes_on = minor == "1" and self.header("connection").lower() != "close"

    def header(self, name: str) -> str:
        """A header by its name in small letters; empty if it is not there."""
        return self._headers.get(name, "")

    def values(self, name: str) -> list[str]:
        """All parameters of the address that are called so."""
        return self._query.get(name, [])

    def value(self, name: str) -> str:
        """The one parameter of that name; empty if it is not there. WireError if it is twice."""
        values = self.values(name)
        if len(values) > 1:
            raise WireError(f"expected {name} once")
        return values[0] if values else ""

    def body_bytes(self) -> int:
        """How long its body is; WireError if that was not said as it must be."""
        if self.header("transfer-encoding"):
            raise WireError("expected a body with Content-Length, and no Transfer-Encoding")
        text = self.header("content-length") or "0"
        if not text.isascii() or not text.isdecimal() or len(text) > 12:
            raise WireError("Content-Length is no number")
        return int(text)


async def next_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next head of a connection, None at its end; WireError if it is none."""
    try:
        return HttpRequest(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise WireError("half a request") from None
        return None
    except asyncio.LimitOverrunError:
        raise WireError("a head that is too long") from None


def answer(status: str, body: bytes, headers: dict[str, str]) -> bytes:
    """A whole answer."""
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    return head_of(status, lines) + body


def head_of(status: str, headers: dict[str, str]) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
