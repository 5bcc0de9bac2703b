"""Deliveries that the application has not handled yet, in order, per group.

With a journal a delivery stays here until it is acknowledged; the journal has it too. Bodies are
kept in memory up to a limit; beyond it only their places in the journal are, and a body is read
back when its turn comes. So an application may be as slow as it likes: no link and no other group
waits for it.

Without a journal a delivery is here until it is taken, and the inbox is full at the limit: then
the node reads no more from its links, and so those who publish have to wait.

A group may have readers with names beside the plain one. Each has a queue of its own, and a
delivery stays until all of them have acknowledged it. One that falls too far behind is ended, and
holds nobody up.
"""

import asyncio
import collections
from collections.abc import Callable, Coroutine
from typing import Any, Final

from causalcast.core.ids import GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.runtime.host.positions import covered_by, position_of
from causalcast.runtime.storage.durable_entry import StoredMessage, note_handled
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.reader_table import PLAIN, NamedReader, ReaderTable

# What the application does with a delivery: all of it at once, or something that is to be awaited.
Handle = Callable[[Publication], Coroutine[None, None, None] | None]

OVERHEAD: Final = 200  # bytes of memory that a delivery takes beside its body, roughly


class Waiting:
    """One delivery that the journal has too: its body, or where the journal has it."""

    __slots__ = ("body", "group", "id", "index", "owed", "place", "size")

    def __init__(
        self,
        message: MessageId,
        group: GroupId,
        body: bytes | None,
        place: Place | None,
        index: int,
        size: int,
        owed: int = PLAIN,
    ) -> None:
        self.id = message
        self.group = group
        self.body = body
        self.size = size  # of the body
        self.place = place  # None: it is in no journal
        self.index = index  # among the deliveries of the entry at `place`
        self.owed = owed  # the readers that have not acknowledged it


class GroupInbox:
    """The deliveries of one group, and who takes them."""

    def __init__(self) -> None:
        # A plain publication is in no journal: there is nothing to know of it but itself.
        self.queue: collections.deque[Waiting | Publication] = collections.deque()
        self.arrived: asyncio.Future[None] | None = None  # somebody waits for it
        self.reader: asyncio.Task[Any] | None = None  # who
        self.handle: Handle | None = None
        self.is_planned = False  # a turn in which `handle` is called, or what it began goes on
        self.held = 0  # for so many reasons nothing is handed over


class NamedInbox(GroupInbox):
    """The deliveries of one group for a reader with a name."""

    def __init__(self, reader: NamedReader) -> None:
        super().__init__()
        self.of = reader
        self.unacknowledged: dict[MessageId, Waiting] = {}
        self.bytes = 0  # of all that it has not acknowledged, or not taken where nothing is kept
        self.is_behind = False  # somebody was told


