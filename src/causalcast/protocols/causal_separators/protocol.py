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

from causalcast.core.automaton import Multicast
from causalcast.core.command import Command
from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.parts.addressed.reliable_links import ReliableLinks, Sent, Taken
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.channels import SETTLE, TELL, Channels
from causalcast.protocols.causal_separators.crossing_messages import (
    Arrivals,
    Carry,
    Closing,
    Crossing,
    JointState,
    KeptUnit,
    Opening,
    Turned,
    WaitingUnit,
)
from causalcast.protocols.causal_separators.hosted_zone import (
    HostedZone,
    InZone,
    Numbered,
    ZoneRecord,
)
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_joining import ZoneJoining
from causalcast.protocols.causal_separators.zone_knowledge import ZoneKnowledge
from causalcast.protocols.causal_separators.zone_map import ZoneMap
from causalcast.protocols.causal_separators.zone_travel import Entered, ZoneTravel
from causalcast.protocols.causal_separators.zone_unit import JOINED, PUBLICATION, unpacked


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


class CausalSeparators(Multicast):
    """What happens when something happens: in the zones of a node, and at the joints it serves."""

    def __init__(
        self,
        setup: Setup,
        zone_map: ZoneMap,
        zones: dict[int, HostedZone],
        crossings: list[ZoneCrossing],
    ) -> None:
        self.me = setup.me
        self.home = zone_map.home[self.me]
        self.zones = zones
        self.crossings = crossings  # the joints that this node serves at
        self.groups = dict.fromkeys(setup.groups.groups_of(self.me))  # its application is in
        self.seen: VectorClock = {}  # per origin: the last unit that was delivered here
        self.knowledge = ZoneKnowledge(zone_map, self.home, setup.groups)
        servers = [peer for c in crossings for peer in [*c.partners, *c.servers]]
        self.links = ReliableLinks(setup, list(dict.fromkeys(servers)), _body_bytes)
        self.joining = ZoneJoining(self.me, self.knowledge, crossings, self.links)
        self.channels = Channels(
            crossings,
            self.links,
            self.seen,
            tell_after=setup.number("acknowledge_after"),
            settle_after=setup.number("repeat_after"),
        )
        self.travel = ZoneTravel(
            self.me, zones, self.knowledge, self.joining, self.channels, self.seen
        )

    # What the application does

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.4: a sender chooses between its subgroup and the whole system. Here its groups
        # decide.
        local = self.knowledge.is_local(publication.group)
        self.travel.begin(PUBLICATION, local, publication, out)
        self._attend(out)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the papers: groups that change while zones are joined.
        self.groups[group] = None
        out.persist(Belongs([*self.groups]))
        if self.home not in self.knowledge.group_zones.get(group, {}):
            self.travel.begin_other(JOINED, False, group, b"", out)
        self._attend(out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the papers, as `on_join_group`.
        self.groups.pop(group, None)
        out.persist(Belongs([*self.groups]))
        self._attend(out)

    # Zones

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.4: an interconnection server uses the multicast of its subgroup as any process
        # does, and a FIFO channel to the next subgroup.
        if isinstance(message, InZone):
            zone = self.zones.get(message.zone)
            if zone is None or sender not in zone.neighbours:
                out.note("causal_separators.stray", sender)
                return
            self.travel.pass_on(zone, zone.on_message(sender, message.message, out), out)
        else:
            for content in self.links.on_message(sender, message, out):
                self._on_content(sender, content, out)
        self._attend(out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the papers: time serves the protocols inside, and servers that may crash.
        for zone in self.zones.values():
            if zone.has_timer(name):
                self.travel.pass_on(zone, zone.on_timer(name, subject, out), out)
                self._attend(out)
                return
        if name == TELL:
            self.channels.tell_arrivals(out)
        elif name == SETTLE:
            self.channels.doubt_whom_no_link_leads_to(out)
        else:
            self.links.on_timer(name, subject, out)

    def on_start(self, out: Outbox) -> None:
        # Not in the papers: who is there at the start is given.
        for zone in self.zones.values():
            self.travel.pass_on(zone, zone.on_start(out), out)
        self.channels.settle(out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the papers: links are given.
        for zone in self.zones.values():
            if peer in zone.neighbours:
                self.travel.pass_on(zone, zone.on_neighbour_up(peer, link, newborn, out), out)
        self.channels.add_link(peer, out)
        self._attend(out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the papers: links are given.
        for zone in self.zones.values():
            if peer in zone.neighbours:
                self.travel.pass_on(zone, zone.on_neighbour_down(peer, link, out), out)
        self.channels.drop_link(peer, out)
        self._attend(out)

    # Joints

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Section 3.4: another server takes the place of one that crashed. How is not in the papers.
        self.channels.suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the papers: a server that comes back.
        self.channels.trust(peer, out)

    def _on_content(self, sender: NodeId, content: Message, out: Outbox) -> None:
        # Section 3.4: what comes through the channel is multicast again in this subgroup, in the
        # order in which it came.
        crossing = self.channels.crossing_with(sender, content)
        if crossing is None:
            out.note("causal_separators.stray", sender)
        elif isinstance(content, Carry):
            crossing.on_carry(sender, content)
            self.channels.send(crossing, crossing.outgoing.places + 1, out)
        elif isinstance(content, (Opening, Closing)):
            self.joining.on_turn(crossing, sender, content)
            if isinstance(content, Opening):
                self.joining.refuse_if_dropped(crossing, sender, content, out)
            self.channels.send(crossing, 0, out)  # it may have been the last that had not begun
            self.channels.tell_soon(out)
        elif not crossing.belongs(sender):
            out.note("causal_separators.too_late", sender)
        elif isinstance(content, Arrivals):
            crossing.outgoing.on_arrivals(sender, content)
        else:
            assert isinstance(content, Crossing)
            crossing.incoming.arrive(sender, content)
            self.travel.bring_in_what_waited(out)
            self.travel.announce_if_held(crossing, sender, content, out)

    def _attend(self, out: Outbox) -> None:
        """Do what is due about joints, now that everything delivered is counted."""
        for news, local in self.joining.due(self.seen, self.groups, out):
            self.travel.tell(news, local, out)

    # What an operator says

    def objection(self, command: Command) -> str:
        return self.joining.objection(command)

    def preview(self, command: Command) -> list[str]:
        return self.joining.preview(command)

    def on_command(self, command: Command, out: Outbox) -> None:
        # Not in the papers: subgroups can be added, they say, and not how.
        news, local = self.joining.news_of(command)
        self.travel.tell(news, local, out)
        self._attend(out)

    def refusal(self, group: GroupId, joining: bool) -> str:
        return self.joining.refusal(group, joining)

    def conditions(self) -> dict[str, int]:
        return self.joining.conditions()

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
            self.travel.pass_on(zone, zone.on_recover(inside[number], out), out)
        for crossing in self.crossings:
            self.channels.send(crossing, 0, out)
        self._attend(out)
        self.channels.settle(out)
        self.channels.tell_soon(out)

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
            self.travel.units, self.travel.others = record.units, record.others
            self.seen.clear()  # others look at it, too
            self.seen.update(record.seen)
        elif isinstance(record, Belongs):
            self.groups = dict.fromkeys(record.groups)
        elif isinstance(
            record,
            (
                JointState,
                KeptUnit,
                Turned,
                WaitingUnit,
            ),
        ):
            for crossing in self.crossings:
                if crossing.there == record.there:
                    crossing.restore(record)
        else:
            self.knowledge.restore(record)

    def _restore_unit(self, entered: Entered) -> None:
        unit = unpacked(entered.unit)
        self.travel.count(entered.zone, unit)
        for crossing in self.crossings:
            if crossing.here == entered.zone and crossing.there != unit.via and not unit.local:
                self.joining.let_leave(crossing, unit)
        self._drop_what_was_brought_in()

    def _restore_sent(self, sent: Sent) -> None:
        for peer in sent.to:
            crossing = self.channels.crossing_with(peer, sent.content)
            if crossing is not None and isinstance(sent.content, Arrivals):
                crossing.incoming.told.update(sent.content.counts)
            elif crossing is not None:
                crossing.outgoing.mark_sent(peer, sent.content)

    def _restore_taken(self, taken: Taken) -> None:
        crossing = self.channels.crossing_with(taken.sender, taken.content)
        if crossing is None:
            return
        if isinstance(taken.content, Carry):
            crossing.on_carry(taken.sender, taken.content)
        elif isinstance(taken.content, (Opening, Closing)):
            self.joining.on_turn(crossing, taken.sender, taken.content)
        elif not crossing.belongs(taken.sender):
            pass
        elif isinstance(taken.content, Arrivals):
            crossing.outgoing.on_arrivals(taken.sender, taken.content)
        else:
            assert isinstance(taken.content, Crossing)
            crossing.incoming.arrive(taken.sender, taken.content)
            self._drop_what_was_brought_in()

    def _drop_what_was_brought_in(self) -> None:
        for crossing in self.crossings:
            while crossing.ready(self.seen) is not None:
                pass

    def snapshot(self) -> list[Message] | None:
        standing = Standing(self.travel.units, self.travel.others, dict(self.seen))
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
            for (sender, _), queue in crossing.incoming.waiting.items():
                for waiting in queue.values():
                    if any(publication.id == message for publication in waiting.carried()):
                        found.append(f"came through {sender}; waits for what other servers bring")
        return found

    def kept_bytes(self) -> int:
        inside = sum(zone.automaton.kept_bytes() for zone in self.zones.values())
        return inside + sum(c.outgoing.kept_bytes for c in self.crossings) + self.links.kept_bytes()

    def state_size(self) -> int:
        inside = sum(zone.automaton.state_size() for zone in self.zones.values())
        kept = sum(len(crossing.outgoing.kept) for crossing in self.crossings)
        return inside + kept + len(self.seen) + self.links.size()


def _body_bytes(content: Message) -> int:
    """How long the body is of what servers send one another."""
    return len(content.unit) if isinstance(content, Crossing) else 0
