"""Nodes that were declared gone for good, and whether all around them said what they had of them.

What a node that is gone had published may have reached some of its neighbours and not others. Those
who have it hand it on, and say when they are through. Only when everybody near has said so is what
is still missing given up: nobody can bring it any more.
"""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood, Pair
from causalcast.protocols.locamu.safe_path import Numbers, Stamped


class Departures:
    """What one node knows of those that are gone."""

    def __init__(self, around: Neighbourhood, reach: int, horizon: int) -> None:
        self.me = around.me
        self.around = around
        self.reach = reach
        self.horizon = horizon
        # Survives a crash.
        self.gone: dict[NodeId, None] = {}
        self.given_up: dict[NodeId, None] = {}
        # Copies that were held when a node was given up, so they do not come too late: from whom
        # and under which number -> the numbers for this node that they carry.
        self.held: dict[Pair, list[Pair]] = {}
        # Does not: then everybody is asked again.
        self.heard: dict[NodeId, dict[NodeId, None]] = {}  # gone -> who has told all it has of it
        self.refused: dict[NodeId, None] = {}  # others say they are gone, beyond the budget
        self.expelled_by = NOBODY  # who told this node that it was declared gone

    def declare(self, peer: NodeId) -> None:
        """Remember that a node never comes back."""
        self.gone[peer] = None
        self.heard[peer] = {}

    def give_up(self, peer: NodeId, held: list[list[int]]) -> None:
        """Nothing more of it is waited for, but for what these held copies bring: each is its
        sender and number, and then all the numbers for this node that it carries."""
        self.given_up[peer] = None
        # What a node that is gone was to send again is handed on by others, or lost.
        self.held = {key: pairs for key, pairs in self.held.items() if key[0] not in self.gone}
        for flat in held:
            pairs = [(NodeId(n), NodeId(flat[at + 1])) for at, n in enumerate(flat) if at % 2 == 0]
            self.held[pairs[0]] = pairs

    def expects(self, issuer: NodeId, number: int) -> bool:
        """Whether a copy with this number was held when its issuer was given up."""
        pair = (issuer, NodeId(number))
        return any(pair in pairs for pairs in self.held.values())

    def skipped_by(self, message: Stamped) -> Numbers:
        """The nodes that a message of one that was given up jumped over for good: they gave it no
        numbers, and those after them must know that."""
        if message.origin not in self.given_up:
            return {}
        way = self.around.between(message.origin, self.me)
        return {node: {} for node in way if node not in message.numbers}

    def to_tell(self, peer: NodeId) -> list[NodeId]:
        """Those within reach in whose neighbourhood the node that is gone was."""
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
