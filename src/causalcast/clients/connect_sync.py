"""`causalcast.connect_sync`: a client for programs without asyncio, such as workers with threads.

    with causalcast.connect_sync("wss://10.0.0.1:7500", token) as node, node.group("chat") as chat:
        chat.publish(b"hello")
        for message in chat.messages(timeout=5):
            print(message.origin, message.payload)
            message.ack()

The connection lives in an event loop of a thread of its own. Calls may come from any thread. An
interrupt or a timeout while waiting loses nothing: what was taken meanwhile goes back to its place.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from causalcast.any_node import Since
from causalcast.clients.connect import RemoteNode, connect
from causalcast.clients.remote_group import (
    Line,
    RemoteGroup,
    RemoteGroups,
    RemoteMessage,
    RemoteReceipt,
)
from causalcast.errors import NodeError
from causalcast.forks import OwnProcess
from causalcast.groups_by_name import SyncGroupsByName
from causalcast.wrapped_message import WrappedMessage

Result = TypeVar("Result")


def connect_sync(
    url: str | Sequence[str],
    token: str = "",
    *,
    name: str = "",
    position: Mapping[str, Any] | None = None,
    tls: ssl.SSLContext | None = None,
) -> "SyncRemoteNode":
    """As `causalcast.connect`, for programs without asyncio; enter it to connect."""
    return SyncRemoteNode(lambda: connect(url, token, name=name, position=position, tls=tls))


class SyncRemoteMessage(WrappedMessage[RemoteMessage]):
    """A message as the client gets it. It comes again, in another life too, until it is acked."""

    __slots__ = ("_node",)

    def __init__(self, node: "SyncRemoteNode", raw: RemoteMessage) -> None:
        super().__init__(raw)
        self._node = node

    def ack(self) -> None:
        """Say that it is handled: the client's position is behind it when this returns."""
        self._node.run(self.raw.ack())

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""

        async def give_back() -> None:
            self.raw.give_back()

        self._node.run(give_back())


