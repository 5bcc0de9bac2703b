"""Keys of clients in a journal: each is there exactly if its publication is."""

from causalcast.core.groups import Groups
from causalcast.core.ids import NodeId, message_id
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import (
    Acknowledged,
    Entry,
    Identity,
    Keyed,
    Memory,
    Snapshot,
    Started,
    Step,
)
from causalcast.runtime.storage.journal_frames import Place, StoredEntry
from causalcast.runtime.storage.publication_keys import PublicationKeys

ME = Identity(1, "c", "p", "d")
BEGIN = Started(1, ME, 1, 1)


def keyed(key: str, number: int, client: str = "a") -> Keyed:
    return Keyed(client, (key, number, b"digest"))


def step(number: int) -> Step:
    body = (number, 0, b"body")
    return Step(0, body, [], [(message_id(NodeId(1), number), 0, None)])


def remembered(*entries: Entry) -> Memory:
    memory = Memory(NodeId(1), Groups({"all": [NodeId(1)]}))
    memory.take_in(
        StoredEntry(number, Place(0, number), durable_entry.encode(entry))
        for number, entry in enumerate(entries, 1)
    )
    return memory


def keys_of(memory: Memory) -> dict[str, int]:
    return {key: number for key, number, _ in memory.keys.stored().get("a", [])}


def test_a_key_counts_if_its_publication_is_there() -> None:
    assert keys_of(remembered(BEGIN, keyed("k", 1))) == {}
    assert keys_of(remembered(BEGIN, keyed("k", 1), step(1))) == {"k": 1}


def test_a_number_that_a_crash_freed_is_of_another_key() -> None:
    lost = [BEGIN, keyed("lost", 1)]
    second = [Started(2, ME, 1, 2), keyed("k", 1), step(1)]
    assert keys_of(remembered(*lost, *second)) == {"k": 1}


def test_a_snapshot_has_keys_and_what_was_handled() -> None:
    done = Acknowledged([message_id(NodeId(1), 1)])
    whole = remembered(BEGIN, keyed("k", 1), step(1), step(2), done)
    assert whole.handled == {0: {1: 1}}
    snapshot = Snapshot(
        1, ME, 2, [0], [], {}, {}, [], 1, [], [], {}, whole.keys.stored(), whole.handled, [0]
    )
    again = remembered(snapshot, keyed("l", 3), step(3))
    assert keys_of(again) == {"k": 1, "l": 3}
    assert (again.handled, again.late_groups) == ({0: {1: 1}}, {0: None})


def test_a_snapshot_of_an_earlier_version_does_not_know_what_was_handled() -> None:
    assert remembered(Snapshot(1, ME, 2, [0], [], {}, {}, [], 1, [], [], {})).handled is None


def test_one_client_cannot_make_the_keys_of_others_be_forgotten() -> None:
    keys = PublicationKeys()
    keys.add("quiet", ("k", 1, b""))
    for number in range(2, 5000):
        keys.add("loud", (str(number), number, b""))
    assert keys.find("quiet", "k") == ("k", 1, b"")
    assert keys.find("loud", "2") is None
    assert len(keys.stored()["loud"]) == 1000
