"""`causalcast.connect`: a node of a cluster used from elsewhere, with the interface of `Group`.

    async with causalcast.connect("wss://10.0.0.1:7500", token) as node:
        async with node.group("chat") as chat:
            await chat.publish(b"hello")
            async for message in chat:
                print(message.origin, message.payload)
                await message.ack()

A connection that breaks is made again, to the same node or to another of those that are given. The
client goes on where it was: it says what it has handled, and what it has seen or published, and
the node waits until it has all of that. A publication without an answer is asked for again, with
its key, at the node that may have made it; no other node can know whether it was made.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from causalcast.any_node import Since
from causalcast.clients import protocol
from causalcast.clients.client_position import ClientPosition
from causalcast.clients.dialling import CLOSED_WITHIN, Dialler, give_up_or_wait
from causalcast.clients.protocol import Delivery, Refusal
from causalcast.clients.remote_group import RemoteGroup, RemoteGroups
from causalcast.clients.requests import Answer, Requests
from causalcast.clients.subscriptions import Subscriptions
from causalcast.core.ids import NodeId
from causalcast.errors import ConfigError, NodeError, WireError
from causalcast.groups_by_name import GroupsByName
from causalcast.limits import Span

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = Span(
    "clients.connect.first_pause",
    0.05,
    least=0.001,
    most=60.0,
    about="after all nodes were tried in vain, before they are tried again; doubled each time",
)
LONGEST_PAUSE: Final = Span(
    "clients.connect.longest_pause",
    2.0,
    least=0.001,
    most=600.0,
    about="the same, at most",
)
STAY: Final = Span(
    "clients.connect.stay",
    10.0,
    least=0.01,
    most=600.0,
    about="how long a client waits for the node that may have made its publications",
)
ANSWERS: Final = get_args(Answer)


def connect(
    url: str | Sequence[str],
    token: str = "",
    *,
    name: str = "",
    position: Mapping[str, Any] | None = None,
    tls: ssl.SSLContext | None = None,
) -> "RemoteNode":
    """A node at a door, or one of several; enter it to connect.

    `token`: of `causalcast keys client`. `name`: who this is, where there are no tokens. `position`
    is what an earlier client returned from `position()`: this one goes on there. `tls`: how to know
    a node that has another certificate than that of its identity, as from a public authority.
    """
    urls = [url] if isinstance(url, str) else list(url)
    for one in urls:
        if not one.startswith(("ws://", "wss://")):
            raise ConfigError(f"{one!r}: expected the address of a door, such as wss://host:7500")
    if not urls:
        raise ConfigError("expected at least one address of a door, such as wss://host:7500")
    return RemoteNode(urls, Dialler(token, name, tls), ClientPosition(position))


class RemoteNode(GroupsByName[RemoteGroup]):
    """The client's end: one connection at a time, and all that outlives it."""

    def __init__(self, urls: list[str], dialler: Dialler, position: ClientPosition) -> None:
        self._urls = urls
        self._dialler = dialler
        self._position = position
        self._requests = Requests()
        self._subscriptions = Subscriptions(self._requests, position)
        self._node: int | None = None  # that it is connected to, or was last
        self._connected = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._at = 0  # which address
        self.reconnections = -1

    async def __aenter__(self) -> "RemoteNode":
        self._running = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait([self._running, waiting], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.close()
            raise
        finally:
            waiting.cancel()
        failure = self._requests.failure
        if failure is not None:
            await self.close()
            raise failure
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; what was acknowledged is told first."""
        socket = self._requests.socket
        if socket is not None:
            with contextlib.suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(CLOSED_WITHIN.value):
                    await self._subscriptions.tell()
                    await socket.close()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._subscriptions.close()
        self._fail(self._requests.failure or NodeError("the connection was closed"))

    @property
    def id(self) -> NodeId:
        """The node that this is connected to now, or was last."""
        if self._node is None:
            raise NodeError("not connected; use `async with causalcast.connect(...)`")
        return NodeId(self._node)

    def position(self) -> dict[str, Any]:
        """Where this client is, as plain data: `connect(…, position=…)` goes on there, in another
        process and at another node."""
        return self._position.as_data()

    def _handle(self, name: str, since: Since) -> RemoteGroup:
        self._check_entered()
        reader = self._subscriptions.reader_of(name)
        if isinstance(reader, RemoteGroup):
            return reader
        return RemoteGroup(self._subscriptions, name, since)

    def together(self, *names: str, since: Since = "now") -> RemoteGroups:
        """Several groups with one queue: what is read there is never an effect before its cause,
        whatever groups they were published to. Publish by `group(name)`."""
        self._check_entered()
        if not names:
            raise NodeError("expected names of groups: node.together('acl', 'posts')")
        return RemoteGroups(self._subscriptions, names, since)

    async def _make_group(self, name: str) -> None:
        self._check_entered()
        await self._requests.ask(protocol.CreateGroup(self._requests.number(), name))
        self._position.note_group(name)

    async def remove_group(self, name: str) -> None:
        self._check_entered()
        await self._requests.ask(protocol.RemoveGroup(self._requests.number(), name))
        self._position.past.pop(name, None)

    async def groups(self) -> dict[str, list[str]]:
        """Which groups this client may "publish" to and "subscribe" to."""
        self._check_entered()
        reply = await self._requests.ask(protocol.ListGroups(self._requests.number()))
        assert isinstance(reply, protocol.GroupList)
        return {"publish": reply.publish, "subscribe": reply.subscribe}

    async def presence(self) -> dict[str, Any]:
        """The node, its neighbours that are "linked", and who of them is "suspected"."""
        self._check_entered()
        reply = await self._requests.ask(protocol.Presence(self._requests.number()))
        assert isinstance(reply, protocol.Present)
        return {"node": reply.node, "linked": reply.linked, "suspected": reply.suspected}

    def cut(self) -> None:
        """Break the connection as a network does: for tests of programs that must bear that."""
        if self._requests.socket is not None:
            self._requests.socket.transport.abort()

    def _check_entered(self) -> None:
        if self._running is None:
            raise NodeError("not connected; use `async with causalcast.connect(...)`")

    # The connection

    async def _run(self) -> None:
        pause = FIRST_PAUSE.value
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            while self._requests.failure is None:
                was_connected = await self._try_once(self._urls[self._at])
                now = loop.time()
                if was_connected:
                    pause, began = FIRST_PAUSE.value, now
                waits = self._requests.publications_wait()
                if not waits or now >= began + STAY.value:  # else the node that knows the answer
                    self._at = (self._at + 1) % len(self._urls)
                    if self._at != 0 and not waits:
                        continue
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE.value)
        finally:
            self._connected.clear()
        self._fail(self._requests.failure or NodeError("the connection was closed"))

    async def _try_once(self, url: str) -> bool:
        """Dial, go on until the connection ends; whether there was one."""
        was_connected = False
        try:
            async with self._dialler.dial(url, self._position.past) as (socket, welcome):
                self._node = welcome.node
                self._requests.begin(socket, welcome.node)
                await self._subscriptions.read_again()
                await self._requests.send_again()
                was_connected = True
                self.reconnections += 1
                self._connected.set()
                await self._read(socket, url)
        except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, WireError) as error:
            log.info("%s: %s", url, error)
        except NodeError as error:
            self._requests.failure = error
        finally:
            self._requests.end()
            self._subscriptions.connection_lost()
            self._connected.clear()
        return was_connected

    async def _read(self, socket: ClientConnection, url: str) -> None:
        async for frame in socket:
            assert isinstance(frame, (str, bytes))
            reply, behind = protocol.decode_reply(frame)
            if isinstance(reply, Delivery):
                self._subscriptions.arrived(reply, behind)
            elif isinstance(reply, Refusal) and reply.id == 0:
                give_up_or_wait(reply, url)
            elif isinstance(reply, ANSWERS):
                self._requests.answered(reply)

    def _fail(self, failure: NodeError) -> None:
        self._requests.fail(failure)
        self._subscriptions.fail(failure)
