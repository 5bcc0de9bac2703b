"""Which entries of a clock changed since the last message to a peer.

M. Singhal, A. Kshemkalyani, "An efficient implementation of vector clocks", 1992. A node keeps, for
each entry, when it last changed (LU, last update), and for each peer, when it last sent to it (LS,
last sent); both by a count of its own. An entry must be sent to a peer if it changed after that.
So n peers cost n numbers, not n vectors.
"""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.parts.vector_clock import VectorClock


@final
class ChangedEntries:
    """The clock as it is now, and what each peer has not been told of it."""

    def __init__(self) -> None:
        self.clock: VectorClock = {}
        self.turn = 0  # counts; in the paper it is the node's own slot
        self.last_update: dict[NodeId, int] = {}
        self.last_sent: dict[NodeId, int] = {}

    def put(self, node: NodeId, count: int) -> None:
        """An entry has this value now."""
        if self.clock.get(node, 0) != count:
            self.clock[node] = count
            self.last_update[node] = self.turn

    def become(self, clock: VectorClock) -> None:
        """The clock is this one now; entries that it lacks are zero."""
        for node in self.clock:
            if node not in clock:
                self.put(node, 0)
        for node, count in clock.items():
            self.put(node, count)

    def changed_for(self, peer: NodeId) -> VectorClock:
        """What `peer` has to be told now; from here on it is told."""
        since = self.last_sent.get(peer, -1)
        changed = {
            node: count for node, count in self.clock.items() if self.last_update[node] > since
        }
        self.last_sent[peer] = self.turn
        return changed

    def forget(self, peer: NodeId) -> None:
        """`peer` knows nothing any more."""
        self.last_sent.pop(peer, None)
