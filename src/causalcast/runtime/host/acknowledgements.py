"""What the application has handled: a restart does not hand it over again.

Acknowledgements share one entry of the journal, which is written within a moment.
"""

import asyncio
import collections
from typing import Final, final

from causalcast.core.ids import MessageId
from causalcast.limits import Span
from causalcast.runtime.host.inbox import Inbox, NamedInbox
from causalcast.runtime.host.running import Running
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import Acknowledged, Entry, HandledBy
from causalcast.runtime.storage.journal import Journal

WITHIN: Final = Span(
    "runtime.host.acknowledgements.within",
    0.05,
    least=0.001,
    most=10.0,
    about="how long acknowledgements of the application wait for others to share an entry",
)


# Messages, those of readers with names, and who waits for them.
Unwritten = tuple[list[int], dict[int, list[int]], "asyncio.Future[None] | None"]


@final
class Acknowledgements:
    """Those that are not durable yet, and who waits for them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inbox: Inbox,
        running: Running,
        journal: Journal | None,
    ) -> None:
        self._loop = loop
        self._inbox = inbox
        self._running = running
        self._journal = journal
        self._messages: list[int] = []  # not in the journal yet
        self._by_readers: dict[int, list[int]] = {}  # the same of readers with names, by their bits
        self._marking: asyncio.Future[None] | None = None  # done when those are durable
        self._marked_later: dict[asyncio.Future[None], None] = {}  # all that are not done
        self._marks: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()

    def add(self, message: MessageId) -> "asyncio.Future[None] | None":
        """The application has handled `message`.

        Returns what is done when that is durable; None if there is nothing to wait for.
        """
        if self._running.is_over:
            self._running.check_alive()  # its mark would never be written
        if self._journal is None:
            self._inbox.acknowledge(message)
            return None
        if not self._inbox.acknowledge(message):
            # Marked before: the newest mark is durable no sooner than its own.
            return next(reversed(self._marked_later), None)
        self._messages.append(message)
        return self._mark_soon()

    def add_for(self, named: NamedInbox, message: MessageId) -> "asyncio.Future[None] | None":
        """The same by a reader with a name."""
        self._running.check_alive()
        is_new = self._inbox.acknowledge_for(named, message)
        if self._journal is None:
            return None
        if not is_new:
            return next(reversed(self._marked_later), None)
        self._by_readers.setdefault(named.of.bit, []).append(message)
        return self._mark_soon()

    def _mark_soon(self) -> "asyncio.Future[None]":
        if self._marking is None:
            self._marking = self._future()
            self._loop.call_later(WITHIN.value, self.write)
        return self._marking

    def _future(self) -> "asyncio.Future[None]":
        marking: asyncio.Future[None] = self._loop.create_future()
        marking.add_done_callback(_mark_retrieved)
        self._marked_later[marking] = None
        return marking

    def put(self, entry: Entry) -> "asyncio.Future[None] | None":
        """Write an entry now, behind everything that was acknowledged before it. Returns what is
        done when it is durable; None if nothing is kept."""
        if self._journal is None:
            return None
        self.write()
        sequence = self._journal.append(durable_entry.encode(entry))
        marking = self._future()
        self._marks.append((sequence, marking))
        self._journal.commit()
        return marking

    def write(self) -> None:
        """Let all of them go to the journal now."""
        if self._journal is None or self._running.is_over:
            return
        messages, by_readers, marking = self.take()
        sequence = 0
        if messages:
            sequence = self._journal.append(durable_entry.encode(Acknowledged(messages)))
        if by_readers:
            marks = list(by_readers.items())
            sequence = self._journal.append(durable_entry.encode(HandledBy(marks)))
        if sequence:
            if marking is not None:
                self._marks.append((sequence, marking))
            self._journal.commit()

    def durable_up_to(self, sequence: int) -> None:
        """Entries up to `sequence` are durable, acknowledgements among them."""
        while self._marks and self._marks[0][0] <= sequence:
            self.are_durable(self._marks.popleft()[1])

    def take(self) -> Unwritten:
        """Those that are not in the journal: somebody else sees to it that they are durable."""
        taken = self._messages, self._by_readers, self._marking
        self._messages, self._by_readers, self._marking = [], {}, None
        return taken

    def are_durable(self, marking: "asyncio.Future[None] | None") -> None:
        """Those that were taken are durable."""
        if marking is not None:
            self._marked_later.pop(marking, None)
            if not marking.done():
                marking.set_result(None)

    def give_back(self, taken: Unwritten) -> None:
        """Those that were taken are not durable after all: write them as ever."""
        messages, by_readers, marking = taken
        self._messages += messages
        for bit, handled in by_readers.items():
            self._by_readers.setdefault(bit, []).extend(handled)
        if self._marking is not None and marking is not None:
            self._marking.add_done_callback(lambda _: self.are_durable(marking))
        else:
            self._marking = self._marking or marking
        self.write()

    def waiting(self) -> "list[asyncio.Future[None]]":
        """What those wait for whose acknowledgements are not durable."""
        return list(self._marked_later)


def _mark_retrieved(future: "asyncio.Future[None]") -> None:
    """Avoids the warning of asyncio when nobody awaits the future."""
    if not future.cancelled():
        future.exception()
