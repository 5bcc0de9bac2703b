"""A message as the application gets it. Compiled: one is made for every delivery."""

import asyncio
from collections.abc import Callable
from typing import final

from causalcast.core.ids import MessageId, NodeId, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.runtime.host import Host


@final
class ReceivedMessage:
    """A message as the application gets it. It comes again after a restart until it is acked."""

    __slots__ = ("_host", "_publication", "group")

    def __init__(self, host: Host, publication: Publication, group: str) -> None:
        self._host = host
        self._publication = publication
        self.group = group

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""
        return self._publication.id

    @property
    def payload(self) -> bytes:
        """What was published."""
        return self._publication.body

    @property
    def origin(self) -> NodeId:
        """Who published it."""
        return origin_of(self._publication.id)

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""
        return number_of(self._publication.id)

    async def ack(self, durable: bool = False) -> None:
        """Say that it is handled: after a restart it is not handed over again.

        The mark is written with the next entries of the journal, within 50 ms. A crash before
        that hands the message over once more; with `durable` this returns when the mark is on
        disk, and no crash does that any more.
        """
        marking = self._host.acknowledge(self._publication.id)
        if durable and marking is not None:
            await asyncio.shield(marking)  # others wait for the same one

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next, in this life too."""
        self._host.inbox.give_back(self._publication)

    def __repr__(self) -> str:
        return f"<message {self.origin}.{self.number} in {self.group!r}: {self.payload[:40]!r}>"


@final
class Caller:
    """Hands publications to a callback of the application."""

    def __init__(
        self, host: Host, group: str, callback: Callable[[ReceivedMessage], object]
    ) -> None:
        self._host = host
        self._group = group
        self._callback = callback

    def hand_over(self, publication: Publication) -> None:
        """What the callback returns from is acknowledged."""
        self._callback(ReceivedMessage(self._host, publication, self._group))
        if self._host.journal is not None:
            self._host.acknowledge(publication.id)
