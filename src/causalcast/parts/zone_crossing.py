"""How units cross from one zone into the next, through one server or several side by side.

Every server of a joint delivers all units of its zone, in an order of its own in which causes come
before effects. The order of the first server, the lead, is the one in which units cross. The lead
asks the other servers in turn to carry a unit; so all channels are used. What the lead publishes
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
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Envelope, Message, Publication, Wire
from causalcast.parts.vector_clock import VectorClock, covers
from causalcast.parts.zone_map import Joint
from causalcast.parts.zone_unit import Unit, unpacked


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
        try:
            unit = unpacked(self.unit)
        except (IndexError, ValueError):
            return []
        return [] if unit.joined else [unit.publication]


@final
class Carry(Message):
    """Bring a unit, which you have or will have, to this server, as the lead's `place`-th."""

    wire = Wire(
        "zone_crossing.carry",
        to=NodeId,
        place=int,
        after=dict[NodeId, int],
        origin=NodeId,
        number=int,
    )

    def __init__(
        self, to: NodeId, place: int, after: VectorClock, origin: NodeId, number: int
    ) -> None:
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
class JointState(Message):
    """Record of a snapshot: units so far, and what the servers at the other side have."""

    wire = Wire(
        "zone_crossing.joint_state",
        there=int,
        places=int,
        arrived=dict[NodeId, int],
        has=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self, there: int, places: int, arrived: VectorClock, has: dict[NodeId, VectorClock]
    ) -> None:
        self.there = there
        self.places = places
        self.arrived = arrived
        self.has = has


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


MESSAGES: Final = [Arrivals, Crossing, Carry, JointState, KeptUnit, WaitingUnit]


@final
class Kept:
    """A unit that some server at the other side may lack, and by whom it was sent to whom."""

    def __init__(self, unit: Unit, sent: dict[NodeId, NodeId]) -> None:
        self.unit = unit
        self.sent = sent  # partner -> carrier, on this server's order


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

    def __init__(self, me: NodeId, here: int, joint: Joint) -> None:
        self.me = me
        self.here = here
        self.there = joint.other(here)
        self.servers = joint.servers[here]
        self.pair_of = dict(zip(self.servers, joint.servers[self.there], strict=True))
        self.partners = joint.servers[self.there]
        self.doubted: dict[NodeId, None] = {}  # servers believed to be down
        self.places = 0
        self.kept: dict[int, Kept] = {}  # by place
        self.to_carry: dict[NodeId, list[Carry]] = {}  # by lead, in its order
        self.has: dict[NodeId, VectorClock] = {peer: {} for peer in self.partners}
        self.arrived: VectorClock = {}  # of what came from there, in this zone
        self.told: VectorClock = {}  # what the servers there know of what was delivered here
        self.waiting: dict[tuple[NodeId, NodeId], dict[int, Crossing]] = {}  # sender and lead

    # Towards the other zone

    def leave(self, unit: Unit) -> None:
        """A unit of this zone is to cross."""
        self.places += 1
        self.kept[self.places] = Kept(unit, {})
        self._forget_if_there(self.places)  # another server may have been faster

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
        self.to_carry.setdefault(lead, []).append(carry)

    def next_sending(self, at_least: int) -> Sending | None:
        """The next thing to send, of units from this place on; then `mark_sent` it."""
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
        carrier, partner = self._way(place, kept.unit, self.doubted)
        if kept.sent.get(partner) == carrier or self._is_there(partner, kept.unit):
            return None
        unit, after = kept.unit, self._named(carrier, partner, place)
        planned = self._way(place, unit, {})
        instead = self.servers[0] != self.me or planned != (carrier, partner)
        if carrier == self.me:
            return Sending(partner, Crossing(self.me, place, after, unit.packed()), instead)
        return Sending(carrier, Carry(partner, place, after, unit.origin, unit.number), instead)

    def _way(self, place: int, unit: Unit, doubted: dict[NodeId, None]) -> tuple[NodeId, NodeId]:
        """Who brings a unit to whom: channels in turn, those with a doubted end left out.

        What began here is left to another server, who must have it first: if this one dies, its
        words are not in the other zone alone.
        """
        turn = place % len(self.servers)
        in_turn = [
            peer for peer in self.servers[turn:] + self.servers[:turn] if peer not in doubted
        ]
        if unit.origin == self.me and in_turn != [self.me]:
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
            self._forget_if_there(place)

    def _forget_if_there(self, place: int) -> None:
        """Keep no longer what every server there has, or is brought by this one."""
        kept = self.kept[place]
        if all(
            kept.sent.get(partner) == self.me or self._is_there(partner, kept.unit)
            for partner in self.partners
        ):
            del self.kept[place]

    # From the other zone

    def arrive(self, sender: NodeId, crossing: Crossing) -> None:
        """Something came across."""
        self.waiting.setdefault((sender, crossing.lead), {})[crossing.place] = crossing

    def ready(self, seen: VectorClock) -> Crossing | None:
        """The next of what came across that may be published here; it waits no longer."""
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
        return len(self.servers) > 1 and seen != self.told

    def news(self, seen: VectorClock) -> VectorClock:
        """What was delivered here and not told; from here on it is told."""
        news = {node: count for node, count in seen.items() if self.told.get(node) != count}
        self.told.update(news)
        return news

    # Snapshots

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        has = {partner: dict(counts) for partner, counts in self.has.items()}
        records: list[Message] = [JointState(self.there, self.places, dict(self.arrived), has)]
        for place, kept in self.kept.items():
            records.append(KeptUnit(self.there, place, dict(kept.sent), kept.unit.packed()))
        for (sender, _), queue in self.waiting.items():
            records += [WaitingUnit(self.there, sender, crossing) for crossing in queue.values()]
        for lead, carries in self.to_carry.items():
            records += [WaitingUnit(self.there, lead, carry) for carry in carries]
        return records

    def restore(self, record: Message) -> None:
        """Take in a record of a snapshot."""
        if isinstance(record, JointState):
            self.places = record.places
            self.arrived = dict(record.arrived)
            self.has.update({peer: dict(counts) for peer, counts in record.has.items()})
        elif isinstance(record, KeptUnit):
            self.kept[record.place] = Kept(unpacked(record.unit), dict(record.sent))
        elif isinstance(record, WaitingUnit):
            if isinstance(record.content, Carry):
                self.on_carry(record.sender, record.content)
            else:
                assert isinstance(record.content, Crossing)
                self.arrive(record.sender, record.content)
