"""Vector-clock broadcast: one clock for everybody.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991; as told
by de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, section 3.2.

A publication carries how many publications of every other node its origin had delivered. A node
delivers it when it has delivered as many itself, and the origin's earlier ones. Every node gets
everything, and hands to its application what is for its groups: so order holds across overlapping
groups, and a chain of causes may run through groups a node is not in.

Where we differ from the paper, and why
- The survey's rule cannot deliver a sender's own message (its clock is never one behind); a sender
  delivers its own at once, inside the publish.
- The slot of the origin is the publication's own number and is not sent twice. Slots that are zero
  are not sent.
- The paper assumes reliable channels and no crashes. `parts/reliable_sending.py` makes both true:
  copies are acknowledged, repeated and persisted, and a node that was away catches up.
"""

from causalcast.core import (
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    number_of,
    origin_of,
)
from causalcast.parts import reliable_sending
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery
from causalcast.parts.reliable_sending import ReliableSending
from causalcast.parts.vector_clock import VectorClock


class Stamped(Message):
    """A publication and what its origin had delivered: deliver it after those, and pass it on."""

    __slots__ = ("needs", "publication")

    wire = Wire("vector_clock_broadcast.stamped", publication=Publication, needs=dict[NodeId, int])

    def __init__(self, publication: Publication, needs: VectorClock) -> None:
        self.publication = publication
        self.needs = needs


class Delivered(Message):
    """Record of a snapshot: how many publications of each origin were delivered."""

    wire = Wire("vector_clock_broadcast.delivered", counts=dict[NodeId, int])

    def __init__(self, counts: VectorClock) -> None:
        self.counts = counts


def id_of(message: Message) -> MessageId:
    """Under which id a message is repeated and recognised."""
    assert isinstance(message, Stamped)
    return message.publication.id


def clock_of(stamped: Stamped) -> VectorClock:
    """The vector clock as the paper prints it, the origin's own slot included."""
    publication = stamped.publication
    return {**stamped.needs, origin_of(publication.id): number_of(publication.id)}


class VectorClockBroadcast(Multicast):
    """What was delivered and what is held, above neighbours that are sent to until they have it."""

    def __init__(self, me: NodeId, sending: ReliableSending) -> None:
        self.me = me
        self.sending = sending
        self.delivery = CausalDelivery()

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        needs = dict(self.delivery.delivered)
        needs.pop(self.me, None)
        self._accept(Stamped(publication, needs), self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if not isinstance(message, Stamped):
            self.sending.on_message(sender, message, out)
        elif origin_of(message.publication.id) == self.me and not self._is_mine(message):
            out.note("vector_clock_broadcast.forged", sender)
        else:
            self._accept(message, sender, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        self.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.sending.on_neighbour_down(peer, out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # What was accepted decides what was delivered; the deliveries stand in the same entries
        # of the journal, so nothing is delivered again here.
        for record in records:
            if isinstance(record, Delivered):
                self.delivery.delivered = dict(record.counts)
            else:
                accepted = self.sending.restore(record)
                if isinstance(accepted, Stamped) and not self._was_delivered(accepted):
                    self.delivery.arrive(accepted.publication, accepted.needs)

    def snapshot(self) -> list[Message]:
        held: list[Message] = [Stamped(h.publication, h.needs) for h in self.delivery.held()]
        return [Delivered(dict(self.delivery.delivered)), *self.sending.snapshot(held)]

    def explain(self, message: MessageId) -> list[MessageId]:
        waits_for = self.delivery.waits_for(message)
        return [] if waits_for == NOTHING else [waits_for]

    def state_size(self) -> int:
        return len(self.delivery.delivered) + self.sending.size()

    def _accept(self, stamped: Stamped, sender: NodeId, out: Outbox) -> None:
        if self.sending.accept(stamped, sender, out):
            self._arrive(stamped, out)

    def _arrive(self, stamped: Stamped, out: Outbox) -> None:
        arrived = stamped.publication.id
        ready = self.delivery.arrive(stamped.publication, stamped.needs)
        if not ready:
            out.hold(arrived, self.delivery.waits_for(arrived))
        for publication in ready:
            if publication.id != arrived:
                out.release(publication.id)
            out.deliver(publication)

    def _is_mine(self, stamped: Stamped) -> bool:
        return self.sending.seen.has(stamped.publication.id)

    def _was_delivered(self, stamped: Stamped) -> bool:
        origin = origin_of(stamped.publication.id)
        return number_of(stamped.publication.id) <= self.delivery.delivered.get(origin, 0)


def build(setup: Setup) -> VectorClockBroadcast:
    return VectorClockBroadcast(setup.me, ReliableSending(setup, id_of))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # any number may be away; they catch up when they are back


def nothing_is_held(multicast: Multicast) -> bool:
    assert isinstance(multicast, VectorClockBroadcast)
    return not multicast.delivery.held()


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, VectorClockBroadcast)
    return multicast.sending.kept() == 0


def delivered_was_seen(multicast: Multicast) -> bool:
    """Nothing is delivered that is not counted as seen: it would be delivered again."""
    assert isinstance(multicast, VectorClockBroadcast)
    seen = multicast.sending.seen
    delivered = multicast.delivery.delivered
    return all(count <= seen.counts.get(origin, 0) for origin, count in delivered.items())


SPEC = ProtocolSpec(
    name="vector_clock_broadcast",
    summary="One vector clock for everybody (Birman, Schiper, Stephenson 1991).",
    build=build,
    messages=[Stamped, Delivered, *reliable_sending.MESSAGES],
    guarantees=[
        "no_creation",
        "no_duplication",
        "validity",
        "agreement_after_recovery",
        "fifo_order",
        "causal_order",
    ],
    options=reliable_sending.OPTIONS,
    needs=Needs(overlay="static"),
    restart="resume",
    tolerates=tolerates,
    invariants=[delivered_was_seen],
    at_rest=[nothing_is_held, nothing_is_kept],
    rare=reliable_sending.RARE,
    cost="one entry per origin heard of: up to n - 1 entries of 2 to 10 bytes",
    offers=["explain"],
)
