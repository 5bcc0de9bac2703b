"""Causal separators: zones that run protocols of their own, joined by servers.

L. Rodrigues, P. Veríssimo, "Causal separators for large-scale multicast communication", 1995;
S. Johnson, F. Jahanian, J. Shah, "The inter-group router approach to scalable group composition",
1999 (pairs of servers); R. Baldoni, R. Friedman, R. van Renesse, "The hierarchical daisy
architecture for causal delivery", 1997; R. de Juan-Marín and others, "Parallel interconnection of
broadcast systems with multiple FIFO channels", 2009; as told by de Juan-Marín et al., "Scalability
approaches for causal multicast: a survey", 2016, section 3.4, which handlers below refer to.

The nodes are divided into zones. Inside a zone any causal protocol runs, with clocks no larger than
the zone. A server delivers what its zone delivers and brings it to its partner in the next zone,
who publishes it there as its own. Causes reach a server before their effects, so they cross before
them; and what one server publishes is delivered in that order: so no history crosses. The zones
form a tree; a second way between two zones would let effects overtake their causes.

A publication whose group has members in its origin's zone alone stays there.

Where we differ from the papers, and why
- Servers may crash and come back, or not: `zone_crossing` lets several servers of a zone
  share the load and do one another's part. With several, a unit names what travels beside it.
- Links between servers are made reliable and in order by `reliable_links`.
- Everybody in a zone gets everything that comes into it, and hands to its application what is for
  its groups.
- The tree of zones is given as a plan. Which of its joints are open changes while the system runs:
  an operator orders a zone joined or parted (`zone_knowledge`). The papers say that zones
  can be added; how nothing is lost, doubled or reordered by it they leave open.
- Who joins a group tells all zones, in order with publications: whoever publishes to the group
  after that knows that it has a member elsewhere. Groups that once left a zone stay global.
"""

from causalcast.core import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    CommandForm,
    CommandPlan,
    GroupId,
    Groups,
    LinkId,
    Message,
    MessageId,
    Misfit,
    Multicast,
    Needs,
    NodeId,
    Option,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    message_id,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.core.spec import OptionValue
from causalcast.core.topology import Topology
from causalcast.parts.addressed import reliable_links
from causalcast.parts.addressed.reliable_links import ReliableLinks, Sent, Taken
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators import hosted_zone, zone_crossing, zone_knowledge
from causalcast.protocols.causal_separators.hosted_zone import (
    HostedZone,
    InZone,
    Numbered,
    ZoneRecord,
)
from causalcast.protocols.causal_separators.zone_crossing import (
    Arrivals,
    Carry,
    Closing,
    Crossing,
    Opening,
    ZoneCrossing,
)
from causalcast.protocols.causal_separators.zone_joining import ZoneJoining, news_in
from causalcast.protocols.causal_separators.zone_knowledge import ZoneKnowledge
from causalcast.protocols.causal_separators.zone_map import (
    DAISY,
    PAIRS,
    Zone,
    ZoneMap,
    parse_apart,
    parse_joints,
    parse_protocol,
    parse_zones,
    pieces,
)
from causalcast.protocols.causal_separators.zone_news import (
    News,
)
from causalcast.protocols.causal_separators.zone_unit import (
    JOINED,
    NEWS,
    NOWHERE,
    PUBLICATION,
    Unit,
    unpacked,
)

TELL = "causal_separators.tell"
SETTLE = "causal_separators.settle"


class Entered(Message):
    """Record: this unit was delivered in a zone, for the first time at this node."""

    wire = Wire("causal_separators.entered", zone=int, unit=bytes)

    def __init__(self, zone: int, unit: bytes) -> None:
        self.zone = zone
        self.unit = unit


class Belongs(Message):
    """Record: the application of this node is in these groups."""

    wire = Wire("causal_separators.belongs", groups=list[GroupId])

    def __init__(self, groups: list[GroupId]) -> None:
        self.groups = groups


class Standing(Message):
    """Record of a snapshot: own units, how many are no publications, and what was delivered."""

    wire = Wire("causal_separators.standing", units=int, others=int, seen=dict[NodeId, int])

    def __init__(self, units: int, others: int, seen: VectorClock) -> None:
        self.units = units
        self.others = others
        self.seen = seen


