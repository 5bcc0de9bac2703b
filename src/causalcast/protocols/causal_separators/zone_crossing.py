"""How units cross from one zone into the next, through one server or several side by side.

Every server of a joint delivers all units of its zone, in an order of its own in which causes come
before effects. The order of the first server, the lead, is the one in which units cross. The lead
asks the other servers in turn to carry units; so all channels are used. What the lead publishes
itself it leaves to others, so that it does not cross before somebody else in its zone has it.

A unit names, as counts per origin, what may reach the other server on another way only: what comes
before in the lead's order and travels on other channels, and what the lead had from the other zone.
Whoever gets the unit publishes it in its own zone after those. That is all the history that
crosses, and with one channel it is none. (If each server went by its own order, two units that came
to two servers in opposite orders would wait for each other for ever.)

Servers tell the servers at the other side what they have delivered, so that it need not be named.
What not all of them have is kept; so when the lead is doubted, the next server takes its place
and brings, in its own order, all that is not known to be there. Both may bring the same unit then:
counts per origin tell, since units of one origin come in their order. Nothing that a zone has is
lost to the other while one server of each side lives.

A joint opens and closes while the system runs, as `zone_knowledge` tells. Servers of the
two sides say so to one another on the links that units travel on, which keep their order: so each
knows which of the times that the joint was open a unit belongs to, and drops what comes too late.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Envelope, Membership, Message, Publication, Wire
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.vector_clock import VectorClock, covers, merge
from causalcast.protocols.causal_separators.zone_map import Joint
from causalcast.protocols.causal_separators.zone_unit import Unit, unpacked


@final
class Crossing(Envelope):
    """The `place`-th unit in the order of `lead`: publish it in your zone after the named ones.

    Of a sender's units that wait for the same lead, those with smaller places go first.
    """

    wire = Wire(
        "zone_crossing.crossing", lead=NodeId, place=int, after=dict[NodeId, int], unit=bytes
    )

    def __init__(self, lead: NodeId, place: int, after: VectorClock, unit: bytes) -> None:
        self.lead = lead
        self.place = place
        self.after = after
        self.unit = unit

    def carried(self) -> list[Publication]:
        unit = self._unpacked()
        return [unit.publication] if unit is not None and unit.is_publication() else []

    def joins(self, sender: NodeId) -> list[Membership]:
        unit = self._unpacked()
        return [] if unit is None else unit.joins()

    def _unpacked(self) -> Unit | None:
        try:
            return unpacked(self.unit)
        except (IndexError, ValueError):
            return None


@final
class Carry(Message):
    """Bring a unit, which you have or will have, to this server, as the lead's `place`-th."""

    wire = Wire(
        "zone_crossing.carry",
        epoch=int,
        to=NodeId,
        place=int,
        after=dict[NodeId, int],
        origin=NodeId,
        number=int,
    )

    def __init__(
        self, epoch: int, to: NodeId, place: int, after: VectorClock, origin: NodeId, number: int
    ) -> None:
        self.epoch = epoch
        self.to = to
        self.place = place
        self.after = after
        self.origin = origin
        self.number = number


@final
class Arrivals(Message):
    """So many units of these origins were delivered here: forget them, and name them no more."""

    wire = Wire("zone_crossing.arrivals", counts=dict[NodeId, int])

    def __init__(self, counts: VectorClock) -> None:
        self.counts = counts


@final
class Opening(Message):
    """The joint opens for the `epoch`-th time: what follows on this link belongs to that."""

    wire = Wire("zone_crossing.opening", epoch=int)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


@final
class Closing(Message):
    """Nothing more follows; all that had to cross has, unless the joint was `dropped`."""

    wire = Wire("zone_crossing.closing", epoch=int, dropped=bool)

    def __init__(self, epoch: int, dropped: bool) -> None:
        self.epoch = epoch
        self.dropped = dropped


@final
class Turned(Message):
    """Record: this server began to keep units for the `epoch`-th time, or closed."""

    wire = Wire("zone_crossing.turned", there=int, epoch=int, phase=int)

    def __init__(self, there: int, epoch: int, phase: int) -> None:
        self.there = there
        self.epoch = epoch
        self.phase = phase


