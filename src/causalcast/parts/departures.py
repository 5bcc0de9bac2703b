"""Nodes that were declared gone for good, and whether all around them said what they had of them.

What a node that is gone had published may have reached some of its neighbours and not others. Those
who have it hand it on, and say when they are through. Only when everybody near has said so is what
is still missing given up: nobody can bring it any more.
"""

from causalcast.core.ids import NodeId
from causalcast.parts.neighbourhood import Neighbourhood


class Departures:
    """What one node knows of those that are gone."""

    def __init__(self, around: Neighbourhood, reach: int, horizon: int) -> None:
        self.me = around.me
        self.around = around
        self.reach = reach
        self.horizon = horizon
        self.gone: dict[NodeId, None] = {}
        # Does not survive a crash: then everybody is asked again.
        self.given_up: dict[NodeId, None] = {}
        self.heard: dict[NodeId, dict[NodeId, None]] = {}  # gone -> who is through with it

    def declare(self, peer: NodeId) -> None:
        """It never comes back."""
        self.gone[peer] = None
        self.heard[peer] = {}

    def to_tell(self, peer: NodeId) -> list[NodeId]:
        """Those within reach that know a node that is gone."""
        return [
            node
            for node in self.around.within(self.reach)
            if node not in self.gone and self.around.distance(node, peer) <= self.horizon
        ]

    def awaited(self, peer: NodeId) -> list[NodeId]:
        """Those that could still send something of it: they stand between, or across it."""
        return [
            node
            for node in self.unheard(peer)
            if node in self.around.between(self.me, peer)
            or peer in self.around.between(self.me, node)
        ]

    def unheard(self, peer: NodeId) -> list[NodeId]:
        """Those that may not even know that it is gone."""
        return [node for node in self.to_tell(peer) if node not in self.heard[peer]]

    def is_unsettled(self) -> bool:
        """Whether somebody has to be asked again."""
        return any(self.unheard(peer) for peer in self.gone)
