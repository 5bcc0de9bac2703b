"""Planted bugs of `causal_separators`: hosting, crossing from zone to zone, taking over, scope."""

from causalcast.core import GroupId, Message, NodeId, Outbox, Publication
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators.crossing_messages import Crossing, Turned
from causalcast.protocols.causal_separators.hosted_zone import HostedZone
from causalcast.protocols.causal_separators.outgoing import Outgoing
from causalcast.protocols.causal_separators.protocol import CausalSeparators
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_knowledge import ZoneKnowledge
from causalcast.protocols.causal_separators.zone_travel import ZoneTravel
from causalcast.protocols.causal_separators.zone_unit import NOWHERE, PUBLICATION, Unit
from causalcast.swarm.mutant import Mutant, Patch

_named = Outgoing._named
_restore = CausalSeparators._restore_unit
_publish = HostedZone.publish
_open = ZoneCrossing.open
_ready = ZoneCrossing.ready
_restore_crossing = ZoneCrossing.restore
_attend = CausalSeparators._attend


def nothing_named(
    self: Outgoing, carrier: NodeId, partner: NodeId, place: int, arrived: VectorClock
) -> VectorClock:
    return {}


def only_other_channels_named(
    self: Outgoing, carrier: NodeId, partner: NodeId, place: int, arrived: VectorClock
) -> VectorClock:
    """Not what came from the other zone through another server."""
    return _named(self, carrier, partner, place, {})


def named_not_waited_for(self: ZoneCrossing, seen: VectorClock) -> Crossing | None:
    for way, queue in self.incoming.waiting.items():
        first = queue.pop(min(queue))
        if not queue:
            del self.incoming.waiting[way]
        return first
    return None


def sent_is_enough(self: Outgoing, place: int) -> None:
    """Forget what was sent to anybody, though another server may have to bring it."""
    if self.kept[place].sent:
        del self.kept[place]


def delivered_again(self: ZoneTravel, unit: Unit) -> bool:
    """A unit that a second server brings is taken for new."""
    return unit.origin == self.me and unit.number <= self.seen.get(unit.origin, 0)


def everything_is_local(self: CausalSeparators, publication: Publication, out: Outbox) -> None:
    """Where the own zone has members, nobody else is thought of."""
    local = self.home in self.knowledge.group_zones.get(publication.group, {})
    self.travel.begin(PUBLICATION, local, publication, out)


def joins_not_told(self: CausalSeparators, group: GroupId, out: Outbox) -> None:
    pass


def sent_back(self: ZoneTravel, zone: HostedZone, unit: Unit, out: Outbox) -> None:
    """What came across is not brought on to further zones."""
    if unit.via == NOWHERE:
        for crossing in self.crossings:
            if crossing.here == zone.number:
                crossing.leave(unit)
                self.channels.send(crossing, crossing.outgoing.places, out)


def numbers_start_again(self: HostedZone, unit: Unit, out: Outbox) -> list[Unit]:
    """How many units a node brought into a zone does not survive a restart."""
    records = len(out.records)
    found = _publish(self, unit, out)
    del out.records[records]
    return found


def kept_not_restored(self: CausalSeparators, entered: Message) -> None:
    """After a restart a server has nothing to bring across for others."""
    _restore(self, entered)  # type: ignore[arg-type]
    for crossing in self.crossings:
        crossing.outgoing.kept = {}


def requests_forgotten(self: ZoneCrossing, lead: NodeId, carry: Message) -> None:
    """A server does not carry what the lead asks it to."""


def not_forgotten(self: Outgoing, place: int) -> None:
    """Everything is kept for ever."""


def own_channel_not_named(
    self: Outgoing, carrier: NodeId, partner: NodeId, place: int, arrived: VectorClock
) -> VectorClock:
    """What this server brought itself is forgotten, though it may be on its way."""
    brought, self.brought = self.brought, {peer: {} for peer in self.ends.partners}
    named = _named(self, carrier, partner, place, arrived)
    self.brought = brought
    return named


def everything_kept_crosses(self: ZoneCrossing, cut: Unit, counts: VectorClock) -> None:
    """A server crosses what it kept, though the cut says that it is too old."""
    _open(self, cut, {})


def nothing_kept_crosses(self: ZoneCrossing, cut: Unit, counts: VectorClock) -> None:
    """A server begins with what comes after the cut, though the cut leaves out more."""
    self.outgoing.kept = {}
    _open(self, cut, counts)


def taken_in_before_the_cut(self: ZoneCrossing, seen: VectorClock) -> Crossing | None:
    phase = self.phase
    self.phase = 2 if phase == 1 else phase
    found = _ready(self, seen)
    self.phase = phase
    return found


def nobody_awaited(self: ZoneKnowledge, joint: int) -> list[NodeId]:
    """A joint closes at once."""
    return []


def done_in_a_group(self: CausalSeparators, out: Outbox) -> None:
    """Members of groups say that they are done."""
    groups, self.groups = self.groups, {}
    _attend(self, out)
    self.groups = groups


def closed_before_all_is_there(self: ZoneCrossing) -> bool:
    ended = len(self.closed) == len(self.partners) and not self.incoming.waiting
    return self.phase != 0 and (self.sealed or ended)


def never_refused(self: CausalSeparators, group: GroupId, joining: bool) -> str:
    return ""


