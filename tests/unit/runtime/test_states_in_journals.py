"""What a journal knows of states, and a greeting of requests."""

import msgspec

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId, message_id
from causalcast.runtime.links.greeting import Greeting, first_greeting, read_greeting
from causalcast.runtime.storage.durable_entry import (
    Acknowledged,
    Entry,
    Memory,
    StateStands,
    Step,
    encode,
)
from causalcast.runtime.storage.journal_frames import Place, StoredEntry


def remembered(*entries: Entry) -> Memory:
    memory = Memory(NodeId(1), Groups({"all": [NodeId(1)], "doc": [NodeId(2)]}))
    memory.take_in(
        StoredEntry(sequence, Place(0, 0), encode(entry))
        for sequence, entry in enumerate(entries, 1)
    )
    return memory


def delivered(*numbers: int) -> Step:
    ids = [int(message_id(NodeId(2), number)) for number in numbers]
    return Step(1, None, [], [(one, 1, b"x") for one in ids])


LACKS = StateStands(1, True)
TAKEN = StateStands(1, False, {2: 2})


def test_who_has_joined_lacks_the_state_until_it_is_taken() -> None:
    assert GroupId(1) in remembered(LACKS).lacking
    assert not remembered(LACKS, TAKEN).lacking
    assert GroupId(1) in remembered(LACKS, TAKEN, LACKS).lacking


def test_what_a_state_contains_is_not_handed_over_again() -> None:
    memory = remembered(LACKS, delivered(1, 2, 3), TAKEN, delivered(4))
    assert [one & 0xFFFFFFFF for one in memory.inbox] == [3, 4]
    assert memory.handled == {1: {2: 2}}


def test_a_position_counts_what_never_came_here() -> None:
    """So that this member can give the state in its turn."""
    memory = remembered(LACKS, TAKEN, delivered(5), Acknowledged([int(message_id(NodeId(2), 5))]))
    assert memory.handled == {1: {2: 5}}


def test_earlier_versions_say_nothing_of_requests() -> None:
    """Their greetings are shorter by a field; they pass over that of ours."""
    ours = first_greeting("test", 1, 1, "127.0.0.1:1", "digest", {})
    fields = msgspec.msgpack.decode(ours.encode()[8:])
    assert fields[-1] is True and read_greeting(ours.encode()).direct
    earlier = ours.encode()[:8] + msgspec.msgpack.encode(fields[:-1])
    assert not read_greeting(earlier).direct
    longer = ours.encode()[:8] + msgspec.msgpack.encode([*fields, "of a later version"])
    assert msgspec.msgpack.decode(longer[8:], type=Greeting) == ours
