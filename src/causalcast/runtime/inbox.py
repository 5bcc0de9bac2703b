"""Deliveries that the application has not handled yet, in order, per group.

A delivery stays here until it is acknowledged; the journal has it too. Bodies are kept in memory
up to a limit; beyond it only their places in the journal are, and a body is read back when its
turn comes. So an application may be as slow as it likes: no link and no other group waits for it.
"""

import asyncio
import collections
from collections.abc import Callable

from causalcast.core.ids import GroupId, MessageId
from causalcast.core.message import Publication
from causalcast.runtime.durable_entry import StoredMessage
from causalcast.runtime.journal_frames import Place


class Waiting:
    """One delivery: its body, or where the journal has it."""

    __slots__ = ("body", "group", "id", "index", "place")

    def __init__(
        self,
        message: MessageId,
        group: GroupId,
        body: bytes | None,
        place: Place | None,
        index: int,
    ) -> None:
        self.id = message
        self.group = group
        self.body = body
        self.place = place  # None: it is in no journal
        self.index = index  # among the deliveries of the entry at `place`


class Inbox:
    """All deliveries of a node that were not acknowledged."""

    def __init__(self, memory_limit: int, load: Callable[[Place, int], bytes]) -> None:
        self.unacknowledged: dict[MessageId, Waiting] = {}
        self._memory_limit = memory_limit
        self._load = load  # a body from the journal
        self._in_memory = 0  # bytes of bodies that wait here
        self._queues: dict[GroupId, collections.deque[Waiting]] = {}
        self._arrivals: dict[GroupId, asyncio.Event] = {}

    def add(self, publication: Publication, place: Place | None, index: int) -> None:
        """A delivery became durable."""
        body: bytes | None = publication.body
        if place is not None and self._in_memory + len(publication.body) > self._memory_limit:
            body = None
        self._put(Waiting(publication.id, publication.group, body, place, index))

    def restore(self, stored: StoredMessage) -> None:
        """A delivery from before a restart was never acknowledged: hand it over again."""
        self._put(Waiting(stored.id, stored.group, None, stored.place, stored.index))

    def take(self, group: GroupId) -> Publication | None:
        """The next delivery of `group` for the application; None if nothing waits."""
        queue = self._queues.get(group)
        if not queue:
            return None
        waiting = queue.popleft()
        body = waiting.body
        if body is None:
            assert waiting.place is not None
            body = self._load(waiting.place, waiting.index)
        else:
            self._in_memory -= len(body)
            waiting.body = None
        if waiting.place is None:
            del self.unacknowledged[waiting.id]  # without a journal a restart brings nothing back
        return Publication(waiting.id, group, body)

    def give_back(self, publication: Publication) -> None:
        """The application could not handle what it took: it comes again, before all others."""
        waiting = self.unacknowledged.get(publication.id)
        if waiting is None:
            waiting = Waiting(publication.id, publication.group, None, None, 0)
            self.unacknowledged[publication.id] = waiting
        waiting.body = publication.body
        self._in_memory += len(publication.body)
        self._queues.setdefault(publication.group, collections.deque()).appendleft(waiting)

    def acknowledge(self, message: MessageId) -> bool:
        """The application has handled `message`; False if it had done so before."""
        return self.unacknowledged.pop(message, None) is not None

    async def arrival(self, group: GroupId) -> None:
        """Wait until something of `group` may be there."""
        event = self._arrivals.setdefault(group, asyncio.Event())
        event.clear()
        if not self._queues.get(group):
            await event.wait()

    def wake_all(self) -> None:
        """Let everybody who waits look again, because the node stops."""
        for event in self._arrivals.values():
            event.set()

    def moved(self, message: MessageId, place: Place, index: int) -> None:
        """The journal was compacted and has the body at another place now."""
        waiting = self.unacknowledged.get(message)
        if waiting is not None:
            waiting.place, waiting.index = place, index

    def waiting_count(self) -> int:
        """Deliveries that were not handed to the application."""
        return sum(len(queue) for queue in self._queues.values())

    def _put(self, waiting: Waiting) -> None:
        if waiting.body is not None:
            self._in_memory += len(waiting.body)
        self.unacknowledged[waiting.id] = waiting
        self._queues.setdefault(waiting.group, collections.deque()).append(waiting)
        event = self._arrivals.get(waiting.group)
        if event is not None:
            event.set()
