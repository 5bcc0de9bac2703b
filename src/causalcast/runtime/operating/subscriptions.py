"""Programs that read a group through the control socket, and say themselves what they handled.

All subscribers of a group get every message, in order. A message counts as handled when one of
them has acknowledged it; what lies in a socket's buffer is handled by nobody. When the last
subscriber goes, what was not acknowledged goes back to its place, for the next one or for the
node's application.

A subscriber has a window of messages that it has not acknowledged. While nobody has room in it,
nothing is taken: it waits in the node's inbox, on disk. One that lags behind while others go on is
cut off and told so: it holds nobody up.
"""

import asyncio
import base64
import contextlib
from typing import Final

from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError, NodeError
from causalcast.limits import Limit
from causalcast.runtime.node import Group, Node
from causalcast.runtime.operating.control_client import Answer, line_of, name_of
from causalcast.runtime.reader import Reader
from causalcast.runtime.received_message import ReceivedMessage

WINDOW: Final = Limit(
    "runtime.operating.subscriptions.window",
    256,
    least=1,
    most=1 << 16,
    unit="messages",
    about="messages that a subscriber has and has not acknowledged",
)
WINDOW_BYTES: Final = Limit(
    "runtime.operating.subscriptions.window_bytes",
    1 << 20,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="the same in bytes",
)


class Subscriber:
    """One program that reads, and what it has not acknowledged."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._has: dict[MessageId, int] = {}  # how many bytes each is
        self._bytes = 0

    def has_room(self) -> bool:
        """Whether it may be given another message."""
        return len(self._has) < WINDOW.value and self._bytes < WINDOW_BYTES.value

    def give(self, message: ReceivedMessage) -> None:
        """Write a message; the window bounds what waits for the socket."""
        line = line_of(describe(message))
        self._has[message.id] = len(line)
        self._bytes += len(line)
        self._writer.write(line)

    def acknowledged(self, message: MessageId) -> None:
        """It has handled this one, or says so."""
        self._bytes -= self._has.pop(message, 0)

    def cut_off(self, reason: str) -> None:
        """Tell it why it gets nothing more; an empty reason says that the node stops."""
        if reason:
            self._writer.write(line_of({"ok": False, "error": reason}))
        self._writer.close()


class Feed:
    """The subscribers of one group, under one name or none, and what nobody of them has handled."""

    def __init__(self, node: Node, group: str, reader: str = "") -> None:
        """`reader`: under whose name they read; empty for the plain reader."""
        self._node = node
        self._group = group
        self._name = reader
        self._subscribers: dict[Subscriber, None] = {}
        self._unhandled: dict[MessageId, ReceivedMessage] = {}  # all subscribers have them
        self._room = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()  # a feed that begins anew waits for its own end

    def join(self, subscriber: Subscriber) -> None:
        """A further subscriber: it begins with what nobody has handled yet."""
        for message in self._unhandled.values():
            subscriber.give(message)
        self._subscribers[subscriber] = None
        self._room.set()
        if self._pump is None:
            self._pump = asyncio.create_task(self._read())

    def leave(self, subscriber: Subscriber) -> None:
        """It hung up. What the last one has not handled goes back to its place."""
        self._subscribers.pop(subscriber, None)
        if not self._subscribers and self._pump is not None:
            self._pump.cancel()
            self._pump = None
            self._give_back()

    async def acknowledge(self, subscriber: Subscriber, message: MessageId) -> None:
        """A subscriber has handled a message; the first to say so counts."""
        subscriber.acknowledged(message)
        self._room.set()
        handled = self._unhandled.pop(message, None)
        if handled is not None:
            await handled.ack()

    async def close(self) -> None:
        """The node stops: end all subscriptions."""
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        self._end("")

    async def _read(self) -> None:
        try:
            async with self._reading, self._node.group(self._group) as group:
                messages: Group | Reader = group
                if self._name:
                    messages = await group.subscribe(self._name)
                while True:
                    self._room.clear()
                    if not any(one.has_room() for one in self._subscribers):
                        await self._room.wait()
                        continue
                    self._hand_out(await anext(messages))
        except CausalcastError as error:
            self._pump = None
            self._end(str(error))

    def _hand_out(self, message: ReceivedMessage) -> None:
        self._unhandled[message.id] = message
        others = any(one.has_room() for one in self._subscribers)
        for one in list(self._subscribers):
            if others and not one.has_room():
                self._subscribers.pop(one)
                one.cut_off(
                    "cut off: other subscribers went on, and this one had too many messages that "
                    "it had not acknowledged"
                )
            else:
                one.give(message)

    def _end(self, reason: str) -> None:
        subscribers, self._subscribers = self._subscribers, {}
        for one in subscribers:
            one.cut_off(reason)
        self._give_back()

    def _give_back(self) -> None:
        unhandled, self._unhandled = self._unhandled, {}
        for message in reversed(unhandled.values()):
            with contextlib.suppress(NodeError):  # its reader was ended
                message.give_back()


def describe(message: ReceivedMessage) -> Answer:
    """A message as JSON can carry it."""
    shown: Answer = {
        "message": name_of(message.id),
        "group": message.group,
        "origin": message.origin,
    }
    try:
        shown["text"] = message.payload.decode()
    except UnicodeDecodeError:
        shown["base64"] = base64.b64encode(message.payload).decode()
    if message.published_at is not None:
        shown["published_at"] = message.published_at.isoformat()
    if message.headers:
        shown["headers"] = dict(message.headers)
    if message.content_type:
        shown["content_type"] = message.content_type
    return shown
