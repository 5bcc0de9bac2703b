"""Causal broadcast by stamps: every node gets everything, and holds what lacks a cause.

A publication carries, as counts per origin, what must be delivered before it. Which causes are
named is what protocols differ in: all of them, those that changed since the last publication, or
only the direct ones; `causes_of_next` decides. Everything else is the same and stands here: copies
are persisted, passed on, acknowledged and repeated by `reliable_sending`, a copy whose causes are
missing waits in `causal_delivery`, and a node that was away catches up.

Everybody gets everything and hands to its application what is for its groups: so order holds across
overlapping groups, and a chain of causes may run through groups a node is not in.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core.automaton import Multicast
from causalcast.core.ids import LinkId, MessageId, NodeId, number_of, origin_of
from causalcast.core.message import SHORT_BODY, Message, Publication, Single, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Invariant
from causalcast.parts.broadcast import reliable_sending
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery
from causalcast.parts.vector_clock import VectorClock


class Stamped(Single):
    """A publication and what must be delivered before: deliver it after those, and pass it on."""

    __slots__ = ("needs",)

    wire = Wire("stamped_broadcast.stamped", publication=Publication, needs=dict[NodeId, int])

    def __init__(self, publication: Publication, needs: VectorClock) -> None:
        self.publication = publication
        self.needs = needs

    def continues(self, before: Single) -> bool:
        """Nothing was delivered in between: what it needs is the same."""
        mine, other = self.publication, before.publication
        return (
            isinstance(before, Stamped)
            and mine.id == other.id + 1
            and mine.group == other.group
            and len(mine.body) <= SHORT_BODY
            and len(other.body) <= SHORT_BODY
            and self.needs == before.needs
        )

    def around(self, publication: Publication) -> "Stamped":
        return Stamped(publication, self.needs)


class Delivered(Message):
    """Record of a snapshot: how many publications of each origin were delivered."""

    wire = Wire("stamped_broadcast.delivered", counts=dict[NodeId, int])

    def __init__(self, counts: VectorClock) -> None:
        self.counts = counts


MESSAGES: Final = [Stamped, Delivered, *reliable_sending.MESSAGES]
OPTIONS: Final = reliable_sending.OPTIONS
RARE: Final = reliable_sending.RARE
EVENTS: Final = reliable_sending.EVENTS


def id_of(message: Message) -> MessageId:
    """Under which id a message is repeated and recognised."""
    assert isinstance(message, Stamped)
    return message.publication.id


def size_of(message: Message) -> int:
    """How many bytes a message that waits to be sent stands for."""
    assert isinstance(message, Stamped)
    return len(message.publication.body) + 10 * len(message.needs)


@mypyc_attr(allow_interpreted_subclasses=True)
class StampedBroadcast(Multicast):
    """What was delivered and what is held, above neighbours that are sent to until they have it."""

    def __init__(self, me: NodeId, sending: ReliableSending) -> None:
        self.me = me
        self.sending = sending
        self.delivery = CausalDelivery()

    # What a protocol decides

    def causes_of_next(self) -> VectorClock:
        """What the next publication here must name; the earlier ones of this node are implied."""
        raise AssertionError("a protocol must say which causes it names")

    def on_delivered(self, publication: Publication, needs: VectorClock) -> None:
        """A publication was delivered here, now or before a restart."""

    # What the node is told

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        self._accept(Stamped(publication, self.causes_of_next()), self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if not isinstance(message, Stamped):
            self.sending.on_message(sender, message, out)
        elif origin_of(message.publication.id) == self.me and not self._is_mine(message):
            out.note("stamped_broadcast.forged", sender)
        else:
            self._accept(message, sender, out)

    def on_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> None:
        """If they are what is next in every respect, counts say all there is to say of them."""
        start, end = publications[0].id, publications[-1].id
        size = sum(len(publication.body) for publication in publications)

        def one_by_one() -> list[Message]:
            return [first.around(publication) for publication in publications]

        if (
            isinstance(first, Stamped)
            and self.delivery.is_next(start, first.needs)
            and self.sending.accepts_run(start, end, one_by_one, size, sender, out)
        ):
            self.delivery.delivered[origin_of(end)] = number_of(end)
            for publication in publications:
                self.on_delivered(publication, first.needs)
                out.deliver(publication)
        else:
            for message in one_by_one():
                self.on_message(sender, message, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        self.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.sending.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        self.sending.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        self.sending.on_trust(peer, out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # What was accepted decides what was delivered; the deliveries stand in the same entries
        # of the journal, so nothing is delivered again here.
        for record in records:
            self.restore(record)

    def restore(self, record: Message) -> None:
        """Take in one record after a restart; protocols with records of their own add to this."""
        if isinstance(record, Delivered):
            self.delivery.delivered = dict(record.counts)
            return
        accepted = self.sending.restore(record)
        if isinstance(accepted, Stamped) and not self._was_delivered(accepted):
            self._arrive(accepted)

    def snapshot(self) -> list[Message]:
        held: list[Message] = [Stamped(h.publication, h.needs) for h in self.delivery.held()]
        return [Delivered(dict(self.delivery.delivered)), *self.sending.snapshot(held)]

    def explain(self, message: MessageId) -> list[MessageId]:
        waits_for = self.delivery.waits_for(message)
        return [] if waits_for == NOTHING else [waits_for]

    def waiting_bytes(self) -> int:
        return self.sending.waiting_bytes()

    def kept_bytes(self) -> int:
        return self.sending.kept_bytes + self.sending.safe.kept_bytes

    def furthest(self, origin: NodeId) -> int:
        return self.sending.furthest(origin)

    def state_size(self) -> int:
        return len(self.delivery.delivered) + self.sending.size()

    def _accept(self, stamped: Stamped, sender: NodeId, out: Outbox) -> None:
        if not self.sending.accept(stamped, sender, out):
            return
        if self.delivery.passes(stamped.publication, stamped.needs):
            self.on_delivered(stamped.publication, stamped.needs)
            out.deliver(stamped.publication)
            return
        arrived = stamped.publication.id
        ready = self._arrive(stamped)
        if not ready:
            out.hold(arrived, self.delivery.waits_for(arrived))
        for publication in ready:
            if publication.id != arrived:
                out.release(publication.id)
            out.deliver(publication)

    def _arrive(self, stamped: Stamped) -> list[Publication]:
        """What may be delivered now that this one is here."""
        ready = self.delivery.arrive(stamped.publication, stamped.needs)
        for held in ready:
            self.on_delivered(held.publication, held.needs)
        return [held.publication for held in ready]

    def _is_mine(self, stamped: Stamped) -> bool:
        return self.sending.seen.has(stamped.publication.id)

    def _was_delivered(self, stamped: Stamped) -> bool:
        origin = origin_of(stamped.publication.id)
        return number_of(stamped.publication.id) <= self.delivery.delivered.get(origin, 0)


def tolerates(down: list[NodeId], setup: object) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True


def nothing_is_held(multicast: Multicast) -> bool:
    assert isinstance(multicast, StampedBroadcast)
    return not multicast.delivery.held()


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, StampedBroadcast)
    return multicast.sending.kept() == 0


def delivered_was_seen(multicast: Multicast) -> bool:
    """Nothing is delivered that is not counted as seen: it would be delivered again."""
    assert isinstance(multicast, StampedBroadcast)
    seen = multicast.sending.seen
    delivered = multicast.delivery.delivered
    return all(count <= seen.counts.get(origin, 0) for origin, count in delivered.items())


INVARIANTS: Final[list[Invariant]] = [delivered_was_seen]
AT_REST: Final[list[Invariant]] = [nothing_is_held, nothing_is_kept]
