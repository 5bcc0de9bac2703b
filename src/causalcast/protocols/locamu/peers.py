"""Who is within reach of a node of the tree, and whom of them it can use now.

A node has links to everybody within f+1 hops. It sends to the first node on each way that is not
suspected: to its neighbours, as long as nobody is.
"""

from causalcast.core.ids import LinkId, NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu.fault_budget import is_within_budget


class Peers:
    """The nodes within reach; which of them are linked, suspected, and sent to."""

    def __init__(self, around: Neighbourhood, f: int) -> None:
        self.me = around.me
        self.around = around
        self.f = f
        self.reach = f + 1  # hops to those that this node has links to and gives numbers for
        # Whether everybody gets everything around nodes that are down. With f of 2 or more that
        # takes more than is done here.
        self.goes_on = f == 1
        self.horizon = 2 * f + 1  # hops to those that the past is kept of
        self.reachable = dict.fromkeys(around.within(self.reach))
        # Nothing of this survives a crash.
        self.links: dict[NodeId, LinkId] = {}
        self.suspected: dict[NodeId, None] = {}  # those that are gone for good, too
        self.unreached: dict[NodeId, None] = {}  # suspected since there never was a link to them
        self.active = self._first_live()
        self.within_budget = True  # of nodes that may be down, when that was looked at last

    def refresh(self) -> None:
        """Others are suspected now: find the first live node on each way anew."""
        # Section III-C: activeConnections.
        self.active = self._first_live()

    def _first_live(self) -> dict[NodeId, None]:
        return {
            node: None
            for node in self.reachable
            if node not in self.suspected
            and all(between in self.suspected for between in self.around.between(self.me, node))
        }

    def watch_budget(self, out: Outbox) -> None:
        """Say when more nodes are suspected than the protocol works around, and when no more."""
        within = is_within_budget(self.suspected, self.around.tree, self.f)
        if within != self.within_budget:
            self.within_budget = within
            out.note("locamu.within_budget" if within else "locamu.too_many_down")

    def fits_budget(self, peer: NodeId, others: dict[NodeId, None]) -> bool:
        """Whether messages can pass these nodes if all of them are away."""
        return is_within_budget({**others, peer: None}, self.around.tree, self.f)

    def may_speak_for(self, nodes: list[NodeId], sender: NodeId, out: Outbox) -> bool:
        """Whether a sender is believed about what one of these did: only while that seems to be
        down. Who is up speaks for itself, and a member that lies about it changes nothing. What is
        not believed now is said again, or asked for, for as long as it matters."""
        if any(node in self.suspected for node in nodes):
            return True
        out.note("locamu.not_believed", sender)
        return False

    def tell(self, node: NodeId, message: Message, out: Outbox) -> None:
        """Send a message if there is a link; else it is said again, or asked for, when there is."""
        if node in self.links:
            out.send(node, message, self.links[node])
