"""Readers with names: how they begin and end, and what becomes of one that nobody reads."""

import asyncio
from collections.abc import Callable
from typing import Final, final

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.message import Publication
from causalcast.errors import NodeError
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.held_steps import HeldSteps
from causalcast.runtime.host.inbox import Inbox, NamedInbox, is_waited_at
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.running import Running
from causalcast.runtime.storage.durable_entry import ReaderStands
from causalcast.runtime.storage.reader_table import ENDED, LOST, PLAIN, READS, check_name

Marking = asyncio.Future[None]
PLAIN_NAME: Final = ""


@final
class Readers:
    """The readers of all groups. What they are is in the journal before anybody relies on it."""

    def __init__(
        self,
        me: NodeId,
        inbox: Inbox,
        held: HeldSteps,
        acknowledgements: Acknowledgements,
        observed: Observed,
        running: Running,
        name_of: Callable[[GroupId], str],
    ) -> None:
        self._me = me
        self._inbox = inbox
        self._held = held
        self._acknowledgements = acknowledgements
        self._observed = observed
        self._running = running
        self._name_of = name_of
        self._is_here: set[tuple[GroupId, str]] = set()  # asked for in this life
        inbox.on_behind = self._on_behind

    def restore(self) -> None:
        """Those of the earlier life go on, and what they left unacknowledged comes again."""
        for reader in self._inbox.readers.named():
            if not reader.is_lost:
                self._inbox.begin(reader, also_kept=False)

    def begin(
        self, group: GroupId, name: str, also_kept: bool
    ) -> tuple[NamedInbox, Marking | None]:
        """The reader of that name, and what is done when it is durable; it goes on where it was if
        there was one."""
        self._running.check_alive()
        check_name(name)
        readers = self._inbox.readers
        found = readers.find(group, name)
        if found is not None:
            if found.is_lost:
                raise self.was_lost(group, name)
            self._is_here.add((group, name))
            return self._inbox.named[group, found.bit], None
        bit = readers.next_bit(group)
        entry = ReaderStands(int(group), bit, name, READS, also_kept)
        marking = self._acknowledgements.put(entry)
        readers.note(group, bit, name, READS)
        reader = readers.find(group, name)
        assert reader is not None
        if also_kept:
            self._held.owe(group, bit)
        self._is_here.add((group, name))
        return self._inbox.begin(reader, also_kept), marking

    def begin_plain(self, group: GroupId) -> Marking | None:
        """The group has a plain reader again, from now on."""
        self._running.check_alive()
        if self._inbox.readers.owed_in(group) & PLAIN:
            return None
        return self._stands(group, PLAIN, PLAIN_NAME, READS)

    def end(self, group: GroupId, name: str) -> Marking | None:
        """Nothing is kept for that reader any more; without a name: for the plain one."""
        self._running.check_alive()
        readers = self._inbox.readers
        owed = readers.owed_in(group)
        if name == PLAIN_NAME:
            if not owed & PLAIN:
                return None
            if self._inbox.is_read(group):
                raise NodeError(f"{self._name_of(group)!r} is read now, by a loop or a callback")
            bit = PLAIN
        else:
            reader = readers.find(group, name)
            if reader is None:
                raise NodeError(f"no reader {name!r} of {self._name_of(group)!r}")
            bit = reader.bit
        if owed and not owed & ~bit:
            raise NodeError(
                f"nobody would read {self._name_of(group)!r} any more, and what comes would be "
                "lost: let somebody else subscribe first, or the plain reader begin again"
            )
        self._is_here.discard((group, name))
        marking = self._stands(group, bit, name, ENDED)
        self._inbox.end(group, bit)
        return marking

    def was_lost(self, group: GroupId, name: str) -> NodeError:
        """What the application of a reader is told that was ended because it was too far behind."""
        return NodeError(
            f"reader {name!r} of {self._name_of(group)!r} left more than "
            f"{self._inbox.reader_bytes} bytes unacknowledged and was ended ([limits] "
            "reader_bytes): what came since it was "
            f"last here is not kept for it; unsubscribe({name!r}), and subscribe again"
        )

    def not_read(self, group: GroupId) -> NodeError:
        """What a plain reader is told where there is none any more."""
        return NodeError(
            f"{self._name_of(group)!r} has no plain reader any more: subscribe by name, or let it "
            "begin again from now on (`await group.set_plain_reader(True)`)"
        )

    def numbers(self) -> dict[str, dict[str, dict[str, int | bool]]]:
        """Who reads what, by group and name, for status and metrics."""
        found: dict[str, dict[str, dict[str, int | bool]]] = {}
        for reader in self._inbox.readers.named():
            named = self._inbox.named.get((reader.group, reader.bit))
            found.setdefault(self._name_of(reader.group), {})[reader.name] = {
                "unacknowledged": 0 if named is None else len(named.unacknowledged),
                "waiting": 0 if named is None else len(named.queue),
                "bytes": 0 if named is None else named.bytes,
                "here": (reader.group, reader.name) in self._is_here,
                "lost": reader.is_lost,
            }
        return found

    def _stands(self, group: GroupId, bit: int, name: str, state: int) -> Marking | None:
        marking = self._acknowledgements.put(ReaderStands(int(group), bit, name, state))
        self._inbox.readers.note(group, bit, name, state)
        return marking

    def _on_behind(self, named: NamedInbox) -> None:
        """Somebody leaves much unacknowledged: tell of it, and end it before it is too much."""
        reader, group = named.of, self._name_of(named.of.group)
        here = "" if (reader.group, reader.name) in self._is_here else "; nobody asked for it since"
        if named.bytes > self._inbox.reader_bytes:
            meaning = (
                f"reader {reader.name!r} of {group!r} was ended: it left {named.bytes} bytes "
                f"unacknowledged ([limits] reader_bytes){here}"
            )
            self._observed.tell("reader_lost", self._me, meaning)
            self._stands(reader.group, reader.bit, reader.name, LOST)
            self._inbox.end(reader.group, reader.bit)
        elif not named.is_behind:
            named.is_behind = True
            meaning = (
                f"reader {reader.name!r} of {group!r} left {named.bytes} bytes unacknowledged; at "
                f"{self._inbox.reader_bytes} it is ended ([limits] reader_bytes){here}"
            )
            self._observed.tell("reader_behind", self._me, meaning)


