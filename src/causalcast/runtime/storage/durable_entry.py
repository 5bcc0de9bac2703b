"""What stands in a node's journal: one entry per step, and what a restart makes of them.

All records of a step, its deliveries and a new publication with its number are one entry, so a
crash leaves either all of them or none.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, MessageId, NodeId, message_id, number_of, origin_of
from causalcast.core.made_groups import FIRST_MADE, NEWS, MadeGroups, decode_news
from causalcast.errors import ConfigError, JournalError, NodeError
from causalcast.runtime.lives import MOST_PAST, Known, PastLife
from causalcast.runtime.metadata import payload_in, payload_size
from causalcast.runtime.storage.journal import NOTHING
from causalcast.runtime.storage.journal_frames import Place, StoredEntry
from causalcast.runtime.storage.publication_keys import PublicationKeys, StoredKey
from causalcast.runtime.storage.reader_table import PLAIN, READS, ReaderTable

NO_GROUP: Final = -1
GROUPS: Final = "groups"  # among the facts of an identity

# Message id, group, body; the body is left out where the entry's own publication has it.
StoredDelivery = tuple[int, int, bytes | None]
StoredRecord = tuple[int, bytes]  # layer, encoded message


class Identity(msgspec.Struct, array_like=True, frozen=True):
    """Whose journal it is: another node or protocol must not go on with it."""

    node: int
    cluster: str
    protocol: str
    digest: str  # of the messages: records of another version cannot be read
    facts: dict[str, str] = {}  # what else went into the digest, in words; none in old journals


class Started(msgspec.Struct, tag=0, array_like=True):
    """The node started, for the `count`-th time."""

    count: int
    identity: Identity
    incarnation: int  # drawn when the journal was made
    life: int  # drawn for this start


class Step(msgspec.Struct, tag=1, array_like=True):
    """Everything one step must not lose."""

    at_us: int
    publication: tuple[int, int, bytes] | None  # number, group, body
    records: list[StoredRecord]
    deliveries: list[StoredDelivery]
    joined: int | list[int] = NO_GROUP  # one group; seldom several
    left: int | list[int] = NO_GROUP


class Acknowledged(msgspec.Struct, tag=2, array_like=True):
    """The application has handled these messages."""

    messages: list[int]


class TraceRows(msgspec.Struct, array_like=True):
    """What a step adds to the trace, at the least: enough to write it after a crash."""

    sequence: int
    at_us: int
    published: list[tuple[int, int, int]]  # message id, group, bytes; at most one
    delivered: list[tuple[int, int, int]]
    joined: int | list[int]
    left: int | list[int]


class Snapshot(msgspec.Struct, tag=3, array_like=True):
    """Everything before, in short. The waiting deliveries follow in entries of their own."""

    starts: int
    identity: Identity
    published: int
    groups: list[int]
    records: list[StoredRecord]
    published_in: dict[int, int]
    delivered_in: dict[int, int]
    untraced: list[TraceRows]  # of steps whose rows may not be in the trace log yet
    incarnation: int
    lives: list[PastLife]  # the last ones, the oldest first
    nodes: list[int]  # of the graph; what others had by then can be brought to nobody else
    met: dict[int, Known]  # by node
    # What clients need to go on where they were; none in journals of earlier versions.
    keys: dict[str, list[StoredKey]] = {}  # by client, the oldest first
    handled: dict[int, dict[int, int]] | None = None  # by group and origin: the last one handled
    late_groups: list[int] = []


class StillWaiting(msgspec.Struct, tag=4, array_like=True):
    """Deliveries that the application had not handled when the journal was compacted."""

    deliveries: list[StoredDelivery]


class MoreRecords(msgspec.Struct, tag=5, array_like=True):
    """Further records of the snapshot before: what is kept may be more than an entry can hold."""

    records: list[StoredRecord]


class Met(msgspec.Struct, tag=6, array_like=True):
    """What is known of a neighbour, from now on."""

    node: int
    known: Known


class Keyed(msgspec.Struct, tag=7, array_like=True):
    """The publication with this number, if it stands behind this, is that of a client's key.

    It is written before the publication, so that none is there without its key. Where a crash came
    between them the number is used again, and the key means nothing.
    """

    client: str
    key: StoredKey


class ReaderStands(msgspec.Struct, tag=8, array_like=True):
    """From here on somebody reads a group under a name, or does so no longer."""

    group: int
    bit: int
    name: str  # empty: the plain reader
    state: int  # of `reader_table`
    also_kept: bool = False  # it begins with all that is kept for others


class HandledBy(msgspec.Struct, tag=9, array_like=True):
    """Readers with names have handled these messages."""

    marks: list[tuple[int, list[int]]]  # the reader's bit, messages


class StillOwed(msgspec.Struct, tag=10, array_like=True):
    """As `StillWaiting`, where not only the plain reader has yet to handle the deliveries."""

    deliveries: list[StoredDelivery]
    owed: list[int]  # whom each is for


class MadeNames(msgspec.Struct, tag=11, array_like=True):
    """Some of the groups that were made while the cluster ran, as a snapshot knows them."""

    standing: list[tuple[str, int, int, int, bool]]


class StateStands(msgspec.Struct, tag=12, array_like=True):
    """A node that joined a group lacks the state of its application, or has taken it: by origin
    the last message that is in it."""

    group: int
    lacks: bool
    position: dict[int, int] = {}


Entry = (
    Started | Step | Acknowledged | Snapshot | StillWaiting | MoreRecords | Met | Keyed
    | ReaderStands | HandledBy | StillOwed | MadeNames | StateStands
)  # fmt: skip

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """The bytes of an entry."""
    return _encoder.encode(entry)


def decode(data: bytes) -> Entry:
    """The entry of these bytes; they passed the journal's checksum."""
    try:
        entry: Entry = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(
            f"it has an entry that this version of causalcast does not know ({error})"
        ) from None
    return entry


