"""Messages that wait are looked at again only when there is more of what they lack."""

from causalcast.core import GroupId, NodeId
from causalcast.parts.addressed import addressed_messages
from causalcast.parts.addressed.member_lists import Left
from causalcast.parts.addressed.waiting_room import Entry, Missing, WaitingRoom


class Numbered(addressed_messages.Numbered):
    """The sender's `number`-th message: it needs the one before."""

    def __init__(self, number: int) -> None:
        super().__init__(GroupId(0), number, Left(GroupId(0)))


def drain(room: WaitingRoom, done: dict[NodeId, int]) -> tuple[list[int], int]:
    """What becomes ready, in order, and how many looks that takes."""
    passed: list[int] = []
    looks = 0
    while (entry := room.next()) is not None:
        sender, message = entry
        assert isinstance(message, Numbered)
        looks += 1
        missing: Missing = (0, sender)
        if message.number > done.get(sender, 0) + 1:
            room.wait(missing, entry)
        else:
            done[sender] = message.number
            passed.append(message.number)
            room.wake(missing)
    return passed, looks


def test_what_waits_for_others_is_not_looked_at() -> None:
    room = WaitingRoom()
    done: dict[NodeId, int] = {}
    for sender in range(1, 101):
        room.enter(NodeId(sender), Numbered(2))
    assert drain(room, done) == ([], 100)
    room.enter(NodeId(7), Numbered(1))
    assert drain(room, done) == ([1, 2], 2)
    assert room.size() == 99


def test_all_can_be_woken_and_some_thrown_out() -> None:
    room = WaitingRoom()
    entries: list[Entry] = [(NodeId(sender), Numbered(2)) for sender in (1, 2, 3)]
    for sender, message in entries:
        room.enter(sender, message)
    drain(room, {})
    assert room.entries() == entries
    room.wake_all()
    assert drain(room, {NodeId(2): 1}) == ([2], 3)
    room.leave_only(entries[:1])
    assert room.entries() == entries[:1] and room.next() == entries[0] and room.next() is None
