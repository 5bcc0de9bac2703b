"""How causal separators are built from a plan of zones, what they need and promise; options."""

from causalcast.core.automaton import Multicast
from causalcast.core.command import CommandForm
from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.spec import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    CommandPlan,
    Misfit,
    Needs,
    Option,
    OptionValue,
    ProtocolSpec,
    Setup,
)
from causalcast.core.topology import Topology
from causalcast.parts.addressed import reliable_links
from causalcast.protocols.causal_separators import (
    crossing_messages,
    hosted_zone,
    zone_crossing,
    zone_knowledge,
)
from causalcast.protocols.causal_separators.hosted_zone import HostedZone
from causalcast.protocols.causal_separators.protocol import Belongs, CausalSeparators, Standing
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
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
from causalcast.protocols.causal_separators.zone_travel import Entered


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
    zones = {number: _hosted(setup, zone_map, number) for number in zone_map.zones_of(setup.me)}
    return CausalSeparators(setup, zone_map, zones, _crossings(setup, zone_map))


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
    return not any(crossing.incoming.waiting for crossing in multicast.crossings)


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, CausalSeparators)
    kept = any(crossing.outgoing.kept for crossing in multicast.crossings)
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
        *crossing_messages.MESSAGES,
        *reliable_links.MESSAGES,
    ],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=[
        Option(
            "form",
            PAIRS,
            "how zones are joined: linked servers, or one node of each zone in a zone of servers",
            choices=[PAIRS, DAISY],
            change_if="zones are far apart, and one node of each reaches those of all others",
        ),
        Option(
            "zones",
            "",
            "the nodes of each zone, such as '0-3; 4-7'; by themselves if empty",
            change_if="you know who is near whom",
        ),
        Option(
            "zone_size",
            4,
            # Small zones, as the survey advises (section 3.4): clocks and packets stay small.
            "how many nodes a zone has at most, where zones are not given",
            least=1,
            change_if="zones are made by themselves and should be larger or smaller",
        ),
        Option(
            "joints",
            "",
            "which zones are joined, such as '0-1 1-2'; if empty, all given ones that are linked",
            change_if="not all zones that could be joined should be",
        ),
        Option(
            "apart",
            "",
            "zones that are in the plan and joined later, such as '2 3'",
            change_if="a zone of the plan comes later",
        ),
        Option(
            "servers",
            2,
            # The least that lets one take the place of another.
            "how many servers of a zone stand side by side at each joint, at most",
            least=1,
            change_if="more than one server of a joint may be away at once",
        ),
        Option(
            "inside",
            "vector_clock_broadcast",
            "the protocols of the zones, in turn, such as 'psync, first_generation window=50'",
            change_if="a zone has few or many publishers: the survey says which protocol fits",
        ),
        Option(
            "between",
            "compaction_multicast",
            "the protocol of the servers' zone of a daisy",
            change_if="the zone of servers has few or many publishers",
        ),
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
    adds_to_bodies=1 << 16,  # a unit of a zone names what its publication follows
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
