"""What a node knows of the tree around it: who is how far away, and along which way.

Only the ball around the node is kept, so this has the same size in a tree of fifty nodes and of a
million. The way between two nodes of a ball lies in the ball, and two nodes agree on everything
that both their balls show.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.topology import Topology

NOBODY: Final = NodeId(-1)
Pair = tuple[NodeId, NodeId]


class Neighbourhood:
    """The ball around `me` in a tree."""

    def __init__(self, me: NodeId, ball: Topology) -> None:
        self.me = me
        self.tree = ball
        self._place = {node: place for place, node in enumerate(ball.neighbours)}
        self._size = len(self._place)
        self._distances = bytearray(self._size * self._size)
        for node, place in self._place.items():
            for other, hops in ball.distances(node, self._size).items():
                self._distances[place * self._size + self._place[other]] = hops
        self._ways: dict[Pair, list[NodeId]] = {}
        self._near: dict[Pair, dict[Pair, None]] = {}

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: a cache is no part of the state."""
        return {**self.__dict__, "_ways": {}, "_near": {}}

    def nodes(self) -> list[NodeId]:
        """Everybody in the ball, nearest first."""
        return list(self._place)

    def knows(self, node: NodeId) -> bool:
        """Whether a node is in the ball."""
        return node in self._place

    def within(self, radius: int) -> list[NodeId]:
        """Everybody but me within `radius` hops of me, nearest first."""
        return [node for node in self._place if 0 < self.distance(self.me, node) <= radius]

    def pairs_within(self, radius: int, reach: int) -> dict[Pair, None]:
        """Pairs of an issuer within `radius` of me, and a node within `reach` of it and of me."""
        found = self._near.get((NodeId(radius), NodeId(reach)))
        if found is None:
            found = {
                (issuer, node): None
                for issuer in [self.me, *self.within(radius)]
                for node in self.within(reach)
                if 0 < self.distance(issuer, node) <= reach
            }
            self._near[NodeId(radius), NodeId(reach)] = found
        return found

    def around(self, node: NodeId) -> list[NodeId]:
        """The neighbours of a node, as far as they are in the ball."""
        return self.tree.neighbours[node]

    def distance(self, a: NodeId, b: NodeId) -> int:
        """Hops between two nodes of the ball."""
        return self._distances[self._place[a] * self._size + self._place[b]]

    def way(self, a: NodeId, b: NodeId) -> list[NodeId]:
        """All nodes from `a` to `b`, both included."""
        known = self._ways.get((a, b))
        if known is not None:
            return known
        found = [a]
        node = a
        while node != b:
            left = self.distance(node, b)
            for peer in self.tree.neighbours[node]:
                if self.distance(peer, b) < left:
                    node = peer
                    break
            found.append(node)
        self._ways[a, b] = found
        return found

    def hop(self, a: NodeId, b: NodeId) -> NodeId:
        """The neighbour of `a` on the way to `b`, which is another node."""
        return self.way(a, b)[1]

    def between(self, a: NodeId, b: NodeId) -> list[NodeId]:
        """The nodes on the way, both ends left out."""
        return self.way(a, b)[1:-1]