@final
class JointState(Message):
    """Record of a snapshot: units so far, and what the servers at the other side have."""

    wire = Wire(
        "zone_crossing.joint_state",
        there=int,
        epoch=int,
        phase=int,
        sealed=bool,
        places=int,
        arrived=dict[NodeId, int],
        has=dict[NodeId, dict[NodeId, int]],
        brought=dict[NodeId, dict[NodeId, int]],
        epochs=dict[NodeId, int],
        closed=list[NodeId],
    )

    def __init__(
        self,
        there: int,
        epoch: int,
        phase: int,
        sealed: bool,
        places: int,
        arrived: VectorClock,
        has: dict[NodeId, VectorClock],
        brought: dict[NodeId, VectorClock],
        epochs: dict[NodeId, int],
        closed: list[NodeId],
    ) -> None:
        self.there = there
        self.epoch = epoch
        self.phase = phase
        self.sealed = sealed
        self.places = places
        self.arrived = arrived
        self.has = has
        self.brought = brought
        self.epochs = epochs
        self.closed = closed


@final
class KeptUnit(Message):
    """Record of a snapshot: a unit that a server at the other side may lack."""

    wire = Wire("zone_crossing.kept", there=int, place=int, sent=dict[NodeId, NodeId], unit=bytes)

    def __init__(self, there: int, place: int, sent: dict[NodeId, NodeId], unit: bytes) -> None:
        self.there = there
        self.place = place
        self.sent = sent
        self.unit = unit


@final
class WaitingUnit(Message):
    """Record of a snapshot: this came across and waits, or is to be carried."""

    wire = Wire("zone_crossing.waiting", there=int, sender=NodeId, content=Message)

    def __init__(self, there: int, sender: NodeId, content: Message) -> None:
        self.there = there
        self.sender = sender
        self.content = content


MESSAGES: Final = [
    Arrivals,
    Crossing,
    Carry,
    Opening,
    Closing,
    Turned,
    JointState,
    KeptUnit,
    WaitingUnit,
]

# So many units go the same way before it is another's turn: where the way changes, a unit waits at
# its end until its zone has brought the one before. With turns of 1 it was 40 times the latency.
IN_A_ROW: Final = 16

CLOSED: Final = 0  # phases of a joint, at one server
KEEPING: Final = 1  # until it is known what crosses
OPEN: Final = 2


@final
class Kept:
    """A unit that some server at the other side may lack, and by whom it was sent to whom."""

    def __init__(self, unit: Unit, sent: dict[NodeId, NodeId], turn: int) -> None:
        self.unit = unit
        self.weight = KEPT_OVERHEAD + len(unit.publication.body)  # bytes, roughly
        self.sent = sent  # partner -> carrier, on this server's order
        self.turn = turn  # whose it is, by number


@final
class Sending:
    """What to send to whom; `instead` of what was planned, since somebody is doubted."""

    def __init__(self, to: NodeId, content: Message, instead: bool) -> None:
        self.to = to
        self.content = content
        self.instead = instead


