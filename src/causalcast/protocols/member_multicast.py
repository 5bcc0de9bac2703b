"""Multicast among fixed members, over reliable point-to-point links: one vector for all of them.

A.-M. Bosneag, I. Raicu, D. Ford, L. Zhang, "Causal Multicast over a Reliable Point-to-Point
Protocol": the middle one of its three layers; `causalcast udp` is the whole program.

A publication goes to every other member, once, with a vector of constant size: a slot per member,
counting what its sender had delivered. It is held back until everything its sender had delivered is
delivered. Nothing is acknowledged or kept here: the links below bring each copy over once and in
order, as the point-to-point layer does (`parts/point_to_point.py`, or TCP).

As in the report, what is promised is validity (a member delivers what it sent, at once), integrity
(nothing twice, nothing invented) and causal order. Agreement is not: if a sender dies half-way,
some members have its last message and others never get it; and a member whose link was lost is
dropped for good, its messages are not heard any more, and what waits for one of them waits for
ever.

Where we differ from the report, and why, stands in `parts/member_multicast.py`. The program lets
its user choose who gets a text; here everybody gets all of them, and hands to its application what
is for its groups.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core import (
    GroupId,
    LinkId,
    Message,
    MessageId,
    Misfit,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    message_id,
    number_of,
    origin_of,
)
from causalcast.parts.member_multicast import (
    MOST_HELD,
    MOST_MEMBERS,
    MemberMulticast,
    Stamped,
    Taken,
)

MOST_NUMBERS: Final = 1 << 32  # what a message id has room for


class Copy(Message):
    """A publication of its sender: deliver it as soon as all that its vector counts is delivered.

    The sender's own slot of the vector is the number of the publication.
    """

    __slots__ = ("publication", "vector")

    wire = Wire("member_multicast.copy", publication=Publication, vector=list[int])

    def __init__(self, publication: Publication, vector: list[int]) -> None:
        self.publication = publication
        self.vector = vector


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberCausalMulticast(Multicast):
    """The members by their slots, and copies for those whose link was never up."""

    def __init__(self, me: NodeId, members: list[NodeId]) -> None:
        self.me = me
        self.members = members
        self.slots = {member: slot for slot, member in enumerate(members)}
        self.multicast = MemberMulticast(self.slots[me], len(members))
        self.linked: dict[NodeId, None] = {}
        self.waiting: dict[NodeId, list[Copy]] = {peer: [] for peer in members if peer != me}

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        slot = self.slots.get(peer)
        if slot is None or not self.multicast.active[slot]:
            out.note("member_multicast.dropped_is_back", peer)
            return
        self.linked[peer] = None
        for copy in self.waiting.pop(peer, []):
            out.send(peer, copy)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        if peer in self.linked:
            del self.linked[peer]
            self.multicast.drop(self.slots[peer])

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        everybody = list(range(len(self.members)))
        own, copies = self.multicast.multicast(publication.body, everybody, publication.group)
        assert own.number == number_of(publication.id)
        for copy in copies:
            self._send(self.members[copy.to], Copy(publication, copy.stamped.vector), out)
        out.deliver(publication)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        assert isinstance(message, Copy)
        slot = self.slots.get(sender)
        if slot is None or not self.multicast.active[slot]:
            out.note("member_multicast.from_a_dropped_member", sender)
            return
        vector, came = message.vector, message.publication.id
        if (
            len(vector) != len(self.members)
            or min(vector) < 0
            or max(vector) >= MOST_NUMBERS
            or came != message_id(sender, vector[slot])
        ):
            out.note("member_multicast.no_vector", sender)
            return
        if self._is_old(slot, vector[slot]):
            out.duplicate(came)
            return
        if len(self.multicast.held()) >= MOST_HELD:
            out.note("member_multicast.too_many_held", sender)
            return
        body, group = message.publication.body, message.publication.group
        taken = self.multicast.receive(slot, Stamped(vector, True, body, group))
        if not taken:
            out.hold(came, self._cause_of(came))
        for one in taken:
            publication = self._publication(one)
            if publication.id != came:
                out.release(publication.id)
            out.deliver(publication)

    def explain(self, message: MessageId) -> list[MessageId]:
        return [self._cause_of(message)] if self._is_held(message) else []

    def waiting_bytes(self) -> int:
        return sum(
            len(copy.publication.body) for copies in self.waiting.values() for copy in copies
        )

    def state_size(self) -> int:
        waiting = sum(len(copies) for copies in self.waiting.values())
        return len(self.members) + len(self.multicast.held()) + waiting

    def _send(self, peer: NodeId, copy: Copy, out: Outbox) -> None:
        if peer in self.linked:
            out.send(peer, copy)
        else:
            self.waiting.setdefault(peer, []).append(copy)

    def _publication(self, taken: Taken) -> Publication:
        stamped = taken.stamped
        number = message_id(self.members[taken.sender], taken.number)
        return Publication(number, GroupId(stamped.group), stamped.text)

    def _is_old(self, slot: int, number: int) -> bool:
        came = message_id(self.members[slot], number)
        return number <= self.multicast.clock()[slot] or self._is_held(came)

    def _is_held(self, message: MessageId) -> bool:
        slot = self.slots.get(origin_of(message), -1)
        return any(
            one.sender == slot and one.stamped.vector[slot] == number_of(message)
            for one in self.multicast.held()
        )

    def _cause_of(self, message: MessageId) -> MessageId:
        """What a held message waits for."""
        slot = self.slots[origin_of(message)]
        for one in self.multicast.held():
            if one.sender == slot and one.stamped.vector[slot] == number_of(message):
                return message_id(self.members[one.cause_of], one.cause_number)
        raise AssertionError("it is not held")


def build(setup: Setup) -> MemberCausalMulticast:
    members = setup.topology.everybody()
    if not setup.topology.is_complete():
        raise Misfit("every member sends to every other: needs overlay full_mesh")
    if len(members) > MOST_MEMBERS:
        raise Misfit(f"vectors have at most {MOST_MEMBERS} slots, and there are {len(members)}")
    return MemberCausalMulticast(setup.me, sorted(members))


def nothing_is_held(multicast: Multicast) -> bool:
    assert isinstance(multicast, MemberCausalMulticast)
    return not multicast.multicast.held()


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, MemberCausalMulticast)
    return multicast.waiting_bytes() == 0


SPEC = ProtocolSpec(
    name="member_multicast",
    summary="One vector, point-to-point links, no agreement (Bosneag, Raicu, Ford, Zhang).",
    build=build,
    messages=[Copy],
    guarantees=["no_creation", "no_duplication", "validity", "fifo_order", "causal_order"],
    needs=Needs(overlay="mesh", links="fifo"),
    at_rest=[nothing_is_held, nothing_waits],
    cost="one entry per member, always all of them: n of 1 to 10 bytes",
    offers=["explain"],
)