def delivery_in(entry: Entry, index: int, me: NodeId) -> tuple[MessageId, GroupId, bytes]:
    """The `index`-th delivery of an entry, with its body."""
    assert isinstance(entry, (Step, StillWaiting, StillOwed))
    identity, group, body = entry.deliveries[index]
    if body is None:
        assert isinstance(entry, Step) and entry.publication is not None
        assert identity == message_id(me, entry.publication[0])
        body = entry.publication[2]
    return MessageId(identity), GroupId(group), body


class StoredMessage:
    """A delivery the application has not acknowledged, and where its body stands."""

    __slots__ = ("group", "id", "index", "owed", "place", "size")

    def __init__(
        self, message: MessageId, group: GroupId, size: int, place: Place, index: int, owed: int
    ) -> None:
        self.id = message
        self.group = group
        self.size = size
        self.place = place
        self.index = index  # among the deliveries of the entry
        self.owed = owed  # the readers that have not handled it


class Memory:
    """What a restarted node knows: all entries of its journal, taken in one after the other.

    Large because it has a field for each thing that a journal keeps.
    """

    def __init__(self, me: NodeId, groups: Groups) -> None:
        """`groups` are those of now; the journal may have begun with fewer."""
        self.me = me
        self._all_groups = groups
        self._known_groups = 0  # so many of them there were at the last start
        self.starts = 0
        self.identity: Identity | None = None
        self.published = 0  # the number of the last publication
        self.groups: dict[GroupId, None] = {}
        self.records: list[StoredRecord] = []
        self.inbox: dict[MessageId, StoredMessage] = {}
        self.published_in: dict[int, int] = {}
        self.delivered_in: dict[int, int] = {}
        self.rows: list[TraceRows] = []  # of every step in the journal
        self.has_all_rows = True  # False: a snapshot stands for older ones
        self.incarnation = 0
        self.lives: list[PastLife] = []  # the last ones, the oldest first
        self.nodes: list[int] | None = None  # who was there at the last compaction
        self.met: dict[int, Known] = {}
        self.keys = PublicationKeys()
        # By group and origin the last one that was handled; None where an earlier version forgot.
        self.handled: dict[int, dict[int, int]] | None = {}
        self.late_groups: dict[int, None] = {}  # that were joined after the beginning
        self.readers = ReaderTable()
        self.made = MadeGroups()
        self.lacking: dict[GroupId, None] = {}  # groups that were joined without their state

    def take_in(self, entries: Iterable[StoredEntry]) -> None:
        """Go through the journal."""
        for stored in entries:
            if stored.data == NOTHING:
                continue
            entry = decode(stored.data)
            if isinstance(entry, Step):
                self._take_step(entry, stored)
            elif isinstance(entry, Acknowledged):
                for message in entry.messages:
                    self._take_handled(MessageId(message), PLAIN)
            elif isinstance(entry, Started):
                self.keys.forget_beyond(self.published)
                self.starts, self.identity = entry.count, entry.identity
                self._found(self.groups_then())
                self.incarnation = entry.incarnation
                self.lives = [*self.lives, PastLife(entry.life, self.published)][-MOST_PAST.value :]
            elif isinstance(entry, Snapshot):
                self._take_snapshot(entry)
            elif isinstance(entry, MoreRecords):
                self.records.extend(entry.records)
            elif isinstance(entry, Met):
                self.met[entry.node] = entry.known
            elif isinstance(entry, Keyed):
                self.keys.add(entry.client, entry.key)
            elif isinstance(entry, MadeNames):
                self.made.restore(entry.standing)
            elif isinstance(entry, ReaderStands):
                self._take_reader(entry)
            elif isinstance(entry, StateStands):
                self._take_state(entry)
            elif isinstance(entry, HandledBy):
                for bit, messages in entry.marks:
                    for message in messages:
                        self._take_handled(MessageId(message), bit)
            else:
                self._take_deliveries(entry, stored)
        self.keys.forget_beyond(self.published)
        self._found(len(self._all_groups.names))

    def _take_handled(self, message: MessageId, bit: int) -> None:
        stored = self.inbox.get(message)
        if stored is None or not stored.owed & bit:
            return
        stored.owed &= ~bit
        if bit == PLAIN and self.handled is not None:
            note_handled(self.handled, stored.group, stored.id)
        if not stored.owed:
            del self.inbox[message]

    def _take_reader(self, entry: ReaderStands) -> None:
        group = GroupId(entry.group)
        if self._is_removed(group):
            return
        self.readers.note(group, entry.bit, entry.name, entry.state)
        of_group = [stored for stored in self.inbox.values() if stored.group == group]
        for stored in of_group:
            if entry.state != READS:
                self._take_handled(stored.id, entry.bit)
            elif entry.also_kept:
                stored.owed |= entry.bit

    def _take_state(self, entry: StateStands) -> None:
        group = GroupId(entry.group)
        if self._is_removed(group):
            return
        if entry.lacks:
            self.lacking[group] = None
            return
        self.lacking.pop(group, None)
        for stored in [stored for stored in self.inbox.values() if stored.group == group]:
            if number_of(stored.id) <= entry.position.get(origin_of(stored.id), 0):
                self._take_handled(stored.id, PLAIN)
        if self.handled is not None:
            for origin, number in entry.position.items():
                note_handled(self.handled, group, message_id(NodeId(origin), number))

    def groups_then(self) -> int:
        """How many of the groups of now there were when the journal was last used; all of them
        where it does not say, or has others."""
        names = self._all_groups.names
        if self.identity is not None and GROUPS in self.identity.facts:
            kept = self.identity.facts[GROUPS]
            for number in range(1, len(names)):
                if kept == names_in_words(names[:number]):
                    return number
        return len(names)

    def check_identity(
        self, now: Identity, restart: str, folder: Path, takes_new_groups: bool
    ) -> None:
        """Raise where the journal in `folder` is none that `now` may go on with.

        `now` has the first `groups_then()` groups: those behind them are new.
        """
        before = self.identity
        if before is None:
            return
        if restart == "reborn":
            raise NodeError(
                f"{folder}: left by an earlier life of node {before.node}; {before.protocol} keeps "
                "nothing over a restart, so the node must come back under a new id with new storage"
            )
        for fact in ("node", "cluster", "protocol"):
            was, wanted = getattr(before, fact), getattr(now, fact)
            if was != wanted:
                raise ConfigError(
                    f"{folder}: belongs to {fact} {was}, this node has {wanted}; "
                    "choose another [storage] path"
                )
        if before.digest != now.digest or before.facts not in ({}, now.facts):
            raise ConfigError(f"{folder}: {_what_differs(before, now)}")
        new = self._all_groups.names[self.groups_then() :]
        if new and not takes_new_groups:
            raise ConfigError(
                f"{folder}: {names_in_words(new)} not among the groups it began with, and "
                f"{now.protocol} cannot add groups to what it kept; put [groups] back, or let all "
                "nodes begin with another [storage] path"
            )

    def check_nodes(self, nodes: list[int], folder: Path) -> None:
        """Raise where somebody is new in the graph and could not get what was compacted."""
        added = [] if self.nodes is None else sorted({*nodes} - {*self.nodes})
        if added:
            who = ", ".join(map(str, added))
            raise ConfigError(
                f"{folder}: node {who} is new in cluster.peers, and this journal was compacted "
                "before: what every node had by then was forgotten, so the newcomer would wait for "
                "it for ever; take it out of cluster.peers, or let all nodes begin with new storage"
            )

    def _found(self, known: int) -> None:
        """There are so many groups from now on: be in those of the new ones that are founded."""
        for group in self._all_groups.groups_of(self.me):
            if self._known_groups <= group < known:
                self.groups[group] = None
        self._known_groups = known

    def _take_step(self, step: Step, stored: StoredEntry) -> None:
        self.records.extend(step.records)
        if step.publication is not None:
            self.published = step.publication[0]
            if step.publication[1] != NEWS:
                count(self.published_in, step.publication[1])
        for joined in in_full(step.joined):
            self.groups[GroupId(joined)] = None
            self.late_groups[joined] = None
        for left in in_full(step.left):
            self.groups.pop(GroupId(left), None)
        for _, group, _ in step.deliveries:
            if group != NEWS:
                count(self.delivered_in, group)
        self._take_deliveries(step, stored)
        self.rows.append(rows_of(stored.sequence, step, self.me))

    def _take_deliveries(self, entry: Step | StillWaiting | StillOwed, stored: StoredEntry) -> None:
        for index in range(len(entry.deliveries)):
            message, group, body = delivery_in(entry, index, self.me)
            if group == NEWS:
                self._hear(body)
                continue
            if self._is_removed(group):
                continue
            owed = PLAIN
            if isinstance(entry, StillOwed):
                owed = entry.owed[index]
            elif isinstance(entry, Step):
                owed = self.readers.owed_in(group)
            if owed:
                place = stored.place
                self.inbox[message] = StoredMessage(message, group, len(body), place, index, owed)

    def _is_removed(self, group: GroupId) -> bool:
        return group >= FIRST_MADE and not self.made.has(group)

    def _hear(self, body: bytes) -> None:
        """News of groups; those that were refused stand in no entry."""
        news = decode_news(payload_in(body))
        assert news is not None
        for group in self.made.take(news).removed:
            self.groups.pop(group, None)
            self.published_in.pop(group, None)
            self.delivered_in.pop(group, None)
            self.readers.forget(group)
            self.lacking.pop(group, None)
            for message in [one.id for one in self.inbox.values() if one.group == group]:
                del self.inbox[message]

    def _take_snapshot(self, snapshot: Snapshot) -> None:
        self.starts = snapshot.starts
        self.identity = snapshot.identity
        self._known_groups = self.groups_then()
        self.published = snapshot.published
        self.groups = dict.fromkeys(GroupId(group) for group in snapshot.groups)
        self.records = list(snapshot.records)
        self.inbox = {}
        self.published_in = snapshot.published_in
        self.delivered_in = snapshot.delivered_in
        self.rows = list(snapshot.untraced)
        self.has_all_rows = False
        self.incarnation = snapshot.incarnation
        self.lives = list(snapshot.lives)
        self.nodes = snapshot.nodes
        self.met = dict(snapshot.met)
        self.keys = PublicationKeys(snapshot.keys)
        self.handled = snapshot.handled
        self.late_groups = dict.fromkeys(snapshot.late_groups)
        self.readers = ReaderTable()  # they follow in entries of their own
        self.lacking = {}  # so do these
        self.made = MadeGroups()


