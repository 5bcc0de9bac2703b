"""How a client comes in at a door: dial, know the node by its certificate, say hello."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Final, final

from cryptography.hazmat.primitives.serialization import Encoding
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.typing import Subprotocol

from causalcast.clients import protocol
from causalcast.clients.protocol import Hello, Position, Refusal, Welcome
from causalcast.errors import NodeError, WireError
from causalcast.limits import Span
from causalcast.runtime.security.client_token import authorities_in, cluster_in
from causalcast.runtime.security.identity import NODE, Passport, read_certificate

OPEN_WITHIN: Final = Span(
    "clients.dialling.open_within",
    10.0,
    least=0.05,
    most=600.0,
    about="from dialling to the welcome of a node",
)
ALIVE_EVERY: Final = Span(
    "clients.dialling.alive_every",
    20.0,
    least=0.05,
    most=600.0,
    about="between pings of a client; a node that answers none for as long is given up",
)
CLOSED_WITHIN: Final = Span(
    "clients.dialling.closed_within",
    1.0,
    least=0.01,
    most=60.0,
    about="a node takes in that a client hangs up within this, or the socket is closed",
)
# What a node says of a client and says again the next time: to try again is of no use.
FINAL: Final = (protocol.NO_TOKEN, protocol.BAD_FRAME)


def give_up_or_wait(refusal: Refusal, url: str) -> None:
    """Raise NodeError if a node will never let this client in, WireError if it may."""
    if refusal.code in FINAL:
        raise NodeError(f"{url}: {refusal.error}")
    raise WireError(refusal.error)


@final
class Dialler:
    """Who a client is, and how it knows nodes."""

    def __init__(self, token: str, name: str, tls: ssl.SSLContext | None) -> None:
        self._token = token
        self._name = name
        self._tls = tls

    @contextlib.asynccontextmanager
    async def dial(
        self, url: str, past: Position
    ) -> AsyncIterator[tuple[ClientConnection, Welcome]]:
        """A connection whose node has said welcome; it has all that `past` names."""
        async with open_socket(
            url,
            ssl=self._context() if url.startswith("wss://") else None,
            subprotocols=[Subprotocol(protocol.SUBPROTOCOL)],
            compression=None,
            max_size=None,
            open_timeout=OPEN_WITHIN.value,
            ping_interval=ALIVE_EVERY.value,
            ping_timeout=ALIVE_EVERY.value,
            close_timeout=CLOSED_WITHIN.value,
            proxy=None,
        ) as socket:
            async with asyncio.timeout(OPEN_WITHIN.value):
                welcome = await self._say_hello(socket, url, past)
            yield socket, welcome

    async def _say_hello(self, socket: ClientConnection, url: str, past: Position) -> Welcome:
        if url.startswith("wss://") and self._tls is None:
            self._check_node(socket)
        hello = Hello(protocol.VERSION, self._token, self._name, past, binary=True)
        await socket.send(protocol.encode(hello))
        reply, _ = protocol.decode_reply(await socket.recv())
        if isinstance(reply, Refusal):
            give_up_or_wait(reply, url)
        if not isinstance(reply, Welcome):
            raise WireError("no welcome")
        return reply

    def _context(self) -> ssl.SSLContext:
        """Nodes are known by the authority in the token: their certificates name no hosts."""
        if self._tls is not None:
            return self._tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        pem = [one.public_bytes(Encoding.PEM).decode() for one in authorities_in(self._token)]
        context.load_verify_locations(cadata="\n".join(pem))
        return context

    def _check_node(self, socket: ClientConnection) -> None:
        tunnel = socket.transport.get_extra_info("ssl_object")
        passport = Passport.of(read_certificate(tunnel.getpeercert(binary_form=True)))
        if passport.purpose != NODE or passport.cluster != cluster_in(self._token):
            raise WireError("at this address there is no node of the token's cluster")
