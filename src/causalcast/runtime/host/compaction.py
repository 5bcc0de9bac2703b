"""Compaction: a snapshot of everything takes the place of a journal that has grown large.

The snapshot is taken between two steps. Steps whose entries are still on their way to the disk are
part of it, so their deliveries and trace rows are written with it too.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from causalcast.core.ids import MessageId
from causalcast.core.made_groups import Standing
from causalcast.core.message import Publication
from causalcast.limits import Limit
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.storage.durable_entry import (
    MadeNames,
    MoreRecords,
    ReaderStands,
    Snapshot,
    StateStands,
    StillOwed,
    StillWaiting,
    StoredDelivery,
    StoredRecord,
    encode,
)
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.reader_table import PLAIN

DELIVERIES_PER_ENTRY: Final = Limit(
    "runtime.host.compaction.deliveries_per_entry",
    256,
    least=1,
    most=1 << 16,
    unit="deliveries",
    about="unacknowledged deliveries in one entry of a snapshot",
)
# Bytes of bodies in one entry, unless a single one is larger: to read one back, all are read.
BYTES_PER_ENTRY: Final = Limit(
    "runtime.host.compaction.bytes_per_entry",
    1 << 16,
    least=1,
    most=1 << 26,
    unit="bytes",
    about="bodies in one entry of a snapshot, unless a single one is larger",
)
NAMES_PER_ENTRY: Final = Limit(
    "runtime.host.compaction.names_per_entry",
    4096,
    least=1,
    most=1 << 16,
    unit="names",
    about="groups made at run time in one entry of a snapshot",
)
RECORD_BYTES_PER_ENTRY: Final = Limit(
    "runtime.host.compaction.record_bytes_per_entry",
    16 << 20,
    least=1,
    most=1 << 26,
    unit="bytes",
    about="records of the protocol in one entry of a snapshot",
)


class _Delivery:
    """A delivery as it was when the snapshot was taken: the inbox goes on changing."""

    __slots__ = ("body", "group", "id", "index", "owed", "place", "size")

    def __init__(
        self,
        message: MessageId,
        group: int,
        body: bytes | None,
        place: Place | None,
        index: int,
        size: int,
        owed: int,
    ) -> None:
        self.id = message
        self.owed = owed
        self.size = size
        self.group = group
        self.body = body
        self.place = place
        self.index = index


class Compaction:
    """What the new journal begins with, and where deliveries stand in it."""

    def __init__(
        self,
        snapshot: Snapshot,
        inbox: Inbox,
        # Deliveries whose entries are not durable yet, and the readers they are for.
        on_their_way: Iterable[tuple[Publication, int]],
        load: Callable[[Place, int], bytes],
        made: Sequence[Standing] = (),  # groups
    ) -> None:
        waiting = [
            _Delivery(w.id, w.group, w.body, w.place, w.index, w.size, w.owed)
            for w in inbox.unacknowledged.values()
        ]
        readers = inbox.readers
        for p, owed in on_their_way:
            still = owed & readers.owed_in(p.group)  # without those that have ended meanwhile
            if still:
                waiting.append(_Delivery(p.id, p.group, p.body, None, 0, len(p.body), still))
        first, *more = _in_parts(snapshot.records)
        snapshot.records = first
        self._head = [encode(snapshot), *(encode(MoreRecords(records)) for records in more)]
        for first_name in range(0, len(made), NAMES_PER_ENTRY.value):
            some = made[first_name : first_name + NAMES_PER_ENTRY.value]
            self._head.append(encode(MadeNames(list(some))))
        self._head += [encode(ReaderStands(*standing)) for standing in readers.standing()]
        self._head += [encode(StateStands(int(group), True)) for group in inbox.lacking]
        self._inbox = inbox
        self._load = load
        self._chunks = _in_chunks(waiting)

    def entries(self) -> list[Callable[[], bytes]]:
        """The entries, to be made on the journal's thread: bodies may have to be read from disk."""
        head = [_given(data) for data in self._head]
        return [*head, *map(self._still_waiting, self._chunks)]

    def replaced(self, places: list[Place]) -> None:
        """The new journal is in place: tell the inbox where its bodies are now."""
        for chunk, place in zip(self._chunks, places[len(self._head) :], strict=True):
            for index, delivery in enumerate(chunk):
                self._inbox.moved(delivery.id, place, index)

    def _still_waiting(self, chunk: list[_Delivery]) -> Callable[[], bytes]:
        owed = [delivery.owed for delivery in chunk]

        def entry() -> bytes:
            deliveries = [self._stored(delivery) for delivery in chunk]
            if owed.count(PLAIN) == len(owed):
                return encode(StillWaiting(deliveries))
            return encode(StillOwed(deliveries, owed))

        return entry

    def _stored(self, delivery: _Delivery) -> StoredDelivery:
        body = delivery.body
        if body is None:
            assert delivery.place is not None
            body = self._load(delivery.place, delivery.index)
        return delivery.id, delivery.group, body


def _in_chunks(deliveries: list[_Delivery]) -> list[list[_Delivery]]:
    chunks: list[list[_Delivery]] = []
    size = 0
    for delivery in deliveries:
        size += delivery.size
        if (
            not chunks
            or len(chunks[-1]) == DELIVERIES_PER_ENTRY.value
            or size > BYTES_PER_ENTRY.value
        ):
            chunks.append([])
            size = delivery.size
        chunks[-1].append(delivery)
    return chunks


def _in_parts(records: list[StoredRecord]) -> list[list[StoredRecord]]:
    parts: list[list[StoredRecord]] = [[]]
    size = 0
    for record in records:
        if size > RECORD_BYTES_PER_ENTRY.value:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += len(record[1])
    return parts


def _given(data: bytes) -> Callable[[], bytes]:
    return lambda: data
