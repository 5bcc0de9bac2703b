"""A message as the application gets it. Compiled: one is made for every delivery."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar, final

from causalcast.any_node import AnyMessage
from causalcast.core.ids import GroupId, MessageId, NodeId, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.errors import NodeError
from causalcast.runtime.host.host import Host
from causalcast.runtime.metadata import metadata_in, payload_in

Message = TypeVar("Message")


class TakesBack(Protocol):
    """Where a message goes that could not be handled."""

    def give_back(self, publication: Publication) -> None:
        """It comes again next."""


class Keeper(Protocol):
    """Who hands a message over, and keeps it until it is acknowledged: a node, or a reader."""

    @property
    def inbox(self) -> TakesBack:
        """Where it is given back."""

    def acknowledge(self, message: MessageId) -> "asyncio.Future[None] | None":
        """It is handled; returns what is done when that is durable."""


@final
class ReceivedMessage:
    """A message as the application gets it. It comes again after a restart until it is acked."""

    __slots__ = ("_host", "_is_acked", "_publication", "group", "is_given_back")

    def __init__(self, host: Keeper, publication: Publication, group: str) -> None:
        self._host = host
        self._publication = publication
        self.group = group
        self.is_given_back = False
        self._is_acked = False

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""
        return self._publication.id

    @property
    def payload(self) -> bytes:
        """What was published."""
        return payload_in(self._publication.body)

    @property
    def published_at(self) -> datetime | None:
        """When it was published, by its publisher's clock; None where it does not say, because many
        were published within `[limits] stamp_every_us`."""
        return metadata_in(self._publication.body).published_at()

    @property
    def origin(self) -> NodeId:
        """Who published it."""
        return origin_of(self._publication.id)

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""
        return number_of(self._publication.id)

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher says of it, by name."""
        return metadata_in(self._publication.body).headers

    @property
    def content_type(self) -> str:
        """What kind of payload it is, in its publisher's words; empty if it does not say."""
        return metadata_in(self._publication.body).content_type

    async def ack(self, durable: bool = False) -> None:
        """Say that it is handled: after a restart it is not handed over again.

        The mark is written with the next entries of the journal, within 50 ms. A crash before
        that hands the message over once more; with `durable` this returns when the mark is on
        disk, and no crash does that any more. NodeError if the node has stopped, for then nothing
        is marked, or if the message was given back.
        """
        if self.is_given_back:
            raise NodeError(f"{self!r} was given back: it comes again, and is acknowledged then")
        self._is_acked = True
        marking = self._host.acknowledge(self._publication.id)
        if durable and marking is not None:
            await asyncio.shield(marking)  # others wait for the same one

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next, in this life too."""
        if self._is_acked:
            raise NodeError(f"{self!r} was acknowledged: it does not come again")
        if not self.is_given_back:
            self.is_given_back = True
            self._host.inbox.give_back(self._publication)

    def __repr__(self) -> str:
        return f"<message {self.origin}.{self.number} in {self.group!r}: {self.payload[:40]!r}>"


async def as_many(
    receive: Callable[[float | None], Awaitable[Message | None]],
    take: Callable[[], Message | None],
    most: int,
    timeout: float | None,
) -> list[Message]:
    """The next one that is received, and what can be taken behind it without waiting."""
    if most < 1:
        raise NodeError(f"most = {most}: expected at least 1")
    found: list[Message] = []
    message = await receive(timeout)
    while message is not None:
        found.append(message)
        message = take() if len(found) < most else None
    return found


async def ack_many(messages: Iterable[AnyMessage], durable: bool = False) -> None:
    """Acknowledge all of them at once; with `durable` it returns when all marks are on disk."""
    last: AnyMessage | None = None
    for message in messages:
        await message.ack()
        last = message
    if durable and last is not None:
        if not isinstance(last, ReceivedMessage):
            raise NodeError(f"{last!r} is of another node, whose disk is out of reach here")
        await last.ack(durable)  # marks are written in their order


@final
class Caller:
    """Hands publications to a callback of the application."""

    def __init__(
        self, host: Host, groups: dict[GroupId, str], callback: Callable[[ReceivedMessage], object]
    ) -> None:
        self._host = host
        self._groups = groups  # their names
        self._callback = callback

    def hand_over(self, publication: Publication) -> Coroutine[None, None, None] | None:
        """What the callback returns from is acknowledged; what it returns may have to be awaited
        for that."""
        message = ReceivedMessage(self._host, publication, self._groups[publication.group])
        result = self._callback(message)
        if result is not None and inspect.isawaitable(result):
            return self._await(message, result)
        self._acknowledge(message)
        return None

    async def _await(self, message: ReceivedMessage, result: Awaitable[object]) -> None:
        await result
        self._acknowledge(message)

    def _acknowledge(self, message: ReceivedMessage) -> None:
        host = self._host
        if host.journal is not None and not message.is_given_back and not host.running.is_over:
            host.acknowledge(message.id)
