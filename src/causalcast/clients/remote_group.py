"""Groups at a node elsewhere, their messages and receipts."""

import asyncio
import collections
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, final

from causalcast.any_node import AnyReader, Since
from causalcast.clients.protocol import name_of, note
from causalcast.clients.subscriptions import Subscriptions, second_reader
from causalcast.clients.unhandled import Unhandled
from causalcast.core.ids import NO_MESSAGE, MessageId, NodeId, number_of, origin_of
from causalcast.errors import Gap, NodeError
from causalcast.runtime.group_reader import GroupReader
from causalcast.runtime.metadata import Metadata, said_of

_NO_QUESTIONS: Final = (
    "a client neither asks nodes nor answers them: publish a question and its answer, or let the "
    "application at the node ask (`group.ask`)"
)
_NO_NAMES: Final = (
    "a client has no readers with names: every connection has a position of its own, so connect "
    "once more for another reader (`causalcast.connect(…, name=…)`)"
)


@final
class RemoteReceipt:
    """A publication that is durable at the node."""

    __slots__ = ("group", "id")

    def __init__(self, message: MessageId, group: str) -> None:
        self.id = message
        self.group = group

    def __repr__(self) -> str:
        return f"<receipt {name_of(self.id)} in {self.group!r}>"


@final
class RemoteMessage:
    """A message as the client gets it. It comes again, in another life too, until it is acked."""

    __slots__ = ("_group", "_is_acked", "_known", "group", "id", "is_given_back", "payload")

    def __init__(
        self, group: "RemoteGroup", message: MessageId, payload: bytes, known: Metadata
    ) -> None:
        self._group = group
        self._known = known
        self.group = group.name
        self.id = message
        self.payload = payload
        self.is_given_back = False
        self._is_acked = False

    @property
    def origin(self) -> NodeId:
        """Which node published it."""
        return origin_of(self.id)

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""
        return number_of(self.id)

    @property
    def published_at(self) -> datetime | None:
        """When it was published, by the clock of its node; None where it does not say."""
        return self._known.published_at()

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher says of it, by name."""
        return self._known.headers

    @property
    def content_type(self) -> str:
        """What kind of payload it is, in its publisher's words; empty if it does not say."""
        return self._known.content_type

    async def ack(self) -> None:
        """Say that it is handled: the client's position is behind it."""
        if self.is_given_back:
            raise NodeError(f"{self!r} was given back: it comes again, and is acknowledged then")
        self._is_acked = True
        self._group.handled(self.id)

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""
        if self._is_acked:
            raise NodeError(f"{self!r} was acknowledged: it does not come again")
        if not self.is_given_back:
            self.is_given_back = True
            again = RemoteMessage(self._group, self.id, self.payload, self._known)
            self._group.put_back([again])

    def __repr__(self) -> str:
        return f"<message {name_of(self.id)} in {self.group!r}: {self.payload[:40]!r}>"