class _Taking:
    """Somebody in a thread waits for messages, which the loop takes for him."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._nobody_waits = False
        self._messages: list[RemoteMessage] = []

    async def take(self, most: int, timeout: float | None) -> list[RemoteMessage]:
        """In the loop: get the next messages, and put them back if nobody waits any more."""
        messages = await self._line.receive_many(most, timeout)
        with self._lock:
            if self._nobody_waits:
                self._line.put_back(messages)
            else:
                self._messages = messages
        return messages

    def give_up(self) -> list[RemoteMessage]:
        """In the thread: wait no more. What came all the same is returned."""
        with self._lock:
            self._nobody_waits = True
            return self._messages


class SyncRemoteGroup:
    """A group, or several together, at a node elsewhere. Entering it subscribes."""

    def __init__(self, node: "SyncRemoteNode", names: Sequence[str], since: Since) -> None:
        self._node = node
        self._names = names
        self._since: Since = since
        self._line: RemoteGroup | RemoteGroups | None = None

    def __enter__(self) -> "SyncRemoteGroup":
        self._line = self._node.run(self._enter())
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._node.run(self._line.__aexit__())

    async def _enter(self) -> RemoteGroup | RemoteGroups:
        remote = self._node.remote()
        if len(self._names) > 1:
            return await remote.together(*self._names, since=self._since).__aenter__()
        return await remote.group(self._names[0], self._since).__aenter__()

    def publish(
        self,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
        key: str = "",
    ) -> RemoteReceipt:
        """As `RemoteGroup.publish`; not of groups that are read together."""
        if len(self._names) > 1:
            raise NodeError("publish to one group: node.group(name).publish(body)")
        group = self._node.remote().group(self._names[0])
        return self._node.run(group.publish(body, headers, content_type, key))

    def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> list[RemoteReceipt]:
        """Publish all of them in this order; returns when all are durable."""
        if len(self._names) > 1:
            raise NodeError("publish to one group: node.group(name).publish_many(bodies)")
        group = self._node.remote().group(self._names[0])
        return self._node.run(group.publish_many(bodies, headers, content_type))

    def receive(self, timeout: float | None = None) -> SyncRemoteMessage | None:
        """The next message; None if none has come after `timeout` seconds."""
        return next(iter(self.receive_many(1, timeout)), None)

    def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[SyncRemoteMessage]:
        """As `RemoteGroup.receive_many`."""
        if self._line is None:
            raise NodeError("enter the group to read it: `with node.group(name) as group`")
        line = self._line
        taking = _Taking(line)
        try:
            messages = self._node.run(taking.take(most, timeout))
        except BaseException:
            left = taking.give_up()
            if left:
                self._node.call(lambda: line.put_back(left))
            raise
        return [SyncRemoteMessage(self._node, message) for message in messages]

    def messages(self, timeout: float | None = None) -> Iterator[SyncRemoteMessage]:
        """All messages; ends when none has come for `timeout` seconds."""
        while True:
            message = self.receive(timeout)
            if message is None:
                return
            yield message

    def batches(
        self, most: int = 1000, timeout: float | None = None
    ) -> Iterator[list[SyncRemoteMessage]]:
        """All messages, as many together as wait, but at most `most`; ends when none has come for
        `timeout` seconds."""
        while messages := self.receive_many(most, timeout):
            yield messages

    def ack_many(self, messages: Iterable[SyncRemoteMessage]) -> None:
        """Acknowledge all of them."""
        remote = [message.raw for message in messages]

        async def acknowledge() -> None:
            for message in remote:
                await message.ack()

        self._node.run(acknowledge())


class SyncRemoteNode(SyncGroupsByName[SyncRemoteGroup]):
    """The client's end, and the thread in which it lives."""

    def __init__(self, make: Callable[[], RemoteNode]) -> None:
        self._make = make
        make()  # what is wrong with the arguments is told here
        self._process = OwnProcess()
        self._remote: RemoteNode | None = None
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "SyncRemoteNode":
        if self._thread is not None:
            raise NodeError("a connection is entered once; connect again")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="causalcast client", daemon=True
        )
        self._thread.start()
        try:
            self._remote = self.run(self._enter())
        except BaseException:
            self._end()
            raise
        return self

    async def _enter(self) -> RemoteNode:
        return await self._make().__aenter__()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; what was acknowledged is told first. In a process that was forked off there is
        nothing to close."""
        if not self._process.is_this:
            return
        if self._remote is not None:
            self.run(self._remote.close())
            self._remote = None
            self._end()

    def _handle(self, name: str, since: Since) -> SyncRemoteGroup:
        return SyncRemoteGroup(self, [name], since)

    def _in_loop(self) -> RemoteNode:
        return self.remote()

    def together(self, *names: str, since: Since = "now") -> SyncRemoteGroup:
        """As `RemoteNode.together`."""
        return SyncRemoteGroup(self, names, since)

    def groups(self) -> dict[str, list[str]]:
        """As `RemoteNode.groups`."""
        return self.run(self.remote().groups())

    def presence(self) -> dict[str, Any]:
        """As `RemoteNode.presence`."""
        return self.run(self.remote().presence())

    def position(self) -> dict[str, Any]:
        """As `RemoteNode.position`."""

        async def position() -> dict[str, Any]:
            return self.remote().position()

        return self.run(position())

    # For messages and groups

    def remote(self) -> RemoteNode:
        """The connection, in its own loop."""
        if self._remote is None:
            raise NodeError("not connected; use `with causalcast.connect_sync(...)`")
        return self._remote

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Let the loop do something, and wait for it."""
        if not self._process.is_this:
            work.close()
        self._process.check()
        if self._thread is None or not self._thread.is_alive():
            work.close()
            raise NodeError("not connected; use `with causalcast.connect_sync(...)`")
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def call(self, work: Callable[[], None]) -> None:
        """Let the loop do something soon."""
        self._loop.call_soon_threadsafe(work)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._loop.close()
