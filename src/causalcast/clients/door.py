"""The door of a node: clients come in over WebSocket, with a token, and each becomes a session.

What strangers may cost is bounded before they have shown a token: how many there are, how long
they may take, how much they may say.
"""

import asyncio
import collections
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Origin, Subprotocol

from causalcast.clients import protocol
from causalcast.clients.kept_log import KeptLog
from causalcast.clients.protocol import Hello, Position, Refusal, Welcome, decode_request, encode
from causalcast.clients.publications import Publications
from causalcast.clients.session import NOT_YET_AFTER, WINDOW, Ended, Session
from causalcast.errors import CausalcastError, NodeError, WireError
from causalcast.limits import Limit, Span
from causalcast.printable import printable
from causalcast.runtime.links.address_book import why_not_listening
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import ClientDoor
from causalcast.runtime.security.client_token import (
    LONGEST_NAME,
    ClientPass,
    check_client_token,
    objection,
)
from causalcast.runtime.security.identity import CERTIFICATE, KEY
from causalcast.runtime.security.tls import Tls

log = logging.getLogger(__name__)

CONNECTIONS: Final = Limit(
    "clients.door.connections",
    2000,
    least=1,
    most=1 << 20,
    unit="connections",
    about="of all clients together",
)
CONNECTIONS_OF_ONE: Final = Limit(
    "clients.door.connections_of_one",
    1000,
    least=1,
    most=1 << 20,
    unit="connections",
    about="of clients with the same name",
)
HELLO_BYTES: Final = Limit(
    "clients.door.hello_bytes",
    256 << 10,
    least=32 << 10,
    most=16 << 20,
    unit="bytes",
    about="the first frame of a client, which has its token and its past",
)
HELLO_WITHIN: Final = Span(
    "clients.door.hello_within",
    5.0,
    least=0.05,
    most=60.0,
    about="a client says who it is within this",
)
LOOK_EVERY: Final = Span(
    "clients.door.look_every",
    1.0,
    least=0.01,
    most=60.0,
    about="between looks whether tokens lapsed or were revoked, and whether keys changed",
)
ALIVE_EVERY: Final = Span(
    "clients.door.alive_every",
    20.0,
    least=0.05,
    most=600.0,
    about="between pings; a client that answers none for as long is let go",
)
CLOSED_WITHIN: Final = Span(
    "clients.door.closed_within",
    1.0,
    least=0.01,
    most=60.0,
    about="a client that was let go takes that in within this, or the socket is closed",
)
FRAME_OVERHEAD: Final = 4096  # what a frame has beside a body
UNTIL_FOR_EVER: Final = 1 << 40


