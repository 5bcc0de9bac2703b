"""How many nodes may be away at once: at most f of any 2f+1 in a row."""

from causalcast.core.ids import NodeId
from causalcast.core.topology import Topology


def is_within_budget(down: dict[NodeId, None], tree: Topology, f: int) -> bool:
    """Whether at most f of these nodes lie on any way of 2f+1 nodes."""
    for first in down:
        ways = [[first]]
        for _ in range(2 * f):
            ways = [
                [*way, node] for way in ways for node in tree.neighbours[way[-1]] if node not in way
            ]
            if any(sum(node in down for node in way) > f for way in ways):
                return False
    return True
