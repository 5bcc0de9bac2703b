"""The overlay's graph at the start, and the part of it that a node may know."""

from collections.abc import Callable
from typing import final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId


@final
class Topology:
    """All nodes and their neighbours. The world knows it; a protocol gets its `Surroundings`."""

    def __init__(self, neighbours: dict[NodeId, list[NodeId]]) -> None:
        self.neighbours = neighbours
        self._parents: dict[NodeId, NodeId] = {}  # as a tree hangs from its first node
        self._below: dict[GroupId, tuple[Groups, dict[NodeId, int]]] = {}
        self._made: dict[str, object] = {}  # from the whole graph, for all who ask

    def once(self, name: str, make: "Callable[[Topology], object]") -> object:
        """What `make` makes of the graph; made once under each name."""
        if name not in self._made:
            self._made[name] = make(self)
        return self._made[name]

    def is_tree(self) -> bool:
        """Connected and without a cycle."""
        edges = sum(len(peers) for peers in self.neighbours.values()) // 2
        return self.is_connected() and edges == len(self.neighbours) - 1

    def is_connected(self) -> bool:
        """Every node can be reached from every other."""
        for start in self.neighbours:
            return len(self.distances(start, len(self.neighbours))) == len(self.neighbours)
        return True

    def is_complete(self) -> bool:
        """Everybody is everybody's neighbour."""
        others = len(self.neighbours) - 1
        return all(len(peers) == others for peers in self.neighbours.values())

    def distances(self, start: NodeId, radius: int) -> dict[NodeId, int]:
        """Hops from `start` to every node within `radius`, nearest first."""
        found = {start: 0}
        frontier = [start]
        for hops in range(1, radius + 1):
            reached: list[NodeId] = []
            for node in frontier:
                for peer in self.neighbours[node]:
                    if peer not in found:
                        found[peer] = hops
                        reached.append(peer)
            if not reached:
                break
            frontier = reached
        return found

    def leads_to_members(self, me: NodeId, peer: NodeId, groups: Groups, group: GroupId) -> bool:
        """Whether a member of `group` is `peer` or lies beyond it, seen from `me`, on a tree.

        What lies below each node is counted once per group, for all who ask.
        """
        below = self._members_below(groups, group)
        child = me
        while child in self._parents and self._parents[child] != peer:
            child = self._parents[child]
        if child in self._parents:  # `peer` is above `me`: all but what hangs on this child
            return len(groups.members_of(group)) > below[child]
        return below[peer] > 0

    def _members_below(self, groups: Groups, group: GroupId) -> dict[NodeId, int]:
        """How many members of a group hang on each node, itself included."""
        known = self._below.get(group)
        if known is not None and known[0] is groups:
            return known[1]
        root = next(iter(self.neighbours))
        order = list(self.distances(root, len(self.neighbours)))
        members = dict.fromkeys(groups.members_of(group))
        below = {node: int(node in members) for node in order}
        self._parents = {}
        for node in order:
            for peer in self.neighbours[node]:
                if self._parents.get(node) != peer:
                    self._parents[peer] = node
        for node in reversed(order):
            if node in self._parents:
                below[self._parents[node]] += below[node]
        self._below[group] = (groups, below)
        return below


@final
class Surroundings:
    """What one node may ask about the overlay around it.

    `reach` is how many hops away in the graph the overlay is to keep links to.
    """

    def __init__(self, me: NodeId, topology: Topology, groups: Groups, reach: int = 1) -> None:
        self._me = me
        self._topology = topology
        self._groups = groups
        self._reach = reach

    def neighbours(self) -> list[NodeId]:
        """My neighbours in the overlay's graph."""
        return list(self._topology.neighbours.get(self._me, []))

    def within_reach(self) -> list[NodeId]:
        """Whom I keep links to: my neighbours, and for some protocols those behind them."""
        if self._reach == 1 or self._me not in self._topology.neighbours:
            return self.neighbours()
        distance = self._topology.distances(self._me, self._reach)
        return [node for node in distance if node != self._me]

    def everybody(self) -> list[NodeId]:
        """All nodes: only for protocols that address each member directly."""
        return list(self._topology.neighbours)

    def is_complete(self) -> bool:
        """Whether everybody is my neighbour."""
        return self._topology.is_complete()

    def ball(self, radius: int) -> Topology:
        """The part of the graph within `radius` hops of me."""
        inside = self._topology.distances(self._me, radius)
        return Topology(
            {
                node: [peer for peer in self._topology.neighbours[node] if peer in inside]
                for node in inside
            }
        )

    def once(self, name: str, make: Callable[[Topology], object]) -> object:
        """Something that follows from the whole graph alone, and so is the same for all nodes."""
        return self._topology.once(name, make)

    def behind(self, peer: NodeId, group: GroupId) -> bool:
        """Whether a member of `group` is `peer` or lies beyond it, seen from me, on a tree."""
        return self._topology.leads_to_members(self._me, peer, self._groups, group)
