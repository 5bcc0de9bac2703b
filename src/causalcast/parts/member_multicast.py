"""Causal multicast among a fixed list of members, over reliable point-to-point messages.

The causal layer of Bosneag, Raicu, Ford and Zhang, *Causal Multicast over a Reliable Point-to-Point
Protocol*: every message carries a vector with a slot per member; who sends increments its own slot
(their section 1.1; the rules of 2.2.1 count receptions too, and the last of them lets two members
wait for each other for ever). A message is held back until everything its sender had delivered is
delivered here. A member delivers its own messages at once.

It promises that a correct member delivers what it sent (validity), that nothing is delivered twice
or invented (integrity), and causal order. It does not promise agreement: if a sender dies half-way,
some members have its last message and others do not.

Where we differ from the report, and why
----------------------------------------

- A message may be for some members only. With one vector, those left out would wait for its number
  for ever; they are sent the number without the text.
- A member that failed is left out from then on, as there. What waits for one of its messages that
  never came is not delivered.
"""

from typing import Final, final

from causalcast.core.ids import GroupId, NodeId, message_id, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery

MOST_MEMBERS: Final = 32  # slots of a vector, which has the same size in every message
MOST_HELD: Final = 1024  # messages in the hold-back queue


@final
class Stamped:
    """A message and the vector it carries; without text for those it is not addressed to."""

    def __init__(self, vector: list[int], addressed: bool, text: bytes, group: int = 0) -> None:
        self.vector = vector
        self.addressed = addressed
        self.text = text
        self.group = group  # of whoever has groups; nothing depends on it here


@final
class Copy:
    """What goes to one member."""

    def __init__(self, to: int, stamped: Stamped) -> None:
        self.to = to
        self.stamped = stamped


@final
class Taken:
    """A message that was delivered; only an addressed one is for the application."""

    def __init__(self, sender: int, number: int, stamped: Stamped) -> None:
        self.sender = sender
        self.number = number
        self.stamped = stamped


@final
class Waiting:
    """A message in the hold-back queue, and the one whose delivery it waits for."""

    def __init__(self, sender: int, stamped: Stamped, cause_of: int, cause_number: int) -> None:
        self.sender = sender
        self.stamped = stamped
        self.cause_of = cause_of
        self.cause_number = cause_number


class MemberMulticast:
    """One member: who is active, what was delivered, what is held back."""

    def __init__(self, me: int, members: int) -> None:
        assert 0 <= me < members <= MOST_MEMBERS
        self.me = me
        self.active = [True] * members
        self._delivery = CausalDelivery()
        self._stamps: dict[int, Stamped] = {}  # of what is held, by message id

    def clock(self) -> list[int]:
        """How many messages of each member were delivered here."""
        return [self._delivery.delivered.get(NodeId(i), 0) for i in range(len(self.active))]

    def multicast(self, text: bytes, to: list[int], group: int = 0) -> tuple[Taken, list[Copy]]:
        """Stamp a message for `to`: our own delivery, and a copy for every other active member."""
        vector = self.clock()
        vector[self.me] += 1
        stamped = Stamped(vector, True, text, group)
        (own,) = self._arrive(self.me, stamped)
        number_only = Stamped(vector, False, b"", group)
        return own, [
            Copy(member, stamped if member in to else number_only) for member in self.others()
        ]

    def receive(self, sender: int, stamped: Stamped) -> list[Taken]:
        """What can be delivered now, causes first; empty if the message has to wait.

        Messages of one sender come in order and once. A vector that cannot be is ignored.
        """
        known = len(self.active)
        number = stamped.vector[sender]
        is_next = number > self._delivery.delivered.get(NodeId(sender), 0)
        for slot, count in enumerate(stamped.vector):
            if slot >= known and count:
                return []
        if not is_next or sender == self.me or len(self._stamps) >= MOST_HELD:
            return []
        if int(message_id(NodeId(sender), number)) in self._stamps:
            return []
        return self._arrive(sender, stamped)

    def drop(self, member: int) -> None:
        """A member failed: nothing goes there any more."""
        self.active[member] = False

    def others(self) -> list[int]:
        """The active members but this one."""
        return [i for i, active in enumerate(self.active) if active and i != self.me]

    def held(self) -> list[Waiting]:
        """The hold-back queue."""
        found = []
        for one in self._delivery.held():
            cause = self._delivery.waits_for(one.publication.id)
            assert cause != NOTHING
            stamped = self._stamps[one.publication.id]
            sender = int(origin_of(one.publication.id))
            found.append(Waiting(sender, stamped, int(origin_of(cause)), number_of(cause)))
        return found

    def _arrive(self, sender: int, stamped: Stamped) -> list[Taken]:
        number = stamped.vector[sender]
        publication = Publication(message_id(NodeId(sender), number), GroupId(0), stamped.text)
        needs = {
            NodeId(slot): count
            for slot, count in enumerate(stamped.vector)
            if slot != sender and count
        }
        self._stamps[publication.id] = stamped
        taken = []
        for ready in self._delivery.arrive(publication, needs):
            delivered = ready.publication.id
            one = self._stamps.pop(delivered)
            taken.append(Taken(int(origin_of(delivered)), number_of(delivered), one))
        return taken
