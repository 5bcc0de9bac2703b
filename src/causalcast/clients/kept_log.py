"""The last deliveries of a node, in the one causal order of all groups, for any number of clients.

Clients keep their own position. What a client lacks is found here by it, at this node or at any
other: per group and origin it is the number of the last message that the client has handled, and
where messages are in causal order no number before that is missing.

Messages here are not acknowledged to the node. So a node with storage hands them over again after
a restart, and clients go on. What leaves the log is acknowledged, and the node remembers how far
that went (`Inbox.handled`). A client that lacks some of it is told so.
"""

import asyncio
import collections
from typing import Final, final

from causalcast.clients.protocol import Position, note
from causalcast.core.ids import GroupId, MessageId, number_of, origin_of
from causalcast.core.made_groups import FIRST_MADE
from causalcast.core.message import Publication
from causalcast.runtime.host.host import Host
from causalcast.runtime.host.inbox import GroupInbox
from causalcast.runtime.node_config import ClientDoor
from causalcast.runtime.storage.reader_table import PLAIN

_OF_NOBODY: Final = ""  # instead of the name of a group that was removed


@final
class Kept:
    """One message."""

    __slots__ = ("body", "group", "id")

    def __init__(self, message: MessageId, group: str, body: bytes) -> None:
        self.id = message
        self.group = group
        self.body = body


class KeptLog:
    """All that is kept, and how far deliveries and forgetting went."""

    def __init__(self, host: Host, door: ClientDoor) -> None:
        self._host = host
        self._limits = (door.kept_messages, door.kept_bytes)
        self._prefixes = tuple(door.made_groups)
        directory = host.parts.directory
        made = [name for name in directory.made.names() if name.startswith(self._prefixes)]
        self.groups = {name: directory.id_of(name) for name in [*door.groups, *made]}
        self._names = {group: name for name, group in self.groups.items()}
        self._line: GroupInbox | None = None  # in which they are read together
        self._kept: collections.deque[Kept] = collections.deque()
        self._removed = 0  # of those, places of messages whose group was removed
        self._bytes = 0
        self.first = 0  # the place of the first one that is kept; places count all there were
        self.delivered: Position = {}
        self._gone: Position = {}
        self.listeners: dict[asyncio.Event, None] = {}  # told of every message
        handled = host.inbox.handled
        self._knows_gone = handled is not None
        for group, by_origin in (handled or {}).items():
            if GroupId(group) in self._names:
                name = self._names[GroupId(group)]
                self._gone[name] = dict(by_origin)
                self.delivered[name] = dict(by_origin)
        # Who keeps nothing is somebody else in every life.
        life = host.earlier.life.incarnation or host.machine.entropy.number()
        self.id = f"{host.me}.{life}"

    async def start(self) -> None:
        """Read the groups from now on; returns when all that waited is here."""
        for group in self._names:
            if not self._host.inbox.readers.owed_in(group) & PLAIN:
                raise self._host.parts.readers.not_read(group)
        self._line = self._host.inbox.call_together(list(self._names), self._take)
        self._host.parts.directory.at_once = self._on_group
        while self._host.inbox.waiting_by_group().keys() & self._names.keys() and any(
            self._host.inbox.waiting_by_group().get(group, 0) for group in self._names
        ):
            await asyncio.sleep(0)

    def _on_group(self, name: str, group: GroupId, is_there: bool) -> None:
        """A group was made or removed, and nothing behind that is delivered yet."""
        if not name.startswith(self._prefixes):
            return
        if is_there:
            assert self._line is not None
            self.groups[name], self._names[group] = group, name
            self._host.inbox.read_with(group, self._line)
        else:
            self.groups.pop(name, None)
            self._forget_group(name)
        for listener in self.listeners:
            listener.set()

    def _forget_group(self, name: str) -> None:
        """It was removed: who reads another one of that name gets nothing of this one."""
        self._gone.pop(name, None)
        for one in self._kept:
            if one.group == name:
                self._bytes -= len(one.body)
                one.group, one.body = _OF_NOBODY, b""
                self._removed += 1

    def may_come(self, group: str) -> bool:
        """Whether a group that this node does not serve may be one it has not heard of yet."""
        founded = self._host.blueprint.groups.names
        offers = self._host.blueprint.protocol.offers
        return "made_groups" in offers and group not in founded and group.startswith(self._prefixes)

    @property
    def end(self) -> int:
        """The place behind the last message."""
        return self.first + len(self._kept)

    def at(self, place: int) -> Kept:
        """The message at a place from `first` on and before `end`."""
        return self._kept[place - self.first]

    def size(self) -> tuple[int, int]:
        """Messages and bytes."""
        return len(self._kept) - self._removed, self._bytes

    def _take(self, publication: Publication) -> None:
        name = self._names[publication.group]
        self._kept.append(Kept(publication.id, name, publication.body))
        self._bytes += len(publication.body)
        note(self.delivered, name, publication.id)
        most, most_bytes = self._limits
        while len(self._kept) > most or self._bytes > most_bytes:
            self._forget_first()
        for listener in self.listeners:
            listener.set()

    def _forget_first(self) -> None:
        old = self._kept.popleft()
        self.first += 1
        if old.group == _OF_NOBODY:
            self._removed -= 1
            return
        self._bytes -= len(old.body)
        note(self._gone, old.group, old.id)
        if self._host.journal is not None and not self._host.running.is_over:
            self._host.acknowledge(old.id)

    async def wait_for(self, past: Position) -> None:
        """Return when nothing of it is missing here."""
        news = asyncio.Event()
        self.listeners[news] = None
        try:
            while any(group not in self.groups for group in past) or self.lacks(past):
                news.clear()
                await news.wait()
        finally:
            del self.listeners[news]

    # What a client may be told

    def is_whole(self, group: str) -> bool:
        """Whether all that the group ever delivered is here, or known to be gone."""
        host = self._host
        number = self.groups[group]
        if number >= FIRST_MADE:
            if not host.config.patterns.is_member(host.me, group):
                return False
        elif number in host.observed.late_groups or host.config.contacts:
            return False
        if host.journal is None:
            return host.earlier.starts == 1
        return self._knows_gone

    def missing(self, group: str, seen: dict[int, int]) -> str:
        """The last message that somebody lacks who has seen so much, and that is not kept."""
        for origin, number in self._gone.get(group, {}).items():
            if seen.get(origin, 0) < number:
                return f"{origin}.{number}"
        return ""

    def lacks(self, past: Position) -> list[str]:
        """What was seen or published elsewhere, and is not here."""
        found = []
        for group, by_origin in past.items():
            here = self.delivered.get(group, {})
            for origin, number in by_origin.items():
                if origin != self._host.me and here.get(origin, 0) < number:
                    found.append(f"{origin}.{number}")
        return found


def is_behind(seen: Position, one: Kept) -> bool:
    """Whether somebody who has seen so much lacks this message."""
    return number_of(one.id) > seen.get(one.group, {}).get(origin_of(one.id), 0)