@final
class ZoneCrossing:
    """One joint as one of its servers sees it: what goes there, what came from there."""

    def __init__(self, me: NodeId, here: int, joint: Joint, number: int, is_open: bool) -> None:
        self.me = me
        self.number = number  # of the joint
        self.here = here
        self.there = joint.other(here)
        self.servers = joint.servers[here]
        self.pair_of = dict(zip(self.servers, joint.servers[self.there], strict=True))
        self.partners = joint.servers[self.there]
        self.doubted: dict[NodeId, None] = {}  # servers believed to be down
        self.epoch = int(is_open)
        self.epoch_of = dict.fromkeys(self.partners, self.epoch)  # what they said last
        self._turn(OPEN if is_open else CLOSED)

    def _turn(self, phase: int) -> None:
        """Start anew, with nothing of what was."""
        self.phase = phase
        self.sealed = False  # all on this side are done: nothing more of them has to cross
        self.dropped = False  # to be closed at once
        self.closed: dict[NodeId, None] = {}  # partners that bring nothing more
        self.places = 0
        self.turn = 0  # whose it is to carry
        self.in_a_row = 0  # units of this turn
        self.kept: dict[int, Kept] = {}  # by place
        self.kept_bytes = 0  # that these take, roughly
        self.to_carry: dict[NodeId, list[Carry]] = {}  # by lead, in its order
        self.has: dict[NodeId, VectorClock] = {peer: {} for peer in self.partners}
        # What went to them on this server's own channel, and may be on its way.
        self.brought: dict[NodeId, VectorClock] = {peer: {} for peer in self.partners}
        self.arrived: VectorClock = {}  # of what came from there, in this zone
        self.told: VectorClock = {}  # what the servers there know of what was delivered here
        self.waiting: dict[tuple[NodeId, NodeId], dict[int, Crossing]] = {}  # sender and lead

    # Opening and closing

    def begin(self, epoch: int) -> Turned:
        """Keep from now on what is to cross."""
        self.epoch = epoch
        self._turn(KEEPING)
        return Turned(self.there, self.epoch, self.phase)

    def open(self, cut: Unit, counts: VectorClock) -> None:
        """What is in `counts` does not cross, all else does, after the cut."""
        units = [cut]
        for kept in self.kept.values():
            if kept.unit.number > counts.get(kept.unit.origin, 0):
                units.append(kept.unit)
        self.kept = {
            place: Kept(unit, {}, self._turn_for(unit)) for place, unit in enumerate(units, 1)
        }
        self.kept_bytes = sum(kept.weight for kept in self.kept.values())
        self.places = len(units)
        self.phase = OPEN
        for place in list(self.kept):  # another server may have been faster
            self._forget_if_there(place)

    def close(self) -> Turned:
        """Forget all."""
        self._turn(CLOSED)
        return Turned(self.there, self.epoch, self.phase)

    def on_opening(self, partner: NodeId, epoch: int) -> None:
        """A server at the other side began; so it has ended what was before."""
        # Not in the papers: joints that open and close.
        self.epoch_of[partner] = epoch
        if epoch > self.epoch:
            self.closed[partner] = None

    def on_closing(self, partner: NodeId, closing: Closing) -> None:
        """A server at the other side brings nothing more."""
        # Not in the papers: joints that open and close.
        if closing.epoch == self.epoch and self.phase != CLOSED:
            self.closed[partner] = None
            self.dropped = self.dropped or closing.dropped

    def belongs(self, partner: NodeId) -> bool:
        """Whether what this server at the other side brings now belongs to this opening."""
        return self.phase != CLOSED and self.epoch_of[partner] == self.epoch

    def flows(self) -> bool:
        """Whether units cross: both sides have begun, though some may have ended again."""
        begun = all(epoch >= self.epoch for epoch in self.epoch_of.values())
        return self.phase == OPEN and begun

    def is_emptied(self) -> bool:
        """Whether all that had to cross has, and nothing more will come from there."""
        sent = self.sealed and not self.kept and not any(self.to_carry.values())
        ended = len(self.closed) == len(self.partners) and not self.waiting
        return self.phase != CLOSED and (sent or ended)

    # Towards the other zone

    def leave(self, unit: Unit) -> None:
        """A unit of this zone is to cross."""
        if self.phase == CLOSED or self.sealed:  # it is for the next opening, if for any
            return
        self.places += 1
        self._keep(self.places, Kept(unit, {}, self._turn_for(unit)))
        self._forget_if_there(self.places)  # another server may have been faster

    def _turn_for(self, unit: Unit) -> int:
        """Whose turn it is to carry a unit; what began here is left to another server."""
        for_another = unit.origin == self.me == self.servers[self.turn]
        if self.in_a_row == IN_A_ROW or for_another:
            self.turn = (self.turn + 1) % len(self.servers)
            self.in_a_row = 0
        self.in_a_row += 1
        return self.turn

    def doubt(self, node: NodeId, doubted: bool) -> bool:
        """A server seems to be down, or up again; whether that is news."""
        is_server = node in self.servers or node in self.partners
        if not is_server or doubted == (node in self.doubted):
            return False
        if doubted:
            self.doubted[node] = None
        else:
            del self.doubted[node]
        return True

    def on_carry(self, lead: NodeId, carry: Carry) -> None:
        """The lead asks to bring a unit across."""
        # Section 3.4: several channels between two subgroups keep one FIFO order among them. The
        # rule by which they do is not in the survey.
        if carry.epoch == self.epoch and self.phase != CLOSED:
            self.to_carry.setdefault(lead, []).append(carry)

    def next_sending(self, at_least: int) -> Sending | None:
        """The next thing to send, of units from this place on; then `mark_sent` it."""
        if not self.flows():
            return None
        if self._lead() == self.me:
            for place, kept in self.kept.items():
                if place >= at_least:
                    sending = self._due(place, kept)
                    if sending is not None:
                        return sending
        return self._due_to_carry()

    def mark_sent(self, to: NodeId, content: Message) -> None:
        """It will arrive there: the link repeats it."""
        if isinstance(content, Carry):
            self._mark(content.place, content.to, to)
        elif isinstance(content, Crossing) and content.lead == self.me:
            self._mark(content.place, to, self.me)
        elif isinstance(content, Crossing):
            queue = self.to_carry.get(content.lead, [])
            rest = [carry for carry in queue if (carry.to, carry.place) != (to, content.place)]
            self.to_carry[content.lead] = rest

    def on_arrivals(self, sender: NodeId, arrivals: Arrivals) -> None:
        """A server at the other side has these."""
        # Not in the papers: what is kept in case that a server crashes, and for how long.
        self.has[sender].update(arrivals.counts)
        for place in list(self.kept):
            self._forget_if_there(place)

    def _lead(self) -> NodeId:
        """Whose order units cross in, as this server sees it."""
        return next((peer for peer in self.servers if peer not in self.doubted), self.me)

    def _due(self, place: int, kept: Kept) -> Sending | None:
        """What brings a unit across, unless it is on its way or there already."""
        for partner, carrier in kept.sent.items():
            if partner not in self.doubted and carrier not in self.doubted:
                return None
        carrier, partner = self._way(kept, self.doubted)
        if kept.sent.get(partner) == carrier or self._is_there(partner, kept.unit):
            return None
        unit, after = kept.unit, self._named(carrier, partner, place)
        planned = self._way(kept, {})
        instead = self.servers[0] != self.me or planned != (carrier, partner)
        if carrier == self.me:
            return Sending(partner, Crossing(self.me, place, after, unit.packed()), instead)
        carry = Carry(self.epoch, partner, place, after, unit.origin, unit.number)
        return Sending(carrier, carry, instead)

    def _way(self, kept: Kept, doubted: dict[NodeId, None]) -> tuple[NodeId, NodeId]:
        """Who brings a unit to whom: channels in turn, those with a doubted end left out.

        A unit published by this server is carried by another one that has delivered it before. So
        if this server dies, the unit is never in the other zone only.
        """
        in_turn = self.servers[kept.turn :] + self.servers[: kept.turn]
        in_turn = [peer for peer in in_turn if peer not in doubted]
        if kept.unit.origin == self.me and in_turn != [self.me]:
            in_turn.remove(self.me)
        for carrier in in_turn:
            if self.pair_of[carrier] not in doubted:
                return carrier, self.pair_of[carrier]
        others = [partner for partner in self.partners if partner not in doubted]
        carrier = self.me if self.me in in_turn else in_turn[0]
        return carrier, others[0] if others else self.pair_of[carrier]

    def _named(self, carrier: NodeId, partner: NodeId, place: int) -> VectorClock:
        """What comes before and may reach this partner on other ways only."""
        has = self.has[partner]
        named: VectorClock = {}
        if len(self.servers) > 1:  # else this partner brought it here itself
            named = {who: count for who, count in self.arrived.items() if count > has.get(who, 0)}
            if carrier != self.me:
                own = self.brought[partner].items()
                merge(named, {who: count for who, count in own if count > has.get(who, 0)})
        for earlier, kept in self.kept.items():
            unit = kept.unit
            apart = earlier < place and kept.sent.get(partner) != carrier
            if apart and not self._is_there(partner, unit):
                named[unit.origin] = max(unit.number, named.get(unit.origin, 0))
        return named

    def _due_to_carry(self) -> Sending | None:
        """What the lead asked to carry, in its order, as far as it was delivered here."""
        if not any(self.to_carry.values()):
            return None
        units = {(kept.unit.origin, kept.unit.number): kept.unit for kept in self.kept.values()}
        for lead, queue in self.to_carry.items():
            if queue:
                carry = queue[0]
                unit = units.get((carry.origin, carry.number))
                if unit is not None:
                    crossing = Crossing(lead, carry.place, carry.after, unit.packed())
                    return Sending(carry.to, crossing, False)
        return None

    def drop_carried(self, seen: VectorClock) -> None:
        """Forget requests for units that every server at the other side has by now."""
        if not any(self.to_carry.values()):
            return
        known = {(kept.unit.origin, kept.unit.number) for kept in self.kept.values()}
        for lead, queue in self.to_carry.items():
            self.to_carry[lead] = [
                carry
                for carry in queue
                if (carry.origin, carry.number) in known or carry.number > seen.get(carry.origin, 0)
            ]

    def _is_there(self, partner: NodeId, unit: Unit) -> bool:
        return unit.number <= self.has[partner].get(unit.origin, 0)

    def _mark(self, place: int, partner: NodeId, carrier: NodeId) -> None:
        kept = self.kept.get(place)
        if kept is not None:
            kept.sent[partner] = carrier
            if carrier == self.me:
                merge(self.brought[partner], {kept.unit.origin: kept.unit.number})
            self._forget_if_there(place)

    def _forget_if_there(self, place: int) -> None:
        """Keep no longer what every server there has, or is brought by this one."""
        kept = self.kept[place]
        if all(
            kept.sent.get(partner) == self.me or self._is_there(partner, kept.unit)
            for partner in self.partners
        ):
            del self.kept[place]
            self.kept_bytes -= kept.weight

    def _keep(self, place: int, kept: Kept) -> None:
        self.kept[place] = kept
        self.kept_bytes += kept.weight

    # From the other zone

    def arrive(self, sender: NodeId, crossing: Crossing) -> None:
        """Something came across."""
        self.waiting.setdefault((sender, crossing.lead), {})[crossing.place] = crossing

    def ready(self, seen: VectorClock) -> Crossing | None:
        """The next of what came across that may be published here; it waits no longer."""
        if self.phase != OPEN:
            return None  # what is published here in answer to it would not cross
        for way, queue in self.waiting.items():
            first = queue[min(queue)]
            if covers(seen, first.after):
                del queue[first.place]
                if not queue:
                    del self.waiting[way]
                return first
        return None

    def waits(self, crossing: Crossing) -> bool:
        """Whether it still waits here."""
        return any(crossing in queue.values() for queue in self.waiting.values())

    def count(self, unit: Unit) -> None:
        """A unit that came from there was delivered in this zone."""
        self.arrived[unit.origin] = unit.number

    def has_news(self, seen: VectorClock) -> bool:
        """Whether there is something to tell; a single server has nobody who needs it."""
        return len(self.servers) > 1 and self.flows() and seen != self.told

    def news(self, seen: VectorClock) -> VectorClock:
        """What was delivered here and not told; from here on it is told."""
        news = {node: count for node, count in seen.items() if self.told.get(node) != count}
        self.told.update(news)
        return news

    # Snapshots

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        has = {partner: dict(counts) for partner, counts in self.has.items()}
        state = JointState(
            self.there,
            self.epoch,
            self.phase,
            self.sealed,
            self.places,
            dict(self.arrived),
            has,
            {partner: dict(counts) for partner, counts in self.brought.items()},
            dict(self.epoch_of),
            [*self.closed],
        )
        records: list[Message] = [state]
        for place, kept in self.kept.items():
            records.append(KeptUnit(self.there, place, dict(kept.sent), kept.unit.packed()))
        for (sender, _), queue in self.waiting.items():
            records += [WaitingUnit(self.there, sender, crossing) for crossing in queue.values()]
        for lead, carries in self.to_carry.items():
            records += [WaitingUnit(self.there, lead, carry) for carry in carries]
        return records

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, Turned):
            self.epoch = record.epoch
            self._turn(record.phase)
        elif isinstance(record, JointState):
            self.epoch, self.phase, self.sealed = record.epoch, record.phase, record.sealed
            self.epoch_of = dict(record.epochs)
            self.closed = dict.fromkeys(record.closed)
            self.places = record.places
            self.arrived = dict(record.arrived)
            self.has.update({peer: dict(counts) for peer, counts in record.has.items()})
            self.brought.update({peer: dict(counts) for peer, counts in record.brought.items()})
        elif isinstance(record, KeptUnit):
            self._keep(record.place, Kept(unpacked(record.unit), dict(record.sent), self.turn))
        elif isinstance(record, WaitingUnit):
            if isinstance(record.content, Carry):
                self.on_carry(record.sender, record.content)
            else:
                assert isinstance(record.content, Crossing)
                self.arrive(record.sender, record.content)
