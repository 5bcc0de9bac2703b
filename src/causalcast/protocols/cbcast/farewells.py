"""What a node that left a group still waits for (sub-automaton).

Whoever does not know of the leave sends effects without their causes: it takes the node for a
member, which gets the causes from their origin. The node is none, and delivers nothing of the
group, but it must keep a copy of everything its messages depend on: if all other holders died,
nobody could supply the dependency, and the others would wait for ever. So it goes on counting what
was sent to it, and what it was entrusted with. A message of somebody who may not know of the leave
waits until what it names of the group is here, or until its sender says farewell: I know that you
left, and of all that I have in my past you were entrusted with what is not at all its destinations.
If that one died, the others can say so as well, each of its own past.

A farewell comes in order with everything else its sender sends. So once all have said it, nothing
is to be waited for, and all of this is forgotten.
"""

from collections.abc import Iterator
from typing import final

from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message, Wire
from causalcast.parts.vector_clock import VectorClock


class Farewell(Message):
    """Your leave with this number is known here: of the group's publications up to these you have
    been sent all that may not be everywhere."""

    wire = Wire("farewells.farewell", group=GroupId, number=int, counts=dict[NodeId, int])

    def __init__(self, group: GroupId, number: int, counts: VectorClock) -> None:
        self.group = group
        self.number = number
        self.counts = counts


class Unheard(Message):
    """I left with this number, and something waits for the farewell of one that seems to be away:
    say what you can."""

    wire = Wire("farewells.unheard", group=GroupId, number=int)

    def __init__(self, group: GroupId, number: int) -> None:
        self.group = group
        self.number = number


class Leave(Message):
    """A leave that some may not know of; as such a record of a snapshot, too."""

    wire = Wire(
        "farewells.leave",
        group=GroupId,
        number=int,
        heard=list[NodeId],
        counts=dict[NodeId, int],
        beyond=dict[NodeId, dict[int, int]],
    )

    def __init__(
        self,
        group: GroupId,
        number: int,
        heard: list[NodeId],
        counts: VectorClock,
        beyond: dict[NodeId, dict[int, int]],
    ) -> None:
        self.group = group
        self.number = number  # of the message that tells everybody
        self.heard = heard  # those that said farewell
        self.counts = counts  # per origin: all up to this one are here or everywhere
        # What is here, too: per origin the number of each, by that of the one before it.
        self.beyond = beyond


MESSAGES = [Farewell, Unheard, Leave]


@final
class Farewells:
    """The leaves of this node that somebody may not know of."""

    def __init__(self) -> None:
        self._leaves: dict[GroupId, Leave] = {}

    def leave(self, group: GroupId, number: int) -> None:
        """This node leaves; what it had from an earlier time it still has."""
        earlier = self._leaves.get(group)
        counts = {} if earlier is None else earlier.counts
        beyond = {} if earlier is None else earlier.beyond
        self._leaves[group] = Leave(group, number, [], counts, beyond)

    def lacks(
        self, sender: NodeId, group: GroupId, clock: VectorClock, past: VectorClock
    ) -> Iterator[NodeId]:
        """Of what a message of `sender` names of a group: the origins of what must come first."""
        leave = self._leaves.get(group)
        if leave is None or sender in leave.heard:
            return
        for node, number in clock.items():
            if number > max(past.get(node, 0), leave.counts.get(node, 0)):
                yield node

    def keeps(
        self, origin: NodeId, group: GroupId, number: int, before: int, past: VectorClock
    ) -> bool:
        """A publication is here that is not for this node; whether more is complete now.

        `before` is the number of its origin's last one to the group, which may still be under way.
        """
        leave = self._leaves.get(group)
        if leave is None:
            return False
        beyond = leave.beyond.setdefault(origin, {})
        beyond[before] = number
        reached = begin = max(past.get(origin, 0), leave.counts.get(origin, 0))
        for start in sorted(beyond):
            if start <= reached:
                reached = max(reached, beyond.pop(start))
        if not beyond:
            del leave.beyond[origin]
        leave.counts[origin] = reached
        return reached > begin

    def on_farewell(self, sender: NodeId, farewell: Farewell, peers: int) -> bool:
        """Whether it is about a leave that still matters. With those of all `peers` it ends."""
        # Not in the paper, whose members leave by a flush.
        leave = self._leaves.get(farewell.group)
        if leave is None or leave.number != farewell.number:
            return False
        if sender not in leave.heard:
            leave.heard.append(sender)
        for node, count in farewell.counts.items():
            leave.counts[node] = max(count, leave.counts.get(node, 0))
        if len(leave.heard) == peers:
            del self._leaves[farewell.group]
        return True

    def unheard(self, sender: NodeId) -> Iterator[Unheard]:
        """The questions about leaves that `sender` may not know of."""
        for group, leave in self._leaves.items():
            if sender not in leave.heard:
                yield Unheard(group, leave.number)

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, Leave):
            self._leaves[record.group] = _copy(record)

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        return [_copy(leave) for leave in self._leaves.values()]

    def size(self) -> int:
        """Entries kept."""
        return sum(
            1 + len(leave.heard) + len(leave.counts) + sum(map(len, leave.beyond.values()))
            for leave in self._leaves.values()
        )


def _copy(leave: Leave) -> Leave:
    beyond = {origin: dict(numbers) for origin, numbers in leave.beyond.items()}
    return Leave(leave.group, leave.number, list(leave.heard), dict(leave.counts), beyond)
