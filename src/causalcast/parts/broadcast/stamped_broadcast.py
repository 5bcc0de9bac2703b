"""Causal broadcast by stamps: every node gets everything, and holds what lacks a cause.

A publication carries, as counts per origin, what must be delivered before it. Which causes are
named is what protocols differ in: all of them, those that changed since the last publication, or
only the direct ones. What is the same stands here, and a protocol has it: copies are persisted,
passed on, acknowledged and repeated by `reliable_sending`, a copy whose causes are missing waits in
`causal_delivery`, and a node that was away catches up.

Everybody gets everything and hands to its application what is for its groups: so order holds across
overlapping groups, and a chain of causes may run through groups a node is not in.
"""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.automaton import Multicast
from causalcast.core.ids import LinkId, MessageId, NodeId, number_of, origin_of
from causalcast.core.message import SHORT_BODY, Message, Publication, Single, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Invariant, Setup
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
            and len(mine.body) <= SHORT_BODY.value
            and len(other.body) <= SHORT_BODY.value
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


@final
class StampedBroadcast:
    """What was delivered and what is held, above neighbours that are sent to until they have it."""

    def __init__(
        self,
        setup: Setup,
        for_link: Callable[[NodeId, Message], tuple[Message, LinkId]] | None = None,
    ) -> None:
        """`for_link` puts a copy into the form in which it leaves on the link to a peer."""
        self.me = setup.me
        self.sending = ReliableSending(setup, id_of, for_link, size_of)
        self.delivery = CausalDelivery()

    def publish(self, publication: Publication, causes: VectorClock, out: Outbox) -> list[Stamped]:
        """Send an own publication that follows `causes` to everybody; what may be delivered now."""
        return self._accept(Stamped(publication, causes), self.me, out)

    def arrived(self, sender: NodeId, message: Message, out: Outbox) -> list[Stamped]:
        """A message came. What may be delivered now that it is here: first itself, then what waited
        for it, causes before effects."""
        if not isinstance(message, Stamped):
            self.sending.on_message(sender, message, out)
            return []
        if origin_of(message.publication.id) == self.me and not self._is_mine(message):
            out.note("stamped_broadcast.forged", sender)
            return []
        return self._accept(message, sender, out)

    def takes_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> bool:
        """Take in a run at once, if it is what is next in every respect: counts say all there is to
        say of it, and all of it may be delivered. Else nothing happens, and False."""
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
            return True
        return False

    def restore(self, record: Message) -> list[Stamped]:
        """Take in one record after a restart; what was delivered then comes back, in order.

        Its deliveries stand in the same entries of the journal, so nothing is delivered again.
        """
        if isinstance(record, Delivered):
            self.delivery.delivered = dict(record.counts)
            return []
        accepted = self.sending.restore(record)
        if isinstance(accepted, Stamped) and not self._was_delivered(accepted):
            return self._ready_with(accepted)
        return []

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        held: list[Message] = [Stamped(h.publication, h.needs) for h in self.delivery.held()]
        return [Delivered(dict(self.delivery.delivered)), *self.sending.snapshot(held)]

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a held publication waits for."""
        waits_for = self.delivery.waits_for(message)
        return [] if waits_for == NOTHING else [waits_for]

    def kept_bytes(self) -> int:
        """Bytes of what some neighbour may lack."""
        return self.sending.kept_bytes + self.sending.safe.kept_bytes

    def size(self) -> int:
        """Entries kept."""
        return len(self.delivery.delivered) + self.sending.size()

    def _accept(self, stamped: Stamped, sender: NodeId, out: Outbox) -> list[Stamped]:
        if not self.sending.accept(stamped, sender, out):
            return []
        if self.delivery.passes(stamped.publication, stamped.needs):
            return [stamped]
        ready = self._ready_with(stamped)
        if not ready:
            arrived = stamped.publication.id
            out.hold(arrived, self.delivery.waits_for(arrived))
        return ready

    def _ready_with(self, stamped: Stamped) -> list[Stamped]:
        ready = self.delivery.arrive(stamped.publication, stamped.needs)
        return [Stamped(held.publication, held.needs) for held in ready]

    def _is_mine(self, stamped: Stamped) -> bool:
        return self.sending.seen.has(stamped.publication.id)

    def _was_delivered(self, stamped: Stamped) -> bool:
        origin = origin_of(stamped.publication.id)
        return number_of(stamped.publication.id) <= self.delivery.delivered.get(origin, 0)


def deliver(ready: list[Stamped], out: Outbox) -> None:
    """Hand to the application what came and what had waited for it."""
    for place, stamped in enumerate(ready):
        if place > 0:
            out.release(stamped.publication.id)
        out.deliver(stamped.publication)


def broadcast_of(multicast: Multicast) -> StampedBroadcast:
    """That of a protocol which has one under the name `broadcast`."""
    broadcast = getattr(multicast, "broadcast", None)
    assert isinstance(broadcast, StampedBroadcast)
    return broadcast


def tolerates(down: list[NodeId], setup: object) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True


def nothing_is_held(multicast: Multicast) -> bool:
    return not broadcast_of(multicast).delivery.held()


def nothing_is_kept(multicast: Multicast) -> bool:
    return broadcast_of(multicast).sending.kept() == 0


def delivered_was_seen(multicast: Multicast) -> bool:
    """Nothing is delivered that is not counted as seen: it would be delivered again."""
    broadcast = broadcast_of(multicast)
    seen = broadcast.sending.seen
    delivered = broadcast.delivery.delivered
    return all(count <= seen.counts.get(origin, 0) for origin, count in delivered.items())


INVARIANTS: Final[list[Invariant]] = [delivered_was_seen]
AT_REST: Final[list[Invariant]] = [nothing_is_held, nothing_is_kept]
