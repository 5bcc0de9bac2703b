"""First generation: a publication brings everything its receivers might lack.

V. Hadzilacos, S. Toueg, "A modular approach to fault-tolerant broadcasts and related problems",
1994, after the idea of the first CBCAST (K. Birman, T. Joseph, 1987); as told by de Juan-Marín et
al., "Scalability approaches for causal multicast: a survey", 2016, section 3.1 (figures 3 and 4).

A packet carries, before the new publication, all publications that its origin has delivered since
its last one. A receiver takes the packets of each origin in their order and delivers from each what
it has not delivered yet. Nothing ever waits for a cause, for the causes are in the packet; what it
costs is that bodies travel many times.

Where we differ from the paper, and why
- The paper stands on a reliable FIFO multicast. Below it is `reliable_sending`: packets
  are persisted, passed on, acknowledged and repeated; one that arrives before an earlier one of its
  origin waits for that, which is the FIFO multicast's waiting and no causal one.
- What a node has to carry grows with what is delivered between two publications of its own, without
  a bound, as in the paper: who never publishes carries everything. Such a node should not be here.
"""

from causalcast.core import (
    CAUSAL_WHEN_ALL_ARE_BACK,
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
from causalcast.parts.broadcast import reliable_sending
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery
from causalcast.parts.vector_clock import VectorClock


class Packet(Message):
    """What the origin delivered since its last packet, and last its own new publication.

    The receiver delivers what it has not delivered yet, in this order, and passes the packet on.
    """

    wire = Wire("first_generation.packet", publications=list[Publication])

    def __init__(self, publications: list[Publication]) -> None:
        self.publications = publications


class Progress(Message):
    """Record of a snapshot: what was delivered, which packets were taken, what is to be carried."""

    wire = Wire(
        "first_generation.progress",
        delivered=dict[NodeId, int],
        packets=dict[NodeId, int],
        recent=list[Publication],
    )

    def __init__(
        self, delivered: VectorClock, packets: VectorClock, recent: list[Publication]
    ) -> None:
        self.delivered = delivered
        self.packets = packets
        self.recent = recent


def id_of(message: Message) -> MessageId:
    """A packet is known by the publication it was made for."""
    assert isinstance(message, Packet)
    return message.publications[-1].id


class FirstGeneration(Multicast):
    """What was delivered, what of it the next packet carries, and packets that came too early."""

    def __init__(self, me: NodeId, sending: ReliableSending) -> None:
        self.me = me
        self.sending = sending
        self.delivered: VectorClock = {}
        self.recent: list[Publication] = []  # delivered since the last own publication
        self.fifo = CausalDelivery()  # of packets, which need only the ones before
        self._early: dict[MessageId, Packet] = {}

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.1, figure 3: it carries what was delivered since the last one.
        self._accept(Packet([*self.recent, publication]), self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.1, figure 3: take packets in order, and deliver what is new in each.
        if not isinstance(message, Packet):
            self.sending.on_message(sender, message, out)
        elif not message.publications or self._is_forged(message):
            out.note("first_generation.forged", sender)
        else:
            self._accept(message, sender, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper, which stands on a reliable multicast: repeat.
        self.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper, which stands on a reliable multicast: catch up.
        self.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper, which stands on a reliable multicast: keep what it lacks.
        self.sending.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: others bring what a dead origin cannot.
        self.sending.on_suspect(peer, out)

    def kept_bytes(self) -> int:
        return self.sending.kept_bytes + self.sending.safe.kept_bytes

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: it can be asked again.
        self.sending.on_trust(peer, out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which nobody comes back.
        for record in records:
            if isinstance(record, Progress):
                self.delivered = dict(record.delivered)
                self.fifo.delivered = dict(record.packets)
                self.recent = list(record.recent)
                continue
            packet = self.sending.restore(record)
            if isinstance(packet, Packet) and not self._was_taken(packet):
                self._take_in_order(packet)  # its deliveries stand in the same entries

    def snapshot(self) -> list[Message]:
        early: list[Message] = [*self._early.values()]
        packets = dict(self.fifo.delivered)
        progress = Progress(dict(self.delivered), packets, list(self.recent))
        return [progress, *self.sending.snapshot(early)]

    def explain(self, message: MessageId) -> list[MessageId]:
        waits_for = self.fifo.waits_for(message)
        return [] if waits_for == NOTHING else [waits_for]

    def state_size(self) -> int:
        return len(self.delivered) + len(self.recent) + self.sending.size()

    def _accept(self, packet: Packet, sender: NodeId, out: Outbox) -> None:
        if not self.sending.accept(packet, sender, out):
            return
        newest = packet.publications[-1].id
        early = list(self._early)
        ready = self._take_in_order(packet)
        if newest in self._early:
            out.hold(newest, self.fifo.waits_for(newest))
        for waited in early:
            if waited not in self._early:
                out.release(waited)
        for publication in ready:
            out.deliver(publication)

    def _take_in_order(self, packet: Packet) -> list[Publication]:
        """Take this packet and those that waited for it; what is new in them comes back."""
        newest = packet.publications[-1]
        self._early[newest.id] = packet
        new: list[Publication] = []
        for held in self.fifo.arrive(newest, {}):
            new += self._take(self._early.pop(held.publication.id))
        return new

    def _take(self, packet: Packet) -> list[Publication]:
        new = [p for p in packet.publications if self._is_new(p)]
        for publication in new:
            self.delivered[origin_of(publication.id)] = number_of(publication.id)
        self.recent += new
        if origin_of(packet.publications[-1].id) == self.me:
            self.recent = []
        return new

    def _is_new(self, publication: Publication) -> bool:
        return number_of(publication.id) > self.delivered.get(origin_of(publication.id), 0)

    def _was_taken(self, packet: Packet) -> bool:
        newest = packet.publications[-1].id
        return number_of(newest) <= self.fifo.delivered.get(origin_of(newest), 0)

    def _is_forged(self, packet: Packet) -> bool:
        newest = packet.publications[-1].id
        return origin_of(newest) == self.me and not self.sending.seen.has(newest)


def build(setup: Setup) -> FirstGeneration:
    return FirstGeneration(setup.me, ReliableSending(setup, id_of))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # any number may be away; they catch up when they are back


def no_packet_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, FirstGeneration)
    return not multicast._early


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, FirstGeneration)
    return multicast.sending.kept() == 0


def packets_are_delivered(multicast: Multicast) -> bool:
    """Whoever took a packet has delivered the publication it was made for."""
    assert isinstance(multicast, FirstGeneration)
    taken = multicast.fifo.delivered.items()
    return all(multicast.delivered.get(origin, 0) >= count for origin, count in taken)


SPEC = ProtocolSpec(
    name="first_generation",
    summary="A packet brings all that its origin delivered since its last one (Hadzilacos, Toueg).",
    build=build,
    messages=[Packet, Progress, *reliable_sending.MESSAGES],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=reliable_sending.OPTIONS,
    needs=Needs(overlay="static"),
    restart="resume",
    tolerates=tolerates,
    invariants=[packets_are_delivered],
    at_rest=[no_packet_waits, nothing_is_kept],
    rare=reliable_sending.RARE,
    events=reliable_sending.EVENTS,
    cost="k bodies and k * 4 to 18 bytes, for k publications delivered since the origin's last one",
    offers=["explain", "new_groups", "made_groups", "states"],
)
