"""Compaction: a snapshot of everything takes the place of a journal that has grown large.

The snapshot is taken between two steps. Steps whose entries are still on their way to the disk are
part of it, so their deliveries and trace rows are written with it too.
"""

from collections.abc import Callable, Iterable
from typing import Final

from causalcast.core.ids import MessageId
from causalcast.core.message import Publication
from causalcast.runtime.inbox import Inbox
from causalcast.runtime.storage.durable_entry import Snapshot, StillWaiting, StoredDelivery, encode
from causalcast.runtime.storage.journal_frames import Place

DELIVERIES_PER_ENTRY: Final = 256


class _Delivery:
    """A delivery as it was when the snapshot was taken: the inbox goes on changing."""

    __slots__ = ("body", "group", "id", "index", "place")

    def __init__(
        self, message: MessageId, group: int, body: bytes | None, place: Place | None, index: int
    ) -> None:
        self.id = message
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
        on_their_way: Iterable[Publication],  # deliveries whose entries are not durable yet
        load: Callable[[Place, int], bytes],
    ) -> None:
        waiting = [
            _Delivery(w.id, w.group, w.body, w.place, w.index)
            for w in inbox.unacknowledged.values()
        ]
        waiting.extend(_Delivery(p.id, p.group, p.body, None, 0) for p in on_their_way)
        self._snapshot = encode(snapshot)
        self._inbox = inbox
        self._load = load
        self._chunks = [
            waiting[start : start + DELIVERIES_PER_ENTRY]
            for start in range(0, len(waiting), DELIVERIES_PER_ENTRY)
        ]

    def entries(self) -> list[Callable[[], bytes]]:
        """The entries, to be made on the journal's thread: bodies may have to be read from disk."""
        return [lambda: self._snapshot, *map(self._still_waiting, self._chunks)]

    def replaced(self, places: list[Place]) -> None:
        """The new journal is in place: tell the inbox where its bodies are now."""
        for chunk, place in zip(self._chunks, places[1:], strict=True):
            for index, delivery in enumerate(chunk):
                self._inbox.moved(delivery.id, place, index)

    def _still_waiting(self, chunk: list[_Delivery]) -> Callable[[], bytes]:
        return lambda: encode(StillWaiting([self._stored(delivery) for delivery in chunk]))

    def _stored(self, delivery: _Delivery) -> StoredDelivery:
        body = delivery.body
        if body is None:
            assert delivery.place is not None
            body = self._load(delivery.place, delivery.index)
        return delivery.id, delivery.group, body