class Line(GroupReader[RemoteMessage]):
    """Messages that came, in the order of the node, for one reader."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._waiting: collections.deque[RemoteMessage] = collections.deque()
        self._arrived = asyncio.Event()
        self._is_read = False
        self._failure: NodeError | None = None

    def add(self, message: RemoteMessage) -> None:
        """One more came."""
        self._waiting.append(message)
        self._arrived.set()

    def put_back(self, messages: Sequence[RemoteMessage]) -> None:
        """Nobody has handled these: they come next."""
        self._waiting.extendleft(reversed(messages))
        self._arrived.set()

    def fail(self, failure: NodeError) -> None:
        """Nothing comes any more."""
        self._failure = failure
        self._arrived.set()

    def _check_entered(self) -> None:
        """Raise if nothing can come, because nobody has asked for it."""

    def _take(self) -> RemoteMessage | None:
        self._check_not_called()
        if self._waiting:
            return self._waiting.popleft()
        if self._failure is not None:
            raise self._failure
        self._check_entered()
        return None

    async def _arrival(self) -> None:
        if self._is_read:
            raise NodeError(second_reader(self._names))
        self._arrived.clear()
        self._is_read = True
        try:
            await self._arrived.wait()
        finally:
            self._is_read = False


@final
class RemoteGroup(Line):
    """A group at a node elsewhere. Entering it subscribes, leaving it ends that."""

    def __init__(
        self, subscriptions: Subscriptions, name: str, since: Since, line: Line | None = None
    ) -> None:
        """`line`: where its messages go, if it is read together with others."""
        super().__init__(repr(name))
        self.name = name
        self.since: Since = since
        self._subscriptions = subscriptions
        self._line = line or self
        self._unhandled = Unhandled()

    async def __aenter__(self) -> "RemoteGroup":
        await self._subscriptions.add([self])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._subscriptions.remove([self.name])

    async def publish(
        self,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
        key: str = "",
    ) -> RemoteReceipt:
        """Publish `body`; returns when it is durable at a node.

        `key`: the same publication has the same key, in another life of the program too. Unanswered
        if the node that was asked is gone: it may have been published, or not.
        """
        if not isinstance(body, bytes):
            raise NodeError(f"a body is bytes, not {type(body).__name__}")
        said = said_of(headers, content_type)
        message = await self._subscriptions.requests.publish(self.name, body, key, said)
        note(self._subscriptions.position.past, self.name, message)
        return RemoteReceipt(message, self.name)

    async def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> list[RemoteReceipt]:
        """Publish all of them in this order; returns when all are durable."""
        tasks = [
            asyncio.ensure_future(self.publish(body, headers, content_type)) for body in bodies
        ]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def subscribe(self, name: str, since: Since = "now") -> AnyReader:
        """Not at a client: a NodeError."""
        raise NodeError(_NO_NAMES)

    async def unsubscribe(self, name: str) -> None:
        """Not at a client: a NodeError."""
        raise NodeError(_NO_NAMES)

    async def ask(self, node: int, body: bytes, timeout: float | None = None) -> bytes:
        """Not at a client: a NodeError."""
        raise NodeError(_NO_QUESTIONS)

    def on_ask(self, handler: object) -> None:
        """Not at a client: a NodeError."""
        raise NodeError(_NO_QUESTIONS)

    # For the connection

    def handled(self, message: MessageId) -> None:
        """The application has handled a message: the client's position is behind it."""
        last = self._unhandled.handled(message)
        if last != NO_MESSAGE:
            note(self._subscriptions.position.seen, self.name, last)
        self._subscriptions.tell_handled(message)

    def arrived(self, message: MessageId, body: bytes, known: Metadata) -> None:
        """A message came; one that the application has or had is told of, and not given again."""
        seen = self._subscriptions.position.seen.get(self.name, {})
        if number_of(message) <= seen.get(origin_of(message), 0):
            self._subscriptions.tell_handled(message)
            return
        is_new, is_handled = self._unhandled.arrived(message)
        if is_new:
            self._line.add(RemoteMessage(self, message, body, known))
        elif is_handled:
            self._subscriptions.tell_handled(message)

    def put_back(self, messages: Sequence[RemoteMessage]) -> None:
        if self._line is self:
            super().put_back(messages)
        else:
            self._line.put_back(messages)

    def fail(self, failure: NodeError) -> None:
        super().fail(failure)
        if self._line is not self:
            self._line.fail(failure)

    def stop_calling(self) -> None:
        super().stop_calling()
        if self._line is not self:
            self._line.stop_calling()

    def _check_entered(self) -> None:
        if self._subscriptions.reader_of(self.name) is not self:
            raise NodeError(f"enter the group to read it: `async with node.group({self.name!r})`")
        if self._line is not self:
            raise NodeError(f"{self.name!r} is read already, together with others")


@final
class RemoteGroups(Line):
    """Several groups, read together: one queue, in one causal order."""

    def __init__(self, subscriptions: Subscriptions, names: Sequence[str], since: Since) -> None:
        super().__init__(", ".join(map(repr, names)))
        self._subscriptions = subscriptions
        self._members = [RemoteGroup(subscriptions, name, since, self) for name in names]

    async def __aenter__(self) -> "RemoteGroups":
        await self._subscriptions.add(self._members)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._subscriptions.remove([member.name for member in self._members])

    def _take(self) -> RemoteMessage | None:
        # What waits behind a gap may be an effect of what is missing; it comes again.
        if isinstance(self._failure, Gap):
            raise self._failure
        return super()._take()

    def _check_entered(self) -> None:
        first = self._members[0]
        if self._subscriptions.reader_of(first.name) is not first:
            raise NodeError("enter the groups to read them: `async with node.together(...)`")
