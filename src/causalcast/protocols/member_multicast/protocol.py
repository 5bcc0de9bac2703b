"""Multicast among fixed members, over reliable point-to-point links: one vector for all of them.

A.-M. Bosneag, I. Raicu, D. Ford, L. Zhang, "Causal Multicast over a Reliable Point-to-Point
Protocol": the middle one of its three layers; `causalcast udp` is the whole program.

A publication goes to every other member, once, with a vector of constant size: a slot per member,
counting what its sender had delivered. It is held back until everything its sender had delivered is
delivered; any number may wait. Nothing is acknowledged here: the links below bring each copy over
once and in order, as the point-to-point layer does (`point_to_point`, or TCP).

As in the report, what is promised is validity (a member delivers what it sent, at once), integrity
(nothing twice, nothing invented) and causal order. Agreement is not: what a sender that dies
half-way brought to none of the living is lost. A member whose link was lost is dropped for good by
the other end, and nothing goes there directly any more; others pass on what it says, so that those
who live go on.

Where we differ from the report, and why, stands in `members`. The program lets
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
from causalcast.protocols.member_multicast.members import (
    MOST_MEMBERS,
    MemberMulticast,
    Stamped,
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


class PassedOn(Message):
    """A publication of a member that you have lost the link to: take it as a copy."""

    __slots__ = ("publication", "vector")

    wire = Wire("member_multicast.passed_on", publication=Publication, vector=list[int])

    def __init__(self, publication: Publication, vector: list[int]) -> None:
        self.publication = publication
        self.vector = vector


class Lost(Message):
    """I have no link to this member any more, and so many of its publications: pass on the rest."""

    wire = Wire("member_multicast.lost", member=NodeId, has=int)

    def __init__(self, member: NodeId, has: int) -> None:
        self.member = member
        self.has = has


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberCausalMulticast(Multicast):
    """The members by their slots, and what is for those whose link was never up."""

    def __init__(self, me: NodeId, members: list[NodeId]) -> None:
        self.me = me
        self.members = members
        self.slots = {member: slot for slot, member in enumerate(members)}
        self.multicast = MemberMulticast(self.slots[me], len(members))
        self.linked: dict[NodeId, None] = {}
        self.waiting: dict[NodeId, list[Message]] = {peer: [] for peer in members if peer != me}

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        slot = self.slots.get(peer)
        if slot is None or not self.multicast.active[slot]:
            out.note("member_multicast.dropped_is_back", peer)
            return
        self.linked[peer] = None
        for message in self.waiting.pop(peer, []):
            out.send(peer, message)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        if peer in self.linked:
            del self.linked[peer]
            has = self.multicast.drop(self.slots[peer])
            for other in self.multicast.others():
                self._send(self.members[other], Lost(peer, has), out)

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        everybody = list(range(len(self.members)))
        own, copies = self.multicast.multicast(publication.body, everybody, publication.group)
        assert own.number == number_of(publication.id)
        for copy in copies:
            self._send(self.members[copy.to], Copy(publication, copy.stamped.vector), out)
        out.deliver(publication)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        slot = self.slots.get(sender)
        if slot is None or not self.multicast.active[slot]:
            out.note("member_multicast.from_a_dropped_member", sender)
        elif isinstance(message, Lost):
            self._on_lost(slot, message, out)
        elif isinstance(message, PassedOn):
            self._on_passed_on(sender, message, out)
        else:
            assert isinstance(message, Copy)
            self._take(sender, sender, message.publication, message.vector, out)

    def _on_lost(self, slot: int, lost: Lost, out: Outbox) -> None:
        member = self.slots.get(lost.member)
        if member is None or lost.has < 0:
            out.note("member_multicast.no_member", lost.member)
            return
        out.note("member_multicast.passes_on", lost.member)
        self.multicast.lost(slot, member, lost.has)
        self._pass_on(out)

    def _on_passed_on(self, sender: NodeId, message: PassedOn, out: Outbox) -> None:
        origin = self.slots.get(origin_of(message.publication.id))
        if origin is None or origin == self.multicast.me or self.multicast.active[origin]:
            out.note("member_multicast.nobody_asked", sender)
        else:
            origin_id = self.members[origin]
            self._take(sender, origin_id, message.publication, message.vector, out)

    def _take(
        self,
        sender: NodeId,
        origin: NodeId,
        publication: Publication,
        vector: list[int],
        out: Outbox,
    ) -> None:
        """A publication of `origin` came through `sender`: deliver it and what waited, or hold."""
        slot, came = self.slots[origin], publication.id
        if (
            len(vector) != len(self.members)
            or min(vector) < 0
            or max(vector) >= MOST_NUMBERS
            or came != message_id(origin, vector[slot])
        ):
            out.note("member_multicast.no_vector", sender)
            return
        if self._is_old(slot, vector[slot]):
            out.duplicate(came)
            return
        stamped = Stamped(vector, True, publication.body, publication.group, True)
        taken = self.multicast.receive(slot, stamped)
        if not taken:
            out.hold(came, self._cause_of(came))
        for one in taken:
            delivered = self._publication(one.sender, one.stamped)
            if delivered.id != came:
                out.release(delivered.id)
            out.deliver(delivered)
        self._pass_on(out)

    def _pass_on(self, out: Outbox) -> None:
        for one in self.multicast.take_to_pass_on():
            publication = self._publication(one.origin, one.stamped)
            self._send(self.members[one.to], PassedOn(publication, one.stamped.vector), out)

    def explain(self, message: MessageId) -> list[MessageId]:
        return [self._cause_of(message)] if self._is_held(message) else []

    def waiting_bytes(self) -> int:
        return sum(
            len(message.publication.body)
            for messages in self.waiting.values()
            for message in messages
            if isinstance(message, (Copy, PassedOn))
        )

    def state_size(self) -> int:
        waiting = sum(len(messages) for messages in self.waiting.values())
        kept = self.multicast.kept_count()
        return len(self.members) + self.multicast.held_count() + kept + waiting

    def _send(self, peer: NodeId, message: Message, out: Outbox) -> None:
        if peer in self.linked:
            out.send(peer, message)
        else:
            self.waiting.setdefault(peer, []).append(message)

    def _publication(self, origin: int, stamped: Stamped) -> Publication:
        identity = message_id(self.members[origin], stamped.vector[origin])
        return Publication(identity, GroupId(stamped.group), stamped.text)

    def _is_old(self, slot: int, number: int) -> bool:
        came = message_id(self.members[slot], number)
        return number <= self.multicast.clock()[slot] or self._is_held(came)

    def _is_held(self, message: MessageId) -> bool:
        slot = self.slots.get(origin_of(message))
        return slot is not None and self.multicast.is_held(slot, number_of(message))

    def _cause_of(self, message: MessageId) -> MessageId:
        """What a held message waits for."""
        slot = self.slots[origin_of(message)]
        cause_of, number = self.multicast.cause_of(slot, number_of(message))
        return message_id(self.members[cause_of], number)


def build(setup: Setup) -> MemberCausalMulticast:
    members = setup.topology.everybody()
    if not setup.topology.is_complete():
        raise Misfit("every member sends to every other: needs overlay full_mesh")
    if len(members) > MOST_MEMBERS:
        raise Misfit(f"vectors have at most {MOST_MEMBERS} slots, and there are {len(members)}")
    return MemberCausalMulticast(setup.me, sorted(members))


def nothing_is_held(multicast: Multicast) -> bool:
    assert isinstance(multicast, MemberCausalMulticast)
    return multicast.multicast.held_count() == 0


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, MemberCausalMulticast)
    return multicast.waiting_bytes() == 0


SPEC = ProtocolSpec(
    name="member_multicast",
    summary="One vector, point-to-point links, no agreement (Bosneag, Raicu, Ford, Zhang).",
    build=build,
    messages=[Copy, PassedOn, Lost],
    guarantees=["no_creation", "no_duplication", "validity", "fifo_order", "causal_order"],
    needs=Needs(overlay="mesh", links="fifo"),
    at_rest=[nothing_is_held, nothing_waits],
    cost="one entry per member, always all of them: n of 1 to 10 bytes",
    offers=["explain"],
)
