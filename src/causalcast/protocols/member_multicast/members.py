"""Causal multicast among a fixed list of members, over reliable point-to-point messages.

The causal layer of Bosneag, Raicu, Ford and Zhang, *Causal Multicast over a Reliable Point-to-Point
Protocol*: every message carries a vector with a slot per member; who sends increments its own slot
(their section 1.1; the rules of 2.2.1 count receptions too, and the last of them lets two members
wait for each other for ever). A message is held back until everything its sender had delivered is
delivered here. A member delivers its own messages at once.

It promises that a correct member delivers what it sent (validity), that nothing is delivered twice
or invented (integrity), and causal order. It does not promise agreement: if a sender dies half-way,
what none of the living members has is lost.

Where we differ from the report, and why
----------------------------------------

- A message may be for some members only. With one vector, those left out would wait for its number
  for ever; they are sent the number without the text.
- A member that failed is left out from then on, as there; nothing goes there and nothing is taken
  from there. But it may have died half-way, or only the link between two members may have failed;
  then what other members say would wait for ever for messages that cannot come. So whoever drops a
  member tells the others how many of its messages it has, and they pass on what it lacks, now and
  later. A copy is kept for that until everybody is known to have it: the vectors of those who speak
  say so. A listener that never speaks says nothing, so of each member a limited number is kept.
- A message for some members only is passed on as a number: who passes it on knows nobody's name.
"""

from typing import Final, final

from causalcast.core.ids import GroupId, NodeId, message_id, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.limits import Limit
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery

MOST_MEMBERS: Final = 32  # slots of a vector, which has the same size in every message
# Copies of one member's messages, for those who lose their link to it. Far more than are under way
# when a member dies.
MOST_KEPT: Final = Limit(
    "protocols.member_multicast.members.most_kept",
    1024,
    least=128,
    most=1 << 20,
    unit="messages",
    about="copies of one member's messages: more than are under way when it dies",
)
MOST_KEPT_BYTES: Final = Limit(
    "protocols.member_multicast.members.most_kept_bytes",
    1 << 20,
    least=1 << 14,
    most=1 << 30,
    unit="bytes",
    about="the same in bytes",
)
NOBODY_ASKS: Final = 1 << 32  # above every number


@final
class Stamped:
    """A message and the vector it carries; without text for those it is not addressed to."""

    def __init__(
        self,
        vector: list[int],
        addressed: bool,
        text: bytes,
        group: int = 0,
        for_all: bool = False,
    ) -> None:
        self.vector = vector
        self.addressed = addressed
        self.text = text
        self.group = group  # of whoever has groups; nothing depends on it here
        self.for_all = for_all  # addressed to every member


@final
class Copy:
    """What goes to one member."""

    def __init__(self, to: int, stamped: Stamped) -> None:
        self.to = to
        self.stamped = stamped


