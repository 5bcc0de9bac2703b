"""The doors of a node: clients come in over WebSocket, or over HTTP if there is a door for that."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final, final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.typing import Origin, Subprotocol

from causalcast.clients import protocol
from causalcast.clients.admission import (
    ALIVE_EVERY,
    CLOSED_WITHIN,
    HELLO_BYTES,
    HELLO_WITHIN,
    Admission,
)
from causalcast.clients.door_certificate import DoorCertificate
from causalcast.clients.http_door import HttpDoor
from causalcast.clients.protocol import Hello, Refusal, Welcome, decode_request, encode
from causalcast.clients.session import WINDOW, Ended
from causalcast.errors import CausalcastError, NodeError, WireError
from causalcast.limits import Span
from causalcast.runtime.links.address_book import why_not_listening
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import ClientDoor

FAREWELL: Final = "node stops"
LOOK_EVERY: Final = Span(
    "clients.door.look_every",
    1.0,
    least=0.01,
    most=60.0,
    about="between looks whether tokens lapsed or were revoked, and whether keys changed",
)


class Connection(ServerConnection):
    """One that may be turned away before it has said anything."""

    admission: Admission

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.admission.lets_in(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.forget_connection(self)
        super().connection_lost(exc)


@final
class Door:
    """The server for WebSocket."""

    def __init__(
        self, admission: Admission, config: ClientDoor, certificate: DoorCertificate
    ) -> None:
        self._admission = admission
        self._config = config
        self._certificate = certificate
        self._server: Server | None = None
        self._farewells: dict[asyncio.Future[None], None] = {}

    async def start(self) -> None:
        """Listen."""
        mine = type("ConnectionOfThisDoor", (Connection,), {"admission": self._admission})
        origins = [None, *(Origin(origin) for origin in self._config.origins)]
        try:
            self._server = await serve(
                self._serve,
                self._config.listen.host,
                self._config.listen.port,
                ssl=self._certificate.context,
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

    async def close(self) -> None:
        """Let everybody go: the node stops."""
        if self._server is not None:
            code = protocol.CLOSE_CODES[protocol.STOPPING]
            for one in self._admission.connections():  # in the order in which they came
                if isinstance(one, Connection) and one.protocol.state is State.OPEN:
                    farewell = asyncio.ensure_future(one.close(code, FAREWELL))
                    self._farewells[farewell] = None
            self._server.close(code=code, reason=FAREWELL)
            await self._server.wait_closed()
            await asyncio.gather(*self._farewells, return_exceptions=True)

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, Connection)
        try:
            await self._let_through(connection, await self._hello(connection))
        except Ended as ended:
            self._admission.count(ended.code)
            await self._say_goodbye(connection, ended)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == 1009:
                self._admission.count("too_large")
        except WebSocketException:
            self._admission.count("broken")

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

    async def _let_through(self, connection: Connection, hello: Hello) -> None:
        admission = self._admission
        holder = admission.holder(hello.token, hello.name)
        await admission.wait_for_past(hello.past)

        async def hang_up(ended: Ended) -> None:
            await self._say_goodbye(connection, ended)

        with admission.session(connection, holder, hello.binary, hang_up) as session:
            connection.protocol.max_message_size = admission.frame_bytes
            config = admission.node.config
            welcome = Welcome(
                protocol.VERSION,
                config.node,
                config.cluster,
                holder.name,
                config.limits.body_bytes,
                WINDOW.value,
            )
            await session.send(encode(welcome))
            await session.run()

    async def _say_goodbye(self, connection: Connection, ended: Ended) -> None:
        """Tell it why, in a frame for programs and in the reason that browsers show."""
        code = protocol.CLOSE_CODES.get(ended.code, protocol.CLOSE_CODES[protocol.BAD_FRAME])
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN.value):
                await connection.send(encode(Refusal(0, ended.code, str(ended))))
            await connection.close(code, ended.code)
            return
        connection.transport.abort()


def _quiet_logger() -> logging.Logger:
    """What strangers do wrong is counted; a line for each would fill the log."""
    quiet = logging.getLogger(f"{__name__}.connections")
    quiet.setLevel(logging.CRITICAL)
    return quiet


@final
class Doors:
    """All ways in to one node."""

    def __init__(self, node: Node, config: ClientDoor) -> None:
        self._admission = Admission(node, config)
        self._certificate = DoorCertificate(config, self._admission.tls)
        self._doors: list[Door | HttpDoor] = [Door(self._admission, config, self._certificate)]
        if config.http is not None:
            origins, context = config.origins, self._certificate.context
            self._doors.append(HttpDoor(self._admission, config.http, origins, context))

    async def start(self) -> None:
        """Take in what was kept, then listen."""
        await self._admission.log.start()
        for door in self._doors:
            await door.start()

    async def watch(self) -> None:
        """Let go whose token lapsed or was revoked; use a certificate that was renewed."""
        while True:
            await asyncio.sleep(LOOK_EVERY.value)
            await self._admission.let_go_without_token()
            self._certificate.renew()

    async def close(self) -> None:
        """Let everybody go: the node stops."""
        for door in self._doors:
            await door.close()

    def numbers(self) -> dict[str, Any]:
        """What `status` shows of it."""
        return self._admission.numbers()


@contextlib.asynccontextmanager
async def opened(node: Node, config: ClientDoor) -> AsyncIterator[Doors]:
    """The doors of a running node, open while this is entered."""
    doors = Doors(node, config)
    try:
        await doors.start()
        watching = asyncio.create_task(doors.watch())
        try:
            yield doors
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError, CausalcastError):
                await watching
    finally:
        await doors.close()
