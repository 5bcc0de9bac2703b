"""The overlay's graph at the start, and the part of it that a node may know."""

from typing import final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId


@final
class Topology:
    """All nodes and their neighbours. The world knows it; a protocol gets its `Surroundings`."""

    def __init__(self, neighbours: dict[NodeId, list[NodeId]]) -> None:
        self.neighbours = neighbours

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


@final
class Surroundings:
    """What one node may ask about the overlay around it."""

    def __init__(self, me: NodeId, topology: Topology, groups: Groups) -> None:
        self._me = me
        self._topology = topology
        self._groups = groups

    def neighbours(self) -> list[NodeId]:
        """My neighbours in the overlay's graph."""
        return list(self._topology.neighbours.get(self._me, []))

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

    def behind(self, peer: NodeId, group: GroupId) -> bool:
        """Whether a member of `group` is `peer` or lies beyond it, seen from me, on a tree."""
        distance = self._topology.distances(self._me, len(self._topology.neighbours))
        members = dict.fromkeys(self._groups.members_of(group))
        frontier = [peer]
        while frontier:
            node = frontier.pop()
            if node in members:
                return True
            frontier.extend(
                further
                for further in self._topology.neighbours[node]
                if distance[further] > distance[node]
            )
        return False