@final
class ReaderHandle:
    """What messages of a reader with a name ask: acknowledged for it, given back to it."""

    def __init__(
        self, readers: Readers, inbox: Inbox, acknowledgements: Acknowledgements, named: NamedInbox
    ) -> None:
        self._readers = readers
        self._inbox = inbox
        self._acknowledgements = acknowledgements
        self.named = named

    @property
    def inbox(self) -> "ReaderHandle":
        """Where messages are given back."""
        return self

    def take(self) -> Publication | None:
        """The next delivery; raises if the reader is no more."""
        self.check()
        publication = self._inbox.take_for(self.named)
        if publication is None and is_waited_at(self.named):
            raise NodeError(
                f"reader {self.named.of.name!r} is read already: what one loop takes no other "
                "gets (subscribe under another name)"
            )
        return publication

    async def arrival(self) -> None:
        """Wait until something may be there."""
        await self._inbox.arrival_in(self.named)

    def acknowledge(self, message: MessageId) -> Marking | None:
        """The application has handled it."""
        self.check()
        return self._acknowledgements.add_for(self.named, message)

    def give_back(self, publication: Publication) -> None:
        """The application could not handle it: it comes again next."""
        self.check()
        self._inbox.give_back_to(self.named, publication)

    def check(self) -> None:
        """Raise if the reader was ended."""
        reader = self.named.of
        if self._inbox.named.get((reader.group, reader.bit)) is not self.named:
            if reader.is_lost:
                raise self._readers.was_lost(reader.group, reader.name)
            raise NodeError(f"reader {reader.name!r} was ended")