def rows_of(sequence: int, step: Step, me: NodeId) -> TraceRows:
    """What the trace must say of a step."""
    published = []
    if step.publication is not None:
        number, group, body = step.publication
        published = [(int(message_id(me, number)), group, payload_size(body))]
    delivered = []
    for index, (identity, group, _) in enumerate(step.deliveries):
        if group != NEWS:
            delivered.append((identity, group, payload_size(delivery_in(step, index, me)[2])))
    return TraceRows(sequence, step.at_us, published, delivered, step.joined, step.left)


def in_short(joined: list[GroupId]) -> int | list[int]:
    """Groups as an entry has them."""
    if len(joined) > 1:
        return [int(group) for group in joined]
    return int(joined[0]) if joined else NO_GROUP


def in_full(joined: int | list[int]) -> list[int]:
    """The groups that an entry says were joined."""
    if isinstance(joined, list):
        return joined
    return [] if joined == NO_GROUP else [joined]


def count(counts: dict[int, int], key: int) -> None:
    """One more of `key`."""
    counts[key] = counts.get(key, 0) + 1


def note_handled(handled: dict[int, dict[int, int]], group: int, message: MessageId) -> None:
    """One more message that nobody is handed again; of each origin the last one counts."""
    by_origin = handled.get(group)
    if by_origin is None:
        by_origin = handled[group] = {}
    origin, number = origin_of(message), number_of(message)
    if number > by_origin.get(origin, 0):
        by_origin[origin] = number


def names_in_words(names: Sequence[str]) -> str:
    """Groups as journals have them, and as people read them."""
    return ", ".join(map(repr, names))


def _what_differs(before: Identity, now: Identity) -> str:
    """Why records of an earlier life cannot be read now, and what to do."""
    if not before.facts:
        return (
            "other groups, signatures or messages there; put them back, or let all nodes begin "
            "with another [storage] path"
        )
    differ = [
        f"{name} {before.facts.get(name, 'unknown')} there, {now.facts.get(name, 'unknown')} here"
        for name in now.facts
        if before.facts.get(name) != now.facts[name]
    ]
    if not differ:
        return (
            f"its records are of another version of {now.protocol}, with other messages; run the "
            "version that wrote them, or let all nodes begin with another [storage] path"
        )
    advice = "put that back"
    if before.facts.get(GROUPS) != now.facts.get(GROUPS):
        advice = (
            "storage numbers groups in the order of [groups]: keep those it has, in their order, "
            "add new ones at the end, and let members leave one that is not needed any more"
        )
    return f"{'; '.join(differ)}; {advice}, or let all nodes begin with another [storage] path"
