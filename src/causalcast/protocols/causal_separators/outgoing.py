"""Units on their way from one zone to the next, as one server of the joint sees them.

All servers keep what some server at the other side may lack. The lead plans by whom each unit is
brought to whom, and asks the others to carry their share.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.limits import Limit
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.vector_clock import VectorClock, merge
from causalcast.protocols.causal_separators.crossing_messages import Arrivals, Carry, Crossing
from causalcast.protocols.causal_separators.zone_map import Joint
from causalcast.protocols.causal_separators.zone_unit import Unit

# So many units go the same way before it is another's turn: where the way changes, a unit waits at
# its end until its zone has brought the one before. With turns of 1 it was 40 times the latency.
IN_A_ROW: Final = Limit(
    "protocols.causal_separators.outgoing.in_a_row",
    16,
    least=1,
    most=1 << 16,
    unit="units",
    about="units that one server carries before it is another's turn",
)


@final
class JointEnds:
    """The servers at both ends of a joint, and those of them that seem to be down."""

    def __init__(self, me: NodeId, here: int, joint: Joint) -> None:
        self.me = me
        self.here = here
        self.there = joint.other(here)
        self.servers = joint.servers[here]
        self.partners = joint.servers[self.there]
        self.pair_of = dict(zip(self.servers, self.partners, strict=True))
        self.doubted: dict[NodeId, None] = {}  # servers believed to be down

    def lead(self) -> NodeId:
        """The server in whose order units cross, as this server sees it."""
        return next((peer for peer in self.servers if peer not in self.doubted), self.me)

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
class Outgoing:
    """What is kept for the other side, who has what there, and what to carry for the lead."""

    def __init__(self, ends: JointEnds) -> None:
        self.ends = ends
        self.places = 0
        self.turn = 0  # whose it is to carry
        self.in_a_row = 0  # units of this turn
        self.kept: dict[int, Kept] = {}  # by place
        self.kept_bytes = 0  # that these take, roughly
        self.to_carry: dict[NodeId, list[Carry]] = {}  # by lead, in its order
        self.has: dict[NodeId, VectorClock] = {peer: {} for peer in ends.partners}
        # What went to them on this server's own channel, and may be on its way.
        self.brought: dict[NodeId, VectorClock] = {peer: {} for peer in ends.partners}

    # What is to cross

    def leave(self, unit: Unit) -> None:
        """A unit of this zone is to cross."""
        self.places += 1
        self.keep(self.places, Kept(unit, {}, self._turn_for(unit)))
        self._forget_if_there(self.places)  # another server may have been faster

    def begin_with(self, cut: Unit, counts: VectorClock) -> None:
        """Of what was kept so far, what is in `counts` does not cross, all else does, after the
        cut."""
        units = [cut]
        for kept in self.kept.values():
            if kept.unit.number > counts.get(kept.unit.origin, 0):
                units.append(kept.unit)
        self.kept = {
            place: Kept(unit, {}, self._turn_for(unit)) for place, unit in enumerate(units, 1)
        }
        self.kept_bytes = sum(kept.weight for kept in self.kept.values())
        self.places = len(units)
        for place in list(self.kept):  # another server may have been faster
            self._forget_if_there(place)

    def keep(self, place: int, kept: Kept) -> None:
        """Keep a unit until every server at the other side has it."""
        self.kept[place] = kept
        self.kept_bytes += kept.weight

    def _turn_for(self, unit: Unit) -> int:
        """Whose turn it is to carry a unit; what began here is left to another server."""
        for_another = unit.origin == self.ends.me == self.ends.servers[self.turn]
        if self.in_a_row == IN_A_ROW.value or for_another:
            self.turn = (self.turn + 1) % len(self.ends.servers)
            self.in_a_row = 0
        self.in_a_row += 1
        return self.turn

    def is_empty(self) -> bool:
        """Whether nothing is left to bring across."""
        return not self.kept and not any(self.to_carry.values())

    # Who brings what

    def next_sending(self, epoch: int, arrived: VectorClock, at_least: int) -> Sending | None:
        """The next thing to send, of units from this place on; then `mark_sent` it. `arrived`: what
        came from the other zone."""
        if self.ends.lead() == self.ends.me:
            for place, kept in self.kept.items():
                if place >= at_least:
                    sending = self._due(place, kept, epoch, arrived)
                    if sending is not None:
                        return sending
        return self._due_to_carry()

    def _due(self, place: int, kept: Kept, epoch: int, arrived: VectorClock) -> Sending | None:
        """What to send so that a unit crosses; None if it is there, or on its way."""
        for partner, carrier in kept.sent.items():
            if partner not in self.ends.doubted and carrier not in self.ends.doubted:
                return None
        carrier, partner = self._way(kept, self.ends.doubted)
        if kept.sent.get(partner) == carrier or self._is_there(partner, kept.unit):
            return None
        unit, after = kept.unit, self._named(carrier, partner, place, arrived)
        planned = self._way(kept, {})
        instead = self.ends.servers[0] != self.ends.me or planned != (carrier, partner)
        if carrier == self.ends.me:
            return Sending(partner, Crossing(self.ends.me, place, after, unit.packed()), instead)
        carry = Carry(epoch, partner, place, after, unit.origin, unit.number)
        return Sending(carrier, carry, instead)

    def _way(self, kept: Kept, doubted: dict[NodeId, None]) -> tuple[NodeId, NodeId]:
        """Who brings a unit to whom: channels in turn, those with a doubted end left out.

        A unit published by this server is carried by another one that has delivered it before. So
        if this server dies, the unit is never in the other zone only.
        """
        in_turn = self.ends.servers[kept.turn :] + self.ends.servers[: kept.turn]
        in_turn = [peer for peer in in_turn if peer not in doubted]
        if kept.unit.origin == self.ends.me and in_turn != [self.ends.me]:
            in_turn.remove(self.ends.me)
        for carrier in in_turn:
            if self.ends.pair_of[carrier] not in doubted:
                return carrier, self.ends.pair_of[carrier]
        others = [partner for partner in self.ends.partners if partner not in doubted]
        carrier = self.ends.me if self.ends.me in in_turn else in_turn[0]
        return carrier, others[0] if others else self.ends.pair_of[carrier]

    def _named(
        self, carrier: NodeId, partner: NodeId, place: int, arrived: VectorClock
    ) -> VectorClock:
        """What comes before and may reach this partner on other ways only."""
        has = self.has[partner]
        named: VectorClock = {}
        if len(self.ends.servers) > 1:  # else this partner brought it here itself
            named = {who: count for who, count in arrived.items() if count > has.get(who, 0)}
            if carrier != self.ends.me:
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

    # What the other side has

    def mark_sent(self, to: NodeId, content: Message) -> None:
        """Remember that something was sent; the link repeats it until it arrives."""
        if isinstance(content, Carry):
            self._mark(content.place, content.to, to)
        elif isinstance(content, Crossing) and content.lead == self.ends.me:
            self._mark(content.place, to, self.ends.me)
        elif isinstance(content, Crossing):
            queue = self.to_carry.get(content.lead, [])
            rest = [carry for carry in queue if (carry.to, carry.place) != (to, content.place)]
            self.to_carry[content.lead] = rest

    def on_arrivals(self, sender: NodeId, arrivals: Arrivals) -> None:
        """A server at the other side says what it has."""
        # Not in the papers: what is kept in case that a server crashes, and for how long.
        self.has[sender].update(arrivals.counts)
        for place in list(self.kept):
            self._forget_if_there(place)

    def _is_there(self, partner: NodeId, unit: Unit) -> bool:
        return unit.number <= self.has[partner].get(unit.origin, 0)

    def _mark(self, place: int, partner: NodeId, carrier: NodeId) -> None:
        kept = self.kept.get(place)
        if kept is not None:
            kept.sent[partner] = carrier
            if carrier == self.ends.me:
                merge(self.brought[partner], {kept.unit.origin: kept.unit.number})
            self._forget_if_there(place)

    def _forget_if_there(self, place: int) -> None:
        """Forget a unit that every server at the other side has, or is brought by this one."""
        kept = self.kept[place]
        if all(
            kept.sent.get(partner) == self.ends.me or self._is_there(partner, kept.unit)
            for partner in self.ends.partners
        ):
            del self.kept[place]
            self.kept_bytes -= kept.weight
