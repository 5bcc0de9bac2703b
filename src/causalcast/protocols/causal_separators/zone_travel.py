"""Units on their way through zones: how they begin, are delivered, and are brought beyond.

A server delivers what its zone delivers, and brings it to the next zone; what comes across is
published in this one. Each unit is counted once, however many servers bring it.
"""

from typing import final

from causalcast.core.ids import NO_MESSAGE, GroupId, NodeId, message_id
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.channels import Channels
from causalcast.protocols.causal_separators.crossing_messages import Crossing
from causalcast.protocols.causal_separators.hosted_zone import HostedZone
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_joining import ZoneJoining, news_in
from causalcast.protocols.causal_separators.zone_knowledge import ZoneKnowledge
from causalcast.protocols.causal_separators.zone_news import News
from causalcast.protocols.causal_separators.zone_unit import (
    JOINED,
    NEWS,
    NOWHERE,
    Unit,
    unpacked,
)


class Entered(Message):
    """Record: this unit was delivered in a zone, for the first time at this node."""

    wire = Wire("causal_separators.entered", zone=int, unit=bytes)

    def __init__(self, zone: int, unit: bytes) -> None:
        self.zone = zone
        self.unit = unit


@final
class ZoneTravel:
    """The zones a node is in, and which units were delivered there."""

    def __init__(
        self,
        me: NodeId,
        zones: dict[int, HostedZone],
        knowledge: ZoneKnowledge,
        joining: ZoneJoining,
        channels: Channels,
        seen: VectorClock,
    ) -> None:
        self.me = me
        self.home = knowledge.home
        self.zones = zones
        self.knowledge = knowledge
        self.joining = joining
        self.channels = channels
        self.crossings = channels.crossings
        self.seen = seen  # per origin: the last unit that was delivered here
        self.units = 0  # that began here
        self.others = 0  # of these: not publications

    # Beginning

    def begin(self, kind: int, local: bool, publication: Publication, out: Outbox) -> None:
        """Let a unit of this node travel; `local` ones stay in its zone."""
        unit = Unit(self.me, self.units + 1, NOWHERE, local, kind, publication)
        home = self.zones[self.home]
        self.pass_on(home, home.publish(unit, out), out)

    def begin_other(self, kind: int, local: bool, group: GroupId, body: bytes, out: Outbox) -> None:
        """Let something travel that is no publication; it is after all that was published here."""
        last = message_id(self.me, self.units - self.others)
        self.begin(kind, local, Publication(last, group, body), out)

    def tell(self, news: News, local: bool, out: Outbox) -> None:
        """Let news travel with publications, inside the zone or everywhere."""
        self.begin_other(NEWS, local, GroupId(0), news.packed(), out)

    # Inside this zone, and beyond

    def _bring_in(self, zone: HostedZone, unit: Unit, out: Outbox) -> None:
        """Publish a unit in a zone; this node delivers it at once."""
        self._take_in(zone, zone.publish(unit, out), out)

    def pass_on(self, zone: HostedZone, delivered: list[Unit], out: Outbox) -> None:
        """Take in what a zone delivered, and then whatever waited for it."""
        self._take_in(zone, delivered, out)
        self.bring_in_what_waited(out)

    def _take_in(self, zone: HostedZone, delivered: list[Unit], out: Outbox) -> None:
        """Deliver what a zone delivered, and bring it to the zones beyond."""
        for unit in delivered:
            if self._was_seen(unit):
                if unit.via != NOWHERE and unit.is_publication():
                    out.duplicate(unit.id())
                continue
            out.persist(Entered(zone.number, unit.packed()))
            self.count(zone.number, unit)
            self.channels.tell_soon(out)
            if unit.is_publication():
                out.deliver(unit.publication)
            if not unit.local:
                self._bring_beyond(zone, unit, out)

    def _bring_beyond(self, zone: HostedZone, unit: Unit, out: Outbox) -> None:
        for other in self.zones.values():
            if other is not zone:
                self._bring_in(other, unit.entering(zone.number), out)
        for crossing in self.crossings:
            if crossing.here == zone.number and crossing.there != unit.via:
                opened = self.joining.let_leave(crossing, unit)
                self.channels.send(crossing, 0 if opened else crossing.outgoing.places, out)

    def count(self, zone: int, unit: Unit) -> None:
        """A unit is delivered here, now or before a restart."""
        self.seen[unit.origin] = unit.number
        if unit.kind == JOINED and unit.origin in self.knowledge.map.home:
            home = self.knowledge.map.home[unit.origin]
            self.knowledge.learn_members(unit.publication.group, [home])
        news = news_in(unit)
        if news is not None:
            self.joining.hear(unit.origin, news)
        if unit.origin == self.me:
            self.units = unit.number
            self.others += not unit.is_publication()
        for crossing in self.crossings:
            if crossing.here == zone and crossing.there == unit.via:
                crossing.incoming.count(unit)

    def _was_seen(self, unit: Unit) -> bool:
        return unit.number <= self.seen.get(unit.origin, 0)

    # From another zone

    def bring_in_what_waited(self, out: Outbox) -> None:
        """Publish in this zone what came across, as soon as what it names was delivered here.

        One after the other, and never one from within another: there may be thousands.
        """
        found = True
        while found:  # what comes through one joint may be what waits at another
            found = False
            for crossing in self.crossings:
                while (came := crossing.ready(self.seen)) is not None:
                    found = True
                    self._bring_in_one(crossing, came, out)

    def _bring_in_one(self, crossing: ZoneCrossing, came: Crossing, out: Outbox) -> None:
        unit = unpacked(came.unit)
        if self._was_seen(unit):
            out.note("causal_separators.crossed_twice", unit.origin)
            return
        if came.after and unit.is_publication():
            out.release(unit.id())
        self._bring_in(self.zones[crossing.here], unit.entering(crossing.there), out)

    def announce_if_held(
        self, crossing: ZoneCrossing, sender: NodeId, content: Crossing, out: Outbox
    ) -> None:
        """Say that what came across waits here, if it does."""
        if crossing.incoming.waits(content):
            out.note("causal_separators.waited_for_another", sender)
            for publication in content.carried():
                out.hold(publication.id, NO_MESSAGE, "what another server brings")