class Connection(ServerConnection):
    """One that may be turned away before it has said anything."""

    door: "Door"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.door.lets_in(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.open_connections.pop(self, None)
        super().connection_lost(exc)


class Door:
    """The server, everybody who is inside, and what was counted."""

    def __init__(self, node: Node, config: ClientDoor) -> None:
        self._node = node
        self._config = config
        self._host = node.host()
        self._tls: Tls | None = self._host.links.tls
        self._log = KeptLog(self._host, config)
        self._publications = Publications(self._host, config.groups)
        self._context = self._make_context()
        self._stamp = self._certificate_stamp()
        self._server: Server | None = None
        self._sessions: dict[Session, Connection] = {}
        self.open_connections: dict[Connection, None] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        body = node.config.limits.body_bytes
        self._frame_bytes = body * 4 // 3 + FRAME_OVERHEAD  # as base64 it is a third longer

    async def start(self) -> None:
        """Take in what was kept, then listen."""
        await self._log.start()
        mine = type("ConnectionOfThisDoor", (Connection,), {"door": self})
        origins = [None, *(Origin(origin) for origin in self._config.origins)]
        try:
            self._server = await serve(
                self._serve,
                self._config.listen.host,
                self._config.listen.port,
                ssl=self._context,
                origins=origins,  # browsers always say where a page is from, programs never do
                subprotocols=[Subprotocol(protocol.SUBPROTOCOL)],
                select_subprotocol=lambda _, offered: (
                    Subprotocol(protocol.SUBPROTOCOL) if protocol.SUBPROTOCOL in offered else None
                ),
                compression=None,
                max_size=HELLO_BYTES.value,
                max_queue=4,
                open_timeout=HELLO_WITHIN.value,
                ping_interval=ALIVE_EVERY.value,
                ping_timeout=ALIVE_EVERY.value,
                close_timeout=CLOSED_WITHIN.value,
                server_header=None,
                create_connection=mine,
                logger=_quiet_logger(),
            )
        except OSError as error:
            where = why_not_listening(self._config.listen, error, "[clients] listen")
            raise NodeError(where) from None

    async def watch(self) -> None:
        """Let go whose token lapsed or was revoked; use a certificate that was renewed."""
        while True:
            await asyncio.sleep(LOOK_EVERY.value)
            for session, connection in list(self._sessions.items()):
                why = objection(session.holder, self._revoked())
                if why:
                    self.counts[protocol.NO_TOKEN] += 1
                    await self._say_goodbye(connection, Ended(protocol.NO_TOKEN, why))
            stamp = self._certificate_stamp()
            if stamp != self._stamp and self._context is not None:
                self._stamp = stamp
                try:
                    self._load_certificate(self._context)
                except (OSError, ssl.SSLError) as error:
                    log.warning("the door's certificate cannot be read: %s", error)

    async def close(self) -> None:
        """Let everybody go: the node stops."""
        if self._server is not None:
            self._server.close(code=protocol.CLOSE_CODES[protocol.STOPPING], reason="node stops")
            await self._server.wait_closed()

    def numbers(self) -> dict[str, Any]:
        """What `status` shows of it."""
        messages, size = self._log.size()
        return {
            "connections": len(self._sessions),
            "unacknowledged": sum(session.unacknowledged() for session in self._sessions),
            "kept_messages": messages,
            "kept_bytes": size,
            "let_go": dict(self.counts),
        }

    def lets_in(self, connection: Connection) -> bool:
        """Whether there is room for one more."""
        if len(self.open_connections) >= CONNECTIONS.value:
            self.counts["turned_away"] += 1
            return False
        self.open_connections[connection] = None
        return True

    # One client

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, Connection)
        try:
            hello = await self._hello(connection)
            holder = self._holder(hello)
            await self._wait_for_past(hello.past)
            await self._let_through(connection, hello, holder)
        except Ended as ended:
            self.counts[ended.code] += 1
            await self._say_goodbye(connection, ended)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == 1009:
                self.counts["too_large"] += 1
        except WebSocketException:
            self.counts["broken"] += 1

    async def _hello(self, connection: Connection) -> Hello:
        try:
            async with asyncio.timeout(HELLO_WITHIN.value):
                hello, _ = decode_request(await connection.recv())
        except TimeoutError:
            raise Ended(protocol.TOO_SLOW, "no hello came") from None
        except WireError as error:
            raise Ended(protocol.BAD_FRAME, str(error)) from None
        if not isinstance(hello, Hello):
            raise Ended(protocol.BAD_FRAME, "the first frame of a client is hello")
        if hello.version != protocol.VERSION:
            raise Ended(
                protocol.BAD_FRAME,
                f"version {hello.version} is unknown here; this node speaks {protocol.VERSION}",
            )
        return hello

    def _holder(self, hello: Hello) -> ClientPass:
        """Who it is. Where nodes have no certificates everybody on this machine may everything."""
        if self._tls is None:
            name = hello.name[:LONGEST_NAME]
            return ClientPass(0, self._node.config.cluster, name, ["*"], ["*"], UNTIL_FOR_EVER)
        try:
            return check_client_token(
                hello.token,
                self._node.config.cluster,
                self._tls.identity.authorities,
                self._revoked(),
                datetime.now(UTC),
            )
        except WireError as error:
            raise Ended(protocol.NO_TOKEN, str(error)) from None

    async def _wait_for_past(self, past: Position) -> None:
        """What the client has seen or published elsewhere comes first."""
        for group, by_origin in past.items():
            if {*by_origin} <= {self._host.me}:
                continue  # own publications are in the own past
            known = group in self._publications.groups
            if not known or not self._node.group(group).is_member():
                raise Ended(
                    protocol.ELSEWHERE,
                    f"node {self._host.me} does not serve {printable(group)!r}, so it cannot tell "
                    "whether it has what this client has seen there",
                )
        try:
            async with asyncio.timeout(NOT_YET_AFTER.value):
                await self._log.wait_for(past)
        except TimeoutError:
            lacks = self._log.lacks(past)
            raise Ended(
                protocol.NOT_YET,
                f"after {NOT_YET_AFTER.value:g} s {lacks[0]} is not here, which this client has "
                "seen or published elsewhere; try again, or another node",
            ) from None

    async def _let_through(self, connection: Connection, hello: Hello, holder: ClientPass) -> None:
        alike = sum(session.holder.name == holder.name for session in self._sessions)
        if alike >= CONNECTIONS_OF_ONE.value:
            raise Ended(
                protocol.TOO_MANY,
                f"a client of this name has {alike} connections, and no more are allowed",
            )
        session = Session(
            connection,
            self._node,
            self._log,
            self._publications,
            holder,
            hello.binary,
            self._count,
        )
        self._sessions[session] = connection
        try:
            connection.protocol.max_message_size = self._frame_bytes
            welcome = Welcome(
                protocol.VERSION,
                self._node.id,
                self._node.config.cluster,
                holder.name,
                self._node.config.limits.body_bytes,
                WINDOW.value,
            )
            await session.send(encode(welcome))
            await session.run()
        finally:
            del self._sessions[session]

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    async def _say_goodbye(self, connection: Connection, ended: Ended) -> None:
        """Tell it why, in a frame for programs and in the reason that browsers show."""
        code = protocol.CLOSE_CODES.get(ended.code, protocol.CLOSE_CODES[protocol.BAD_FRAME])
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN.value):
                await connection.send(encode(Refusal(0, ended.code, str(ended))))
            await connection.close(code, ended.code)
            return
        connection.transport.abort()

    # Certificates

    def _revoked(self) -> frozenset[int]:
        return frozenset() if self._tls is None else self._tls.revocations.serials

    def _make_context(self) -> ssl.SSLContext | None:
        if not self._config.tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._load_certificate(context)
        except OSError as error:  # an error of TLS is one of the system, too
            certificate, _ = self._certificate_files()
            raise NodeError(f"{certificate}: [clients] certificate: {error}") from None
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(*self._certificate_files())

    def _certificate_files(self) -> tuple[Path, Path]:
        if self._config.certificate is not None and self._config.key is not None:
            return self._config.certificate, self._config.key
        assert self._tls is not None
        folder = self._tls.identity.folder
        return folder / CERTIFICATE, folder / KEY

    def _certificate_stamp(self) -> tuple[int, ...]:
        if not self._config.tls:
            return ()
        with contextlib.suppress(OSError):
            return tuple(path.stat().st_mtime_ns for path in self._certificate_files())
        return ()


def _quiet_logger() -> logging.Logger:
    """What strangers do wrong is counted; a line for each would fill the log."""
    quiet = logging.getLogger(f"{__name__}.connections")
    quiet.setLevel(logging.CRITICAL)
    return quiet


@contextlib.asynccontextmanager
async def opened(node: Node, config: ClientDoor) -> AsyncIterator[Door]:
    """The door of a running node, open while this is entered."""
    door = Door(node, config)
    await door.start()
    watching = asyncio.create_task(door.watch())
    try:
        yield door
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, CausalcastError):
            await watching
        await door.close()