class CausalSeparators(ZoneJoining):
    """The zones a node is in, the joints it serves at, and what was delivered."""

    def __init__(self, setup: Setup, zone_map: ZoneMap) -> None:
        crossings = _crossings(setup, zone_map)
        servers = [peer for c in crossings for peer in [*c.partners, *c.servers]]
        super().__init__(
            setup.me,
            ZoneKnowledge(zone_map, zone_map.home[setup.me], setup.groups),
            crossings,
            ReliableLinks(setup, list(dict.fromkeys(servers)), _body_bytes),
            [
                GroupId(number)
                for number in range(len(setup.groups.names))
                if setup.me in setup.groups.members_of(GroupId(number))
            ],
        )
        self._home_of = zone_map.home
        self.zones = {
            number: _hosted(setup, zone_map, number) for number in zone_map.zones_of(setup.me)
        }
        self.tell_after = setup.number("acknowledge_after")
        self.settle_after = setup.number("repeat_after")
        self.tells_soon = False  # what was delivered, to servers at the other side
        self.linked: dict[NodeId, None] = {}
        self.suspected: dict[NodeId, None] = {}
        self.units = 0  # that began here
        self.others = 0  # of these: not publications

    # What the application does

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.4: a sender chooses between its subgroup and the whole system. Here its groups
        # decide.
        local = self.knowledge.is_local(publication.group)
        self._begin(Unit(self.me, self.units + 1, NOWHERE, local, PUBLICATION, publication), out)
        self._attend(out)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the papers: groups that change while zones are joined.
        self.groups[group] = None
        out.persist(Belongs([*self.groups]))
        if self.home not in self.knowledge.group_zones.get(group, {}):
            self._begin_other(JOINED, False, group, b"", out)
        self._attend(out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the papers, as `on_join_group`.
        self.groups.pop(group, None)
        out.persist(Belongs([*self.groups]))
        self._attend(out)

    def _begin(self, unit: Unit, out: Outbox) -> None:
        home = self.zones[self.home]
        self._pass_on(home, home.publish(unit, out), out)

    def _begin_other(
        self, kind: int, local: bool, group: GroupId, body: bytes, out: Outbox
    ) -> None:
        """Let something travel that is no publication; it is after all that was published here."""
        last = message_id(self.me, self.units - self.others)
        carried = Publication(last, group, body)
        self._begin(Unit(self.me, self.units + 1, NOWHERE, local, kind, carried), out)

    def _tell(self, news: News, local: bool, out: Outbox) -> None:
        self._begin_other(NEWS, local, GroupId(0), news.packed(), out)

    # Zones

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.4: an interconnection server uses the multicast of its subgroup as any process
        # does, and a FIFO channel to the next subgroup.
        if isinstance(message, InZone):
            zone = self.zones.get(message.zone)
            if zone is None or sender not in zone.neighbours:
                out.note("causal_separators.stray", sender)
                return
            self._pass_on(zone, zone.on_message(sender, message.message, out), out)
        else:
            for content in self.links.on_message(sender, message, out):
                self._on_content(sender, content, out)
        self._attend(out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the papers: time serves the protocols inside, and servers that may crash.
        for zone in self.zones.values():
            if zone.has_timer(name):
                self._pass_on(zone, zone.on_timer(name, subject, out), out)
                self._attend(out)
                return
        if name == TELL:
            self._tell_arrivals(out)
        elif name == SETTLE:
            self._doubt_whom_no_link_leads_to(out)
        else:
            self.links.on_timer(name, subject, out)

    def on_start(self, out: Outbox) -> None:
        # Not in the papers: who is there at the start is given.
        for zone in self.zones.values():
            self._pass_on(zone, zone.on_start(out), out)
        self._settle(out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the papers: links are given.
        for zone in self.zones.values():
            if peer in zone.neighbours:
                self._pass_on(zone, zone.on_neighbour_up(peer, link, newborn, out), out)
        self.links.on_neighbour_up(peer, out)
        self.linked[peer] = None
        self._doubt(peer, peer in self.suspected, out)
        self._attend(out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the papers: links are given.
        for zone in self.zones.values():
            if peer in zone.neighbours:
                self._pass_on(zone, zone.on_neighbour_down(peer, link, out), out)
        self.links.on_neighbour_down(peer, out)
        self.linked.pop(peer, None)
        self._doubt(peer, True, out)
        self._attend(out)

    def _bring_in(self, zone: HostedZone, unit: Unit, out: Outbox) -> None:
        """Publish a unit in a zone; this node delivers it at once."""
        self._take_in(zone, zone.publish(unit, out), out)

    def _pass_on(self, zone: HostedZone, delivered: list[Unit], out: Outbox) -> None:
        """Take in what a zone delivered, and then whatever waited for it."""
        self._take_in(zone, delivered, out)
        self._bring_in_what_waited(out)

    def _take_in(self, zone: HostedZone, delivered: list[Unit], out: Outbox) -> None:
        """Deliver what a zone delivered, and bring it to the zones beyond."""
        for unit in delivered:
            if self._was_seen(unit):
                if unit.via != NOWHERE and unit.is_publication():
                    out.duplicate(unit.id())
                continue
            out.persist(Entered(zone.number, unit.packed()))
            self._count(zone.number, unit)
            self._tell_soon(out)
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
                opened = self._let_leave(crossing, unit)
                self._send(crossing, 0 if opened else crossing.places, out)

    def _count(self, zone: int, unit: Unit) -> None:
        """A unit is delivered here, now or before a restart."""
        self.seen[unit.origin] = unit.number
        if unit.kind == JOINED and unit.origin in self._home_of:
            home = self._home_of[unit.origin]
            self.knowledge.learn_members(unit.publication.group, [home])
        news = news_in(unit)
        if news is not None:
            self._hear(unit.origin, news)
        if unit.origin == self.me:
            self.units = unit.number
            self.others += not unit.is_publication()
        for crossing in self.crossings:
            if crossing.here == zone and crossing.there == unit.via:
                crossing.count(unit)

    def _was_seen(self, unit: Unit) -> bool:
        return unit.number <= self.seen.get(unit.origin, 0)

    # Joints

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Section 3.4: another server takes the place of one that crashed. How is not in the papers.
        self.suspected[peer] = None
        self._doubt(peer, True, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the papers: a server that comes back.
        self.suspected.pop(peer, None)
        if peer in self.linked:
            self._doubt(peer, False, out)

    def _settle(self, out: Outbox) -> None:
        """Give others time to link before they are doubted: nobody says who has long been gone."""
        if self.crossings:
            out.start_timer(SETTLE, self.settle_after)

    def _doubt_whom_no_link_leads_to(self, out: Outbox) -> None:
        for peer in self.links.peers:
            if peer not in self.linked:
                self._doubt(peer, True, out)

    def _doubt(self, peer: NodeId, doubted: bool, out: Outbox) -> None:
        for crossing in self.crossings:
            if crossing.doubt(peer, doubted):
                self._send(crossing, 0, out)

    def _send(self, crossing: ZoneCrossing, at_least: int, out: Outbox) -> None:
        """Bring across what is to be, of units from this place on."""
        crossing.drop_carried(self.seen)
        while True:
            sending = crossing.next_sending(at_least)
            if sending is None:
                return
            if sending.instead:
                out.note("causal_separators.instead_of_another", sending.to)
            self.links.send([sending.to], sending.content, out)
            crossing.mark_sent(sending.to, sending.content)

    def _on_content(self, sender: NodeId, content: Message, out: Outbox) -> None:
        # Section 3.4: what comes through the channel is multicast again in this subgroup, in the
        # order in which it came.
        crossing = self._crossing_with(sender, content)
        if crossing is None:
            out.note("causal_separators.stray", sender)
        elif isinstance(content, Carry):
            crossing.on_carry(sender, content)
            self._send(crossing, crossing.places + 1, out)
        elif isinstance(content, (Opening, Closing)):
            self._on_turn(crossing, sender, content)
            if isinstance(content, Opening):
                self._refuse_if_dropped(crossing, sender, content, out)
            self._send(crossing, 0, out)  # it may have been the last that had not begun
            self._tell_soon(out)
        elif not crossing.belongs(sender):
            out.note("causal_separators.too_late", sender)
        elif isinstance(content, Arrivals):
            crossing.on_arrivals(sender, content)
        else:
            assert isinstance(content, Crossing)
            crossing.arrive(sender, content)
            self._bring_in_what_waited(out)
            self._tell_if_held(crossing, sender, content, out)

    def _bring_in_what_waited(self, out: Outbox) -> None:
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

    def _tell_if_held(
        self, crossing: ZoneCrossing, sender: NodeId, content: Crossing, out: Outbox
    ) -> None:
        if crossing.waits(content):
            out.note("causal_separators.waited_for_another", sender)
            for publication in content.carried():
                out.hold(publication.id, NO_MESSAGE, "what another server brings")

    def _tell_soon(self, out: Outbox) -> None:
        """Not later and later, as long as units come: others keep what they are not told of."""
        if not self.tells_soon and any(c.has_news(self.seen) for c in self.crossings):
            self.tells_soon = True
            out.start_timer(TELL, self.tell_after)

    def _tell_arrivals(self, out: Outbox) -> None:
        self.tells_soon = False
        for crossing in self.crossings:
            if crossing.has_news(self.seen):
                self.links.send(crossing.partners, Arrivals(crossing.news(self.seen)), out)

    def _crossing_with(self, peer: NodeId, content: Message) -> ZoneCrossing | None:
        """The joint that something from this server belongs to; none for what makes no sense."""
        if isinstance(content, Crossing):
            try:
                unpacked(content.unit)
            except (IndexError, ValueError):
                return None
        for crossing in self.crossings:
            if isinstance(content, Carry):
                if peer in crossing.servers and content.to in crossing.partners:
                    return crossing
            elif peer in crossing.partners and isinstance(
                content, (Crossing, Arrivals, Opening, Closing)
            ):
                return crossing
        return None

    # After a restart. What was brought into zones, sent and delivered stands in the same entries as
    # what led to it, so nothing is done again.

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the papers: a server that comes back.
        inside: dict[int, list[Message]] = {number: [] for number in self.zones}
        for record in records:
            if isinstance(record, ZoneRecord):
                inside[record.zone].append(record.record)
            else:
                self._restore(record)
        for number, zone in self.zones.items():
            self._pass_on(zone, zone.on_recover(inside[number], out), out)
        for crossing in self.crossings:
            self._send(crossing, 0, out)
        self._attend(out)
        self._settle(out)
        self._tell_soon(out)

    def _restore(self, record: Message) -> None:
        self.links.restore(record)
        if isinstance(record, Numbered):
            self.zones[record.zone].published = record.published
        elif isinstance(record, Entered):
            self._restore_unit(record)
        elif isinstance(record, Sent):
            self._restore_sent(record)
        elif isinstance(record, Taken):
            self._restore_taken(record)
        elif isinstance(record, Standing):
            self.units, self.others = record.units, record.others
            self.seen = dict(record.seen)
        elif isinstance(record, Belongs):
            self.groups = dict.fromkeys(record.groups)
        elif isinstance(
            record,
            (
                zone_crossing.JointState,
                zone_crossing.KeptUnit,
                zone_crossing.Turned,
                zone_crossing.WaitingUnit,
            ),
        ):
            for crossing in self.crossings:
                if crossing.there == record.there:
                    crossing.restore(record)
        else:
            self.knowledge.restore(record)

    def _restore_unit(self, entered: Entered) -> None:
        unit = unpacked(entered.unit)
        self._count(entered.zone, unit)
        for crossing in self.crossings:
            if crossing.here == entered.zone and crossing.there != unit.via and not unit.local:
                self._let_leave(crossing, unit)
        self._drop_what_was_brought_in()

    def _restore_sent(self, sent: Sent) -> None:
        for peer in sent.to:
            crossing = self._crossing_with(peer, sent.content)
            if crossing is not None and isinstance(sent.content, Arrivals):
                crossing.told.update(sent.content.counts)
            elif crossing is not None:
                crossing.mark_sent(peer, sent.content)

    def _restore_taken(self, taken: Taken) -> None:
        crossing = self._crossing_with(taken.sender, taken.content)
        if crossing is None:
            return
        if isinstance(taken.content, Carry):
            crossing.on_carry(taken.sender, taken.content)
        elif isinstance(taken.content, (Opening, Closing)):
            self._on_turn(crossing, taken.sender, taken.content)
        elif not crossing.belongs(taken.sender):
            pass
        elif isinstance(taken.content, Arrivals):
            crossing.on_arrivals(taken.sender, taken.content)
        else:
            assert isinstance(taken.content, Crossing)
            crossing.arrive(taken.sender, taken.content)
            self._drop_what_was_brought_in()

    def _drop_what_was_brought_in(self) -> None:
        for crossing in self.crossings:
            while crossing.ready(self.seen) is not None:
                pass

    def snapshot(self) -> list[Message] | None:
        standing = Standing(self.units, self.others, dict(self.seen))
        records: list[Message] = [standing, Belongs([*self.groups]), *self.knowledge.snapshot()]
        for zone in self.zones.values():
            inside = zone.snapshot()
            if inside is None:
                return None
            records += inside
        for crossing in self.crossings:
            records += crossing.snapshot()
        return records + self.links.snapshot()

    # For people

    def explain(self, message: MessageId) -> list[MessageId]:
        return []  # what is missing has a name inside its zone only; see `reasons`

    def reasons(self, message: MessageId) -> list[str]:
        found = [why for zone in self.zones.values() for why in zone.reasons(message)]
        for crossing in self.crossings:
            for (sender, _), queue in crossing.waiting.items():
                for waiting in queue.values():
                    if any(publication.id == message for publication in waiting.carried()):
                        found.append(f"came through {sender}; waits for what other servers bring")
        return found

    def kept_bytes(self) -> int:
        inside = sum(zone.automaton.kept_bytes() for zone in self.zones.values())
        return inside + sum(c.kept_bytes for c in self.crossings) + self.links.kept_bytes()

    def state_size(self) -> int:
        inside = sum(zone.automaton.state_size() for zone in self.zones.values())
        kept = sum(len(crossing.kept) for crossing in self.crossings)
        return inside + kept + len(self.seen) + self.links.size()


def _body_bytes(content: Message) -> int:
    """Of what servers send one another."""
    return len(content.unit) if isinstance(content, Crossing) else 0


def _hosted(setup: Setup, zone_map: ZoneMap, number: int) -> HostedZone:
    zone = zone_map.zones[number]
    graph = zone_map.graph_of(number)
    groups = Groups({f"zone{number}": zone.members})
    automaton = setup.build(zone.protocol, zone.options, graph, groups)
    return HostedZone(number, setup.me, automaton, graph.neighbours[setup.me])


def _crossings(setup: Setup, zone_map: ZoneMap) -> list[ZoneCrossing]:
    """The joints that this node is a server of, except those of a hub, which need no link."""
    shut = zone_map.shut_at_start()
    return [
        ZoneCrossing(setup.me, here, joint, number, number not in shut)
        for number, joint in enumerate(zone_map.joints)
        for here in joint.zones
        if setup.me in joint.servers[here] and setup.me not in joint.servers[joint.other(here)]
    ]


def build(setup: Setup) -> CausalSeparators:
    def draw(graph: Topology) -> ZoneMap:
        return _map(setup.options, graph)

    names = ("form", "zones", "zone_size", "joints", "apart", "servers", "inside", "between")
    options = [setup.options[name] for name in names]
    zone_map = setup.topology.once(f"causal_separators {options}", draw)
    assert isinstance(zone_map, ZoneMap)
    if zone_map.apart:
        _check_groups(setup, zone_map)
    return CausalSeparators(setup, zone_map)


def _check_groups(setup: Setup, zone_map: ZoneMap) -> None:
    """Who is in a group from the beginning is owed everything: no joint may be closed between."""
    shut = zone_map.shut_at_start()
    for number, name in enumerate(setup.groups.names):
        members = setup.groups.members_of(GroupId(number))
        zones = list(dict.fromkeys(zone_map.home[member] for member in members))
        for zone in zones:
            if any(joint in shut for joint in zone_map.way(zones[0], zone)):
                raise Misfit(
                    f"group {name!r} has members in zones {zones[0]} and {zone}, which are apart "
                    "at the start: let those in one of them join it later"
                )


def _map(options: dict[str, OptionValue], graph: Topology) -> ZoneMap:
    """The zones and joints that the options ask for."""
    given, joints, between = (str(options[name]) for name in ("zones", "joints", "between"))
    size, servers = options["zone_size"], options["servers"]
    assert isinstance(size, int) and isinstance(servers, int)
    lists = parse_zones(given) if given else pieces(graph, size)
    inside = [parse_protocol(text) for text in str(options["inside"]).split(",")]
    zones = [Zone(*inside[n % len(inside)], members) for n, members in enumerate(lists)]
    zone_map = ZoneMap(graph, zones)
    if options["form"] == DAISY:
        if joints:
            raise Misfit("joints: a daisy has a hub that joins all zones")
        zone_map.join_by_hub(*parse_protocol(between))
    elif joints:
        zone_map.join_pairs(parse_joints(joints), servers)
    elif given:
        zone_map.join_pairs(None, servers)
    else:
        zone_map.join_spanning(servers)
    zone_map.set_apart(parse_apart(str(options["apart"])))
    return zone_map


def command_plans(options: dict[str, OptionValue], graph: Topology) -> list[CommandPlan]:
    """Every joint closed and opened again."""
    zone_map = _map(options, graph)
    if zone_map.is_daisy:
        return []
    found = []
    for number, joint in enumerate(zone_map.joints):
        zones = f"{joint.zones[0]} {joint.zones[1]}"
        behind = [n for n in zone_map.home if number in zone_map.way_up(zone_map.home[n])]
        far = zone_map.zones[zone_map.far_side(number)].members
        found.append(CommandPlan([f"part {zones}", f"join {zones}"], far, behind))
    return found


def contains(options: dict[str, OptionValue]) -> list[str]:
    """The protocols of the zones."""
    inside, between = options["inside"], options["between"]
    assert isinstance(inside, str) and isinstance(between, str)
    texts = inside.split(",")
    if options["form"] == DAISY:
        texts.append(between)
    return [words[0] for words in (text.split() for text in texts) if words]


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # any number may be away; they catch up when they are back


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalSeparators)
    return not any(crossing.waiting for crossing in multicast.crossings)


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalSeparators)
    kept = any(crossing.kept for crossing in multicast.crossings)
    return not kept and multicast.links.kept() == 0


def joined_or_apart(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalSeparators)
    return not any(c.phase == zone_crossing.KEEPING for c in multicast.crossings)


SPEC = ProtocolSpec(
    name="causal_separators",
    summary="Zones with causal protocols of their own, joined by servers (Rodrigues, Veríssimo).",
    build=build,
    messages=[
        Belongs,
        Entered,
        Standing,
        *zone_knowledge.MESSAGES,
        *hosted_zone.MESSAGES,
        *zone_crossing.MESSAGES,
        *reliable_links.MESSAGES,
    ],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=[
        Option(
            "form",
            PAIRS,
            "how zones are joined: linked servers, or one node of each zone in a zone of servers",
            choices=[PAIRS, DAISY],
        ),
        Option("zones", "", "the nodes of each zone, such as '0-3; 4-7'; by themselves if empty"),
        Option(
            "zone_size",
            4,
            # Small zones, as the survey advises (section 3.4): clocks and packets stay small.
            "how many nodes a zone has at most, where zones are not given",
            least=1,
        ),
        Option(
            "joints",
            "",
            "which zones are joined, such as '0-1 1-2'; if empty, all given ones that are linked",
        ),
        Option(
            "apart",
            "",
            "zones that are in the plan and joined later, such as '2 3'",
        ),
        Option(
            "servers",
            2,
            # The least that lets one take the place of another.
            "how many servers of a zone stand side by side at each joint, at most",
            least=1,
        ),
        Option(
            "inside",
            "vector_clock_broadcast",
            "the protocols of the zones, in turn, such as 'psync, first_generation window=50'",
        ),
        Option("between", "compaction_multicast", "the protocol of the servers' zone of a daisy"),
        *reliable_links.OPTIONS,
    ],
    needs=Needs(overlay="static", detector=True),
    restart="resume",
    tolerates=tolerates,
    at_rest=[nothing_waits, nothing_is_kept, joined_or_apart],
    rare=[
        "causal_separators.instead_of_another",
        "causal_separators.crossed_twice",
        "causal_separators.waited_for_another",
        *reliable_links.RARE,
    ],
    cost="that of the zone's protocol with the zone's nodes for n, and 7 to 25 bytes",
    offers=["explain"],
    contains=contains,
    closes_groups=True,
    commands=[
        CommandForm("join", ["ZONE", "ZONE"], "connect two zones of the plan"),
        CommandForm(
            "part", ["ZONE", "ZONE"], "separate them, once the nodes behind have left their groups"
        ),
        CommandForm("drop", ["ZONE", "ZONE"], "separate them at once, with whatever is lost by it"),
    ],
    command_plans=command_plans,
)
