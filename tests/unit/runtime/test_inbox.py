"""The inbox hands over in order, from memory or from the journal, until it is acknowledged."""

from causalcast.core.ids import GroupId, MessageId
from causalcast.core.message import Publication
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.storage.journal_frames import Place

GROUP = GroupId(0)


def publication(number: int, size: int = 10) -> Publication:
    return Publication(MessageId(number), GROUP, bytes([number]) * size)


class Disk:
    """Bodies by place; remembers what was read."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def load(self, place: Place, index: int) -> bytes:
        self.reads.append(place.offset)
        return bytes([place.offset]) * 10


def filled(limit: int, count: int) -> tuple[Inbox, Disk]:
    disk = Disk()
    inbox = Inbox(limit, disk.load)
    for number in range(1, count + 1):
        inbox.add(publication(number), Place(number, 10), 0)
    return inbox, disk


def bodies(inbox: Inbox) -> list[int]:
    found = []
    while (taken := inbox.take(GROUP)) is not None:
        found.append(taken.body[0])
    return found


def test_beyond_the_limit_bodies_come_from_the_journal() -> None:
    inbox, disk = filled(limit=30, count=5)
    assert bodies(inbox) == [1, 2, 3, 4, 5]
    assert disk.reads == [4, 5]


def test_what_is_taken_makes_room_for_what_comes() -> None:
    inbox, disk = filled(limit=30, count=3)
    inbox.take(GROUP)
    inbox.add(publication(4), Place(4, 10), 0)
    assert bodies(inbox) == [2, 3, 4]
    assert disk.reads == []


def test_taken_is_not_acknowledged() -> None:
    inbox, _ = filled(limit=30, count=2)
    bodies(inbox)
    assert list(inbox.unacknowledged) == [1, 2]
    assert inbox.acknowledge(MessageId(1))
    assert not inbox.acknowledge(MessageId(1))
    assert list(inbox.unacknowledged) == [2]


def test_what_is_given_back_comes_first() -> None:
    inbox, disk = filled(limit=100, count=3)
    first = inbox.take(GROUP)
    assert first is not None
    inbox.give_back(first)
    assert bodies(inbox) == [1, 2, 3]
    assert disk.reads == []


def test_without_a_journal_everything_stays_in_memory() -> None:
    inbox = Inbox(10, Disk().load)
    for number in (1, 2, 3):
        inbox.add(publication(number), None, 0)
    assert bodies(inbox) == [1, 2, 3]
    assert inbox.unacknowledged == {}


def test_bodies_are_found_after_the_journal_moved_them() -> None:
    inbox, disk = filled(limit=0, count=2)
    inbox.moved(MessageId(2), Place(7, 10), 3)
    assert bodies(inbox) == [1, 7]
    assert disk.reads == [1, 7]