@final
class PassedOn:
    """A message of `origin`, for a member that has no link to it."""

    def __init__(self, to: int, origin: int, stamped: Stamped) -> None:
        self.to = to
        self.origin = origin
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
        self.held_of = [0] * members  # how many of each member's are held
        # Per member: what its vectors said that it had delivered.
        self._has = [[0] * members for _ in range(members)]
        # Per member: what was delivered of it and others may lack, by number; and its size.
        self._kept: list[dict[int, Stamped]] = [{} for _ in range(members)]
        self._kept_bytes = [0] * members
        # Per member: who has lost the link to it and is told all of it from here.
        self._deaf: list[dict[int, None]] = [{} for _ in range(members)]
        self._to_pass_on: list[PassedOn] = []

    def clock(self) -> list[int]:
        """How many messages of each member were delivered here."""
        return [self._delivery.delivered.get(NodeId(i), 0) for i in range(len(self.active))]

    def multicast(self, text: bytes, to: list[int], group: int = 0) -> tuple[Taken, list[Copy]]:
        """Stamp a message for `to`: our own delivery, and a copy for every other active member."""
        vector = self.clock()
        vector[self.me] += 1
        stamped = Stamped(vector, True, text, group, len(set(to)) == len(self.active))
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
        if not is_next or sender == self.me or self.is_held(sender, number):
            return []
        return self._arrive(sender, stamped)

    def drop(self, member: int) -> int:
        """A member failed: nothing goes there any more.

        How many of its messages came, delivered or held: tell the other members that.
        """
        self.active[member] = False
        for origin in range(len(self.active)):
            self._deaf[origin].pop(member, None)
            self._forget(origin)
        came = self._delivery.delivered.get(NodeId(member), 0)
        while self.is_held(member, came + 1):
            came += 1
        return came

    def lost(self, who: int, member: int, has: int) -> None:
        """Another member has no link to `member` any more, and so many of its messages."""
        if member not in (self.me, who) and self.active[who]:
            self._deaf[member][who] = None
            self._has[who][member] = max(self._has[who][member], has)
            for number, stamped in self._kept[member].items():
                self._pass_on(who, member, number, stamped)
            self._forget(member)

    def passed_on(self, origin: int, stamped: Stamped) -> list[Taken]:
        """A message of a member that was dropped came through another; as `receive`."""
        if origin == self.me or self.active[origin]:
            return []  # nobody asked for it
        return self.receive(origin, stamped)

    def take_to_pass_on(self) -> list[PassedOn]:
        """What is to go to members that have lost a link, since this was asked last."""
        found, self._to_pass_on = self._to_pass_on, []
        return found

    def others(self) -> list[int]:
        """The active members but this one."""
        return [i for i, active in enumerate(self.active) if active and i != self.me]

    def is_held(self, sender: int, number: int) -> bool:
        """Whether this message is in the hold-back queue."""
        return int(message_id(NodeId(sender), number)) in self._stamps

    def held_count(self) -> int:
        """How many are in the hold-back queue."""
        return len(self._stamps)

    def kept_count(self) -> int:
        """How many copies are kept for members that may lack them."""
        return sum(map(len, self._kept))

    def cause_of(self, sender: int, number: int) -> tuple[int, int]:
        """Sender and number of what a held message waits for."""
        cause = self._delivery.waits_for(message_id(NodeId(sender), number))
        assert cause != NOTHING
        return int(origin_of(cause)), number_of(cause)

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
        self.held_of[sender] += 1
        taken = []
        for ready in self._delivery.arrive(publication, needs):
            delivered = ready.publication.id
            one = self._stamps.pop(delivered)
            origin = int(origin_of(delivered))
            self.held_of[origin] -= 1
            taken.append(Taken(origin, number_of(delivered), one))
        for own in taken:
            self._keep(own)
        return taken

    # For members that lose a link

    def _keep(self, taken: Taken) -> None:
        """Keep what was delivered, and pass it on to those who hear nothing of its sender."""
        origin, number, stamped = taken.sender, taken.number, taken.stamped
        has = self._has[origin]
        for slot in range(len(self.active)):
            if stamped.vector[slot] > has[slot]:
                has[slot] = stamped.vector[slot]
                if slot != origin:
                    self._forget(slot)
        if origin == self.me:
            return  # who loses the link to this member asks the others
        self._kept[origin][number] = stamped
        self._kept_bytes[origin] += len(stamped.text)
        for who in self._deaf[origin]:
            self._pass_on(who, origin, number, stamped)
        self._forget(origin)

    def _pass_on(self, who: int, origin: int, number: int, stamped: Stamped) -> None:
        if number > self._has[who][origin]:
            copy = stamped
            if not stamped.for_all:
                copy = Stamped(stamped.vector, False, b"", stamped.group)
            self._to_pass_on.append(PassedOn(who, origin, copy))

    def _forget(self, origin: int) -> None:
        """Keep no longer what everybody has, nor more than there is room for."""
        kept = self._kept[origin]
        everywhere = min((self._has[who][origin] for who in self.others()), default=NOBODY_ASKS)
        while kept:
            number = next(iter(kept))
            full = len(kept) > MOST_KEPT.value or self._kept_bytes[origin] > MOST_KEPT_BYTES.value
            if number > everywhere and not full:
                return
            self._kept_bytes[origin] -= len(kept.pop(number).text)