def joins_not_refused(self: CausalSeparators, group: GroupId, joining: bool) -> str:
    """Who is being parted may still join."""
    return "" if joining else self.knowledge.refusal(group)


def beginning_not_restored(self: ZoneCrossing, record: Message) -> None:
    """After a restart a server does not know that it had begun."""
    if not isinstance(record, Turned):
        _restore_crossing(self, record)


MUTANTS = [
    Mutant(
        "own_channel_not_named",
        "a unit that another carries names what this server brought itself",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(Outgoing, "_named", own_channel_not_named)],
        {"zone_size": 2},
    ),
    Mutant(
        "too_much_crosses",
        "what the cut counts does not cross, whoever kept it",
        ["causal_order", "fifo_order", "agreement", "at_rest"],
        [Patch(ZoneCrossing, "open", everything_kept_crosses)],
        {"zone_size": 2},
    ),
    Mutant(
        "too_little_crosses",
        "what the cut does not count crosses, though it came before it",
        ["causal_order", "fifo_order", "agreement", "at_rest"],
        [Patch(ZoneCrossing, "open", nothing_kept_crosses)],
        {"zone_size": 2},
    ),
    Mutant(
        "taken_in_before_the_cut",
        "what comes across waits for the cut on this side",
        ["agreement", "causal_order", "fifo_order", "at_rest"],
        [Patch(ZoneCrossing, "ready", taken_in_before_the_cut)],
        {"zone_size": 2},
    ),
    Mutant(
        "nobody_awaited",
        "a joint closes when all behind it are done",
        ["agreement", "causal_order", "fifo_order", "validity"],
        [Patch(ZoneKnowledge, "awaited", nobody_awaited)],
    ),
    Mutant(
        "done_in_a_group",
        "nobody is done that is in a group",
        ["agreement", "causal_order", "fifo_order"],
        [Patch(CausalSeparators, "_attend", done_in_a_group)],
    ),
    Mutant(
        "closed_before_all_is_there",
        "a joint closes when all that had to cross is there",
        ["agreement", "causal_order", "fifo_order", "at_rest"],
        [Patch(ZoneCrossing, "is_emptied", closed_before_all_is_there)],
    ),
    Mutant(
        "never_refused",
        "nobody publishes to those that cannot be reached",
        ["agreement", "causal_order", "fifo_order", "validity"],
        [Patch(CausalSeparators, "refusal", never_refused)],
    ),
    Mutant(
        "joins_not_refused",
        "who is being parted joins nothing",
        ["agreement", "causal_order", "fifo_order"],
        [Patch(CausalSeparators, "refusal", joins_not_refused)],
    ),
    Mutant(
        "beginning_not_restored",
        "that a joint opens or closes survives a restart",
        ["agreement", "causal_order", "fifo_order", "at_rest", "no_exception"],
        [Patch(ZoneCrossing, "restore", beginning_not_restored)],
        {"zone_size": 2},
    ),
    Mutant(
        "nothing_named",
        "a unit names what travels beside it",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(Outgoing, "_named", nothing_named)],
    ),
    Mutant(
        "other_zone_not_named",
        "… and what the lead had from the other zone",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(Outgoing, "_named", only_other_channels_named)],
        {"zone_size": 2},
    ),
    Mutant(
        "named_not_waited_for",
        "what is named is delivered in a zone before the unit is published there",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(ZoneCrossing, "ready", named_not_waited_for)],
    ),
    Mutant(
        "requests_forgotten",
        "servers carry what the lead asks them to",
        ["agreement"],
        [Patch(ZoneCrossing, "on_carry", requests_forgotten)],
    ),
    Mutant(
        "forgotten_too_soon",
        "a unit is kept until every server at the other side has it",
        ["agreement", "causal_order", "fifo_order", "at_rest"],
        [Patch(Outgoing, "_forget_if_there", sent_is_enough)],
    ),
    Mutant(
        "never_forgotten",
        "what every server has is forgotten",
        ["at_rest"],
        [Patch(Outgoing, "_forget_if_there", not_forgotten)],
    ),
    Mutant(
        "brought_twice_delivered_twice",
        "a unit that two servers bring is delivered once",
        ["no_duplication"],
        [Patch(ZoneTravel, "_was_seen", delivered_again)],
    ),
    Mutant(
        "local_too_often",
        "a publication stays in its zone only if all members are there",
        ["agreement", "causal_order", "fifo_order"],
        [Patch(CausalSeparators, "on_publish", everything_is_local)],
    ),
    Mutant(
        "joins_not_told",
        "who joins tells all zones",
        ["agreement"],
        [Patch(CausalSeparators, "on_join_group", joins_not_told)],
    ),
    Mutant(
        "not_brought_on",
        "what came from one zone is brought on to the next",
        ["agreement", "no_exception"],
        [Patch(ZoneTravel, "_bring_beyond", sent_back)],
    ),
    Mutant(
        "numbers_start_again",
        "numbers inside a zone go on after a restart",
        ["agreement", "no_exception", "validity"],
        [Patch(HostedZone, "publish", numbers_start_again)],
    ),
    Mutant(
        "kept_not_restored",
        "what is kept for other servers survives a restart",
        ["agreement", "causal_order", "fifo_order", "at_rest"],
        [Patch(CausalSeparators, "_restore_unit", kept_not_restored)],
    ),
]
