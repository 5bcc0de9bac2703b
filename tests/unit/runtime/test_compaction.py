"""Deliveries that wait are written so that one of them can be read without many others."""

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.message import Publication
from causalcast.runtime.host.compaction import BYTES_PER_ENTRY, DELIVERIES_PER_ENTRY, Compaction
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.storage.durable_entry import Identity, Snapshot, StillWaiting, decode
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.reader_table import PLAIN


def never(place: Place, index: int) -> bytes:
    raise AssertionError("all bodies are in memory")


def sizes_of_entries(bodies: list[int]) -> list[list[int]]:
    """How many bytes each delivery has in each entry."""
    waiting = [
        (Publication(MessageId(number), GroupId(0), b"." * size), PLAIN)
        for number, size in enumerate(bodies, 1)
    ]
    identity = Identity(NodeId(1), "test", "vector_clock_broadcast", "")
    snapshot = Snapshot(1, identity, 0, [0], [], {}, {}, [], 0, [], [], {})
    compaction = Compaction(snapshot, Inbox(1 << 20, never), waiting, never)
    entries = [decode(entry()) for entry in compaction.entries()]
    assert isinstance(entries[0], Snapshot)
    found = [entry for entry in entries[1:] if isinstance(entry, StillWaiting)]
    return [[len(body or b"") for _, _, body in entry.deliveries] for entry in found]


def test_small_bodies_share_entries_and_large_ones_have_their_own() -> None:
    half = BYTES_PER_ENTRY.value // 2
    assert sizes_of_entries([half, half, 1]) == [[half, half], [1]]
    large = 10 * BYTES_PER_ENTRY.value
    assert sizes_of_entries([1, large, large, 1]) == [[1], [large], [large], [1]]
    few = sizes_of_entries([1] * (DELIVERIES_PER_ENTRY.value + 1))
    assert [len(entry) for entry in few] == [DELIVERIES_PER_ENTRY.value, 1]
