"""Zones of nodes and where they are joined; the zones and their joints form a tree.

Zones are given as lists of nodes, or made of neighbours in the overlay's graph. Two zones are
joined by links between servers (`pairs`), or each through one node of its own that is also in a
zone of all such nodes (`daisy`, the hub). Where a cycle of zones would arise there is none: two
ways between two zones would let effects overtake their causes.

The tree is a plan: some zones may be apart at the start, and a joint may be opened and closed while
the system runs. Zone 0 is the root; whatever does not reach it is apart.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.spec import Misfit
from causalcast.core.topology import Topology

PAIRS: Final = "pairs"
DAISY: Final = "daisy"


@final
class Zone:
    """Some nodes that run one causal protocol among themselves."""

    def __init__(self, protocol: str, options: dict[str, object], members: list[NodeId]) -> None:
        self.protocol = protocol
        self.options = options
        self.members = members


@final
class Joint:
    """Two zones and their servers, the first of one zone paired with the first of the other."""

    def __init__(self, zones: tuple[int, int], servers: dict[int, list[NodeId]]) -> None:
        self.zones = zones
        self.servers = servers  # by zone

    def other(self, zone: int) -> int:
        """The zone at the other side."""
        return self.zones[1] if zone == self.zones[0] else self.zones[0]


@final
class ZoneMap:
    """All zones and joints of a system."""

    def __init__(self, graph: Topology, zones: list[Zone]) -> None:
        self._graph = graph
        self.zones = zones
        self.joints: list[Joint] = []
        self.is_daisy = False
        self.apart: list[int] = []  # zones whose joint towards zone 0 is closed at the start
        self._ways: dict[int, list[int]] = {}  # the joints from each zone to zone 0
        self.home: dict[NodeId, int] = {}  # not the hub
        for number, zone in enumerate(zones):
            for node in zone.members:
                if node in self.home:
                    raise Misfit(f"zones: node {node} is in two of them")
                self.home[node] = number
        missing = [node for node in graph.neighbours if node not in self.home]
        strangers = [node for node in self.home if node not in graph.neighbours]
        if missing:
            raise Misfit(f"zones: node {missing[0]} is in none of them")
        if strangers:
            raise Misfit(f"zones: node {strangers[0]} is not in the overlay")
        self._check_connected()

    def graph_of(self, zone: int) -> Topology:
        """The links inside a zone."""
        members = self.zones[zone].members
        return Topology(
            {
                node: [peer for peer in self._graph.neighbours[node] if peer in members]
                for node in members
            }
        )

    def zones_of(self, node: NodeId) -> list[int]:
        """The zones a node is in, its home first."""
        return sorted(
            (number for number, zone in enumerate(self.zones) if node in zone.members),
            key=lambda number: number != self.home[node],
        )

    # The tree

    def way_up(self, zone: int) -> list[int]:
        """The joints on the way to zone 0, the nearest first."""
        if not self._ways:
            self._ways[0] = []
            found = [0]
            for near in found:  # grows while we walk it
                for number, joint in enumerate(self.joints):
                    far = joint.other(near)
                    if near in joint.zones and far not in self._ways:
                        self._ways[far] = [number, *self._ways[near]]
                        found.append(far)
        return self._ways[zone]

    def way(self, one: int, other: int) -> list[int]:
        """The joints between two zones."""
        up, down = self.way_up(one), self.way_up(other)
        return [joint for joint in up if joint not in down] + [
            joint for joint in down if joint not in up
        ]

    def far_side(self, joint: int) -> int:
        """The zone of a joint that is cut off from zone 0 while it is closed."""
        one, other = self.joints[joint].zones
        return one if joint in self.way_up(one) else other

    def shut_at_start(self) -> list[int]:
        """The joints that are closed at the start."""
        return [self.way_up(zone)[0] for zone in self.apart]

    def joint_of(self, zones: tuple[int, int]) -> int | None:
        """The number of the joint between two zones; none if they are not neighbours."""
        for number, joint in enumerate(self.joints):
            if joint.zones == (min(zones), max(zones)):
                return number
        return None

    # Joining

    def join_pairs(self, wanted: list[tuple[int, int]] | None, servers: int) -> None:
        """Join zones by links between servers: these pairs, or all that are linked."""
        linked = self._linked_zones()
        for pair in linked if wanted is None else wanted:
            if pair not in linked:
                raise Misfit(f"zones {pair[0]} and {pair[1]} have no link to join them by")
            self.joints.append(Joint(pair, self._servers(pair, servers)))
        self._check_tree()

    def join_spanning(self, servers: int) -> None:
        """Join zones by links between servers, along some tree."""
        linked = self._linked_zones()
        reached = [0]
        for zone in reached:  # grows while we walk it
            for pair in linked:
                other = pair[1] if pair[0] == zone else pair[0]
                if zone in pair and other not in reached:
                    reached.append(other)
                    self.joints.append(Joint(pair, self._servers(pair, servers)))
        self._check_tree()

    def join_by_hub(self, protocol: str, options: dict[str, object]) -> None:
        """Let the first node of every zone be in a zone of all these."""
        if len(self.zones) == 1:
            return
        self.is_daisy = True
        hub = len(self.zones)
        firsts = [zone.members[0] for zone in self.zones]
        for number, first in enumerate(firsts):
            self.joints.append(Joint((number, hub), {number: [first], hub: [first]}))
        self.zones.append(Zone(protocol, options, firsts))
        self._check_connected()

    def _linked_zones(self) -> list[tuple[int, int]]:
        pairs = {
            (min(self.home[node], self.home[peer]), max(self.home[node], self.home[peer])): None
            for node, peers in self._graph.neighbours.items()
            for peer in peers
        }
        return sorted(pair for pair in pairs if pair[0] != pair[1])

    def _servers(self, pair: tuple[int, int], most: int) -> dict[int, list[NodeId]]:
        """Pairs of nodes, each in one pair at most; if several, all linked with one another."""
        here: list[NodeId] = []
        there: list[NodeId] = []
        for node in self.zones[pair[0]].members:
            for peer in sorted(self._graph.neighbours[node]):
                fits = self.home[peer] == pair[1] and node not in here and peer not in there
                if fits and len(here) < most and self._is_clique([*here, *there, node, peer]):
                    here.append(node)
                    there.append(peer)
        return {pair[0]: here, pair[1]: there}

    def _is_clique(self, nodes: list[NodeId]) -> bool:
        return all(
            node == peer or peer in self._graph.neighbours[node] for node in nodes for peer in nodes
        )

    def set_apart(self, zones: list[int]) -> None:
        """Let these be apart at the start, each with the zones that are joined through it."""
        if zones and self.is_daisy:
            raise Misfit("apart: the zones of a daisy share nodes, and are joined for ever")
        for zone in zones:
            if not 0 < zone < len(self.zones):
                raise Misfit(f"apart: zone {zone} is not one of 1 to {len(self.zones) - 1}")
        self.apart = zones

    # Checking

    def _check_connected(self) -> None:
        for number in range(len(self.zones)):
            if not self.graph_of(number).is_connected():
                raise Misfit(f"zone {number}: its nodes must be linked among themselves")

    def _check_tree(self) -> None:
        part = list(range(len(self.zones)))  # who is reached from whom so far
        for joint in self.joints:
            one, other = (part[zone] for zone in joint.zones)
            if one == other:
                raise Misfit(
                    f"zones {joint.zones[0]} and {joint.zones[1]} close a cycle of zones: "
                    "interconnection needs a tree of zones (joints says which to join)"
                )
            part = [one if zone == other else zone for zone in part]
        if len(set(part)) > 1:
            apart = next(zone for zone in range(len(part)) if part[zone] != part[0])
            raise Misfit(f"zone {apart} is not joined to zone 0, not even through others")


def pieces(graph: Topology, size: int) -> list[list[NodeId]]:
    """Neighbours in pieces of at most `size` nodes, each piece connected.

    By ids alone, for all nodes must come to the same, however their settings list the graph.
    """
    found: list[list[NodeId]] = []
    taken: dict[NodeId, None] = {}
    for start in sorted(graph.neighbours):
        if start in taken:
            continue
        piece = [start]
        for node in piece:  # grows while we walk it
            for peer in sorted(graph.neighbours[node]):
                if len(piece) < size and peer not in taken and peer not in piece:
                    piece.append(peer)
        taken.update(dict.fromkeys(piece))
        found.append(piece)
    return found


def parse_zones(text: str) -> list[list[NodeId]]:
    """`0-3; 4 5 7` as lists of nodes."""
    return [
        [NodeId(node) for word in part.split() for node in _range(word)] for part in text.split(";")
    ]


def parse_joints(text: str) -> list[tuple[int, int]]:
    """`0-1 1-2` as pairs of zones."""
    pairs = []
    for word in text.split():
        one, dash, other = word.partition("-")
        if not (one.isdigit() and dash and other.isdigit()):
            raise Misfit(f"joints: {word!r} is no pair of zones such as 0-1")
        pairs.append((min(int(one), int(other)), max(int(one), int(other))))
    return pairs


def parse_apart(text: str) -> list[int]:
    """`2 3` as zones."""
    for word in text.split():
        if not word.isdigit():
            raise Misfit(f"apart: {word!r} is no number of a zone")
    return [int(word) for word in text.split()]


def parse_protocol(text: str) -> tuple[str, dict[str, object]]:
    """`first_generation window=50` as a name and its options."""
    if not text.split():
        raise Misfit("a zone's protocol has no name")
    name, *settings = text.split()
    options: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise Misfit(f"{name}: {setting!r} is no setting such as window=50")
        options[key] = value
    return name, options


def _range(word: str) -> list[int]:
    first, dash, last = word.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise Misfit(f"zones: {word!r} is no node and no range of nodes such as 0-3")
    return list(range(int(first), int(last or first) + 1))