class Inbox:
    """All deliveries of a node that were not taken, or not acknowledged.

    Large because everybody who reads a group reads it here: loops, callbacks, readers with names.
    """

    def __init__(
        self,
        memory_limit: int,
        load: Callable[[Place, int], bytes],
        on_full: Callable[[bool], None] | None = None,
        beside: Callable[[Coroutine[None, None, None]], None] | None = None,
        reader_bytes: int = 1 << 62,
    ) -> None:
        """`on_full` hears that the inbox has become full, and that it is so no longer; `beside`
        lets something go on while the node lives; `reader_bytes` is what a reader with a name may
        leave unacknowledged."""
        self.unacknowledged: dict[MessageId, Waiting] = {}
        self._memory_limit = memory_limit
        self._load = load  # a body from the journal
        self._on_full = on_full
        self._beside = beside
        # By group and origin the last one that was handled, over all lives; None: an earlier
        # version did not write it down. A client that has less cannot go on here.
        self.handled: dict[int, dict[int, int]] | None = {}
        self.lacking: dict[GroupId, None] = {}  # groups that were joined without their state
        self.is_full = False  # no more can be kept for the application
        self._in_memory = 0  # bytes of bodies that wait here
        self._groups: dict[GroupId, GroupInbox] = {}
        self._gathers = False
        self._gathered: list[GroupInbox] = []
        self.readers = ReaderTable()
        self.reader_bytes = reader_bytes
        self.named: dict[tuple[GroupId, int], NamedInbox] = {}  # by group and bit
        # Hears of a reader that has fallen half as far behind as it may, or all of it.
        self.on_behind: Callable[[NamedInbox], None] | None = None

    def gather(self) -> None:
        """Let deliveries that come now wait for `hand_over`, instead of a turn of their own."""
        self._gathers = True

    def hand_over(self) -> None:
        """Call the application for what was gathered. No step may be under way."""
        self._gathers = False
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            for inbox in gathered:
                self._hand_over(inbox)

    def add(
        self, publication: Publication, place: Place | None, index: int, owed: int = PLAIN
    ) -> None:
        """A delivery became durable, or there is no journal that could keep it. `owed`: whom it is
        for."""
        if owed != PLAIN:
            self._add_for_readers(publication, place, index, owed)
            return
        inbox = self._groups.get(publication.group)
        if inbox is None:
            inbox = self._of(publication.group)
        if place is None:
            self._in_memory += len(publication.body) + OVERHEAD
            inbox.queue.append(publication)
            if self._in_memory > self._memory_limit and not self.is_full:
                self._tell_full(True)
        else:
            body: bytes | None = publication.body
            if self._in_memory + len(publication.body) > self._memory_limit:
                body = None
            size = len(publication.body)
            self._put(inbox, Waiting(publication.id, publication.group, body, place, index, size))
        self._something_is_there(inbox)

    def _add_for_readers(
        self, publication: Publication, place: Place | None, index: int, owed: int
    ) -> None:
        """The same where readers have names. Those that have ended meanwhile get nothing."""
        group, size = publication.group, len(publication.body)
        owed &= self.readers.owed_in(group)
        waiting: Waiting | Publication = publication
        if place is not None:
            if not owed:
                return
            body = None if self._in_memory + size > self._memory_limit else publication.body
            waiting = one = Waiting(publication.id, group, body, place, index, size, owed)
            if body is not None:
                self._in_memory += size
            self.unacknowledged[one.id] = one
        elif owed & PLAIN:
            self._in_memory += size + OVERHEAD
            if self._in_memory > self._memory_limit and not self.is_full:
                self._tell_full(True)
        if owed & PLAIN:
            plain = self._of(group)
            plain.queue.append(waiting)
            self._something_is_there(plain)
        for named in self._named_of(group, owed):
            self._add_for(named, waiting, size)

    def _named_of(self, group: GroupId, owed: int) -> list[NamedInbox]:
        found = []
        owed &= ~PLAIN
        while owed:
            bit = owed & -owed
            owed ^= bit
            named = self.named.get((group, bit))
            if named is not None:
                found.append(named)
        return found

    def _add_for(self, named: NamedInbox, waiting: Waiting | Publication, size: int) -> None:
        named.queue.append(waiting)
        if isinstance(waiting, Waiting):
            named.unacknowledged[waiting.id] = waiting
        named.bytes += size + OVERHEAD
        if 2 * named.bytes > self.reader_bytes and self.on_behind is not None:
            self.on_behind(named)
        self._something_is_there(named)

    # Readers with names

    def begin(self, reader: NamedReader, also_kept: bool) -> NamedInbox:
        """Somebody reads from now on; also what is kept for others, if asked for."""
        named = self.named[reader.group, reader.bit] = NamedInbox(reader)
        if also_kept:
            for waiting in self.unacknowledged.values():
                if waiting.group == reader.group and not reader.is_lost:
                    waiting.owed |= reader.bit
                    self._add_for(named, waiting, waiting.size)
        return named

    def end(self, group: GroupId, bit: int) -> None:
        """A reader is no more: nothing is kept for it."""
        named = self.named.pop((group, bit), None)
        if named is not None:
            for message in list(named.unacknowledged):
                self._acknowledged_by(bit, message)
            named.unacknowledged.clear()
            named.queue.clear()
            named.bytes = 0
            _wake(named)
        if bit != PLAIN:
            return
        for message in [one.id for one in self.unacknowledged.values() if one.group == group]:
            self.acknowledge(message)
        plain = self._of(group)
        waits, plain.queue = plain.queue, collections.deque()
        for waiting in waits:
            if waiting.group != group:  # they are read together
                plain.queue.append(waiting)
            elif isinstance(waiting, Publication):
                self._taken(waiting)
            elif waiting.body is not None and not waiting.owed:
                self._in_memory -= waiting.size
                waiting.body = None
        _wake(plain)

    def forget(self, group: GroupId) -> None:
        """A group was removed, and all that nobody has handled goes with it."""
        for bit in [key[1] for key in self.named if key[0] == group]:
            self.end(group, bit)
        self.end(group, PLAIN)
        self.readers.forget(group)
        self.lacking.pop(group, None)
        self._groups.pop(group, None)
        if self.handled is not None:
            self.handled.pop(group, None)

    def take_for(self, named: NamedInbox) -> Publication | None:
        """The next delivery for a reader with a name; None if nothing waits."""
        if not named.queue:
            return None
        waiting = named.queue.popleft()
        if isinstance(waiting, Publication):
            named.bytes -= len(waiting.body) + OVERHEAD
            return waiting
        return self._taken(waiting, named.of.bit)

    def give_back_to(self, named: NamedInbox, publication: Publication) -> None:
        """A reader with a name could not handle what it took: it comes again next."""
        waiting: Waiting | Publication | None = named.unacknowledged.get(publication.id)
        if waiting is None:
            named.bytes += len(publication.body) + OVERHEAD
            waiting = publication
        named.queue.appendleft(waiting)
        self._something_is_there(named)

    def acknowledge_for(self, named: NamedInbox, message: MessageId) -> bool:
        """A reader with a name has handled `message`; False if it had done so before."""
        waiting = named.unacknowledged.pop(message, None)
        if waiting is None:
            return False
        named.bytes -= waiting.size + OVERHEAD
        self._acknowledged_by(named.of.bit, message)
        return True

    def _acknowledged_by(self, bit: int, message: MessageId) -> None:
        waiting = self.unacknowledged.get(message)
        if waiting is None or not waiting.owed & bit:
            return
        waiting.owed &= ~bit
        if not waiting.owed:
            del self.unacknowledged[message]
            if waiting.body is not None:  # it was kept for whoever takes it last
                self._in_memory -= waiting.size
                waiting.body = None

    def _something_is_there(self, inbox: GroupInbox) -> None:
        if inbox.handle is not None:
            if not inbox.is_planned:
                self._plan(inbox)
        elif inbox.arrived is not None:
            _wake(inbox)

    def restore(self, stored: StoredMessage) -> None:
        """A delivery from before a restart was never acknowledged: hand it over again."""
        inbox = self._of(stored.group)
        place, index = stored.place, stored.index
        waiting = Waiting(stored.id, stored.group, None, place, index, stored.size, stored.owed)
        if stored.owed & PLAIN:
            self._put(inbox, waiting)
        else:
            self.unacknowledged[waiting.id] = waiting
        if stored.owed != PLAIN:
            for named in self._named_of(stored.group, stored.owed):
                self._add_for(named, waiting, stored.size)

    def take(self, group: GroupId) -> Publication | None:
        """The next delivery of `group` for the application; None if nothing waits, or if all goes
        to a callback."""
        inbox = self._groups.get(group)
        if inbox is None or not inbox.queue or inbox.handle is not None or inbox.held:
            return None
        return self._taken(inbox.queue.popleft())

    # States for newcomers

    def unhandled(self, group: GroupId) -> set[MessageId]:
        """What was delivered in a group, and the plain reader has not acknowledged."""
        return {
            one.id
            for one in self.unacknowledged.values()
            if one.group == group and one.owed & PLAIN
        }

    def position(self, group: GroupId) -> dict[int, int] | None:
        """By origin the last message that the plain reader has handled; None while it has one in
        its hands, or has handled one behind another of the same origin that it has not."""
        if self.handled is None:
            return None
        waits = {one.id for one in self._of(group).queue if one.group == group}
        return position_of(self.handled.get(group, {}), waits, self.unhandled(group))

    def hold(self, group: GroupId) -> None:
        """Hand over nothing to the plain reader until `let_go`."""
        self._of(group).held += 1

    def let_go(self, group: GroupId) -> None:
        """Hand over again, unless somebody else holds it."""
        inbox = self._of(group)
        inbox.held = max(0, inbox.held - 1)  # it may have been removed, and made again
        if not inbox.held:
            self._something_is_there(inbox)

    def cover(self, group: GroupId, position: dict[int, int]) -> None:
        """The application has a state that contains all up to `position`, by origin."""
        covered = covered_by(position, self.unhandled(group))
        for message in covered:
            self.acknowledge(message)
        inbox = self._of(group)
        inbox.queue = collections.deque(one for one in inbox.queue if one.id not in covered)
        if self.handled is not None:
            for origin, number in position.items():
                note_handled(self.handled, group, message_id(NodeId(origin), number))
        self.lacking.pop(group, None)

    def _taken(self, waiting: Waiting | Publication, bit: int = PLAIN) -> Publication:
        if isinstance(waiting, Publication):
            self._in_memory -= len(waiting.body) + OVERHEAD
            if self.is_full and self._in_memory * 2 < self._memory_limit:
                self._tell_full(False)
            return waiting
        body = waiting.body
        if body is None:
            assert waiting.place is not None
            body = self._load(waiting.place, waiting.index)
        elif not waiting.owed & ~bit or 2 * self._in_memory > self._memory_limit:
            self._in_memory -= len(body)
            waiting.body = None
        return Publication(waiting.id, waiting.group, body)

    def give_back(self, publication: Publication) -> None:
        """The application could not handle what it took: it comes again, before all others."""
        inbox = self._of(publication.group)
        waiting = self.unacknowledged.get(publication.id)
        if waiting is None:
            self._in_memory += len(publication.body) + OVERHEAD
            inbox.queue.appendleft(publication)
        else:
            if waiting.body is None:
                waiting.body = publication.body
                self._in_memory += len(publication.body)
            inbox.queue.appendleft(waiting)
        self._something_is_there(inbox)

    def acknowledge(self, message: MessageId) -> bool:
        """The application has handled `message`; False if it had done so before."""
        waiting = self.unacknowledged.get(message)
        if waiting is None or not waiting.owed & PLAIN:
            return False
        if self.handled is not None:
            note_handled(self.handled, waiting.group, message)
        self._acknowledged_by(PLAIN, message)
        return True

    def unacknowledged_count(self) -> int:
        """What the plain readers have not acknowledged."""
        if not self.readers.owed:
            return len(self.unacknowledged)
        return sum(1 for waiting in self.unacknowledged.values() if waiting.owed & PLAIN)

    def is_read(self, group: GroupId) -> bool:
        """Whether somebody else has the deliveries of `group`: a callback, or one who waits."""
        inbox = self._of(group)
        return inbox.handle is not None or is_waited_at(inbox)

    def call(self, group: GroupId, handle: Handle) -> None:
        """Hand the deliveries of `group` to `handle` from now on, in order: those of a read at its
        end (`gather`), others in turns of the loop that are the application's own. Where `handle`
        returns something to be awaited, the next one is handed over after that."""
        inbox = self._of(group)
        inbox.handle = handle
        self._plan(inbox)

    def call_together(self, groups: list[GroupId], handle: Handle) -> GroupInbox:
        """The same for several groups, in the one order in which they were delivered. Others may
        be added to what is returned (`read_with`)."""
        line = GroupInbox()
        line.held = sum(self._of(group).held for group in groups)
        line.queue.extend(self._in_order([self._of(group).queue for group in groups]))
        line.handle = handle
        for group in groups:
            self._groups[group] = line
        self._plan(line)
        return line

    def read_with(self, group: GroupId, line: GroupInbox) -> None:
        """Read a further group together with others. Nothing of it was delivered so far."""
        self._groups[group] = line

    def _in_order(
        self, queues: "list[collections.deque[Waiting | Publication]]"
    ) -> "list[Waiting | Publication]":
        """What waits in several queues, as it was delivered.

        What is in no journal is not numbered; it keeps the order of its group.
        """
        waiting = [one for queue in queues for one in queue]
        place = {message: number for number, message in enumerate(self.unacknowledged)}
        return sorted(waiting, key=lambda one: place.get(one.id, 0))

    async def arrival(self, group: GroupId) -> None:
        """Wait until something of `group` may be there."""
        await self.arrival_in(self._of(group))

    async def arrival_in(self, inbox: GroupInbox) -> None:
        """The same for any reader."""
        if inbox.queue and not inbox.held:
            return
        if inbox.arrived is None or inbox.arrived.done():
            inbox.arrived = asyncio.get_running_loop().create_future()
        inbox.reader = reader = asyncio.current_task()
        try:
            await asyncio.shield(inbox.arrived)  # who is cancelled leaves it to the next
        finally:
            if inbox.reader is reader:
                inbox.reader = None

    def wake_all(self) -> None:
        """Let everybody who waits look again, because the node stops."""
        for inbox in self._distinct():
            _wake(inbox)
        for named in self.named.values():
            _wake(named)

    def moved(self, message: MessageId, place: Place, index: int) -> None:
        """The journal was compacted and has the body at another place now."""
        waiting = self.unacknowledged.get(message)
        if waiting is not None:
            waiting.place, waiting.index = place, index

    def memory(self) -> int:
        """Bytes of memory that waiting deliveries take, roughly."""
        return self._in_memory

    def waiting_count(self) -> int:
        """Deliveries that were not handed to the application."""
        return sum(len(inbox.queue) for inbox in self._distinct())

    def waiting_by_group(self) -> dict[GroupId, int]:
        """The same by group, of those that had deliveries in this life."""
        counts: collections.Counter[GroupId] = collections.Counter(dict.fromkeys(self._groups, 0))
        shared = collections.Counter(map(id, self._groups.values()))
        for group, inbox in self._groups.items():
            if shared[id(inbox)] == 1:
                counts[group] = len(inbox.queue)
        for inbox in self._distinct():
            if shared[id(inbox)] > 1:
                counts.update(waiting.group for waiting in inbox.queue)
        return dict(counts)

    def _distinct(self) -> list[GroupInbox]:
        """Each once: groups that are read together share one."""
        return list(dict.fromkeys(self._groups.values()))

    def _of(self, group: GroupId) -> GroupInbox:
        inbox = self._groups.get(group)
        if inbox is None:
            inbox = self._groups[group] = GroupInbox()
        return inbox

    def _put(self, inbox: GroupInbox, waiting: Waiting) -> None:
        if waiting.body is not None:
            self._in_memory += len(waiting.body)
        self.unacknowledged[waiting.id] = waiting
        inbox.queue.append(waiting)

    def _tell_full(self, is_full: bool) -> None:
        self.is_full = is_full
        if self._on_full is not None:
            self._on_full(is_full)

    def _plan(self, inbox: GroupInbox) -> None:
        if not inbox.is_planned and inbox.queue and not inbox.held:
            inbox.is_planned = True
            if self._gathers:
                self._gathered.append(inbox)
            else:
                asyncio.get_running_loop().call_soon(self._hand_over, inbox)

    def _hand_over(self, inbox: GroupInbox) -> None:
        """Call the application for what is there now; what comes meanwhile has a turn of its own,
        so that the links have theirs in between."""
        inbox.is_planned = False
        if inbox.held:
            return
        handle, queue = inbox.handle, inbox.queue
        assert handle is not None
        for _ in range(len(queue)):
            if not queue:
                break
            waiting = queue.popleft()
            publication = self._taken(waiting)
            try:
                goes_on = handle(publication)
            except Exception as error:
                _report(publication, error)
                continue
            if goes_on is not None:
                assert self._beside is not None
                inbox.is_planned = True
                self._beside(self._finish(inbox, publication, goes_on))
                return
        self._plan(inbox)

    async def _finish(
        self, inbox: GroupInbox, publication: Publication, goes_on: Coroutine[None, None, None]
    ) -> None:
        """Wait for what the application began, then go on with the next delivery."""
        try:
            await goes_on
        except Exception as error:
            _report(publication, error)
        inbox.is_planned = False
        self._plan(inbox)


def is_waited_at(inbox: GroupInbox) -> bool:
    """Whether somebody waits there already; who is being cancelled takes nothing more."""
    reader = inbox.reader
    return reader is not None and not reader.done() and not reader.cancelling()


def _report(publication: Publication, error: Exception) -> None:
    problem = {"message": f"handling {publication!r} failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(problem)


def _wake(inbox: GroupInbox) -> None:
    if inbox.arrived is not None:
        if not inbox.arrived.done():
            inbox.arrived.set_result(None)
        inbox.arrived = None
