"""A cluster on paper: which protocol, overlay and detector with which options, for whom.

Both worlds build their nodes from it, so a node is put together in one place only.
"""

from collections.abc import Callable
from typing import final

from causalcast.core.automaton import Multicast
from causalcast.core.groups import Groups
from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.spec import (
    DetectorSpec,
    Misfit,
    OptionValue,
    OverlaySpec,
    ProtocolSpec,
    Setup,
)
from causalcast.core.stack import Stack
from causalcast.core.topology import Surroundings, Topology


@final
class Blueprint:
    """Everything that all nodes of a cluster have in common."""

    def __init__(
        self,
        protocol: ProtocolSpec,
        protocol_options: dict[str, OptionValue],
        overlay: OverlaySpec,
        overlay_options: dict[str, OptionValue],
        detector: DetectorSpec,
        detector_options: dict[str, OptionValue],
        groups: Groups,
        topology: Topology,
        find_protocol: Callable[[str], ProtocolSpec],
    ) -> None:
        self.protocol = protocol
        self.protocol_options = protocol_options
        self.overlay = overlay
        self.overlay_options = overlay_options
        self.detector = detector
        self.detector_options = detector_options
        self.groups = groups
        self.topology = topology
        self._find_protocol = find_protocol

    def messages(self) -> list[list[type[Message]]]:
        """The message classes of a node, layer by layer; their order numbers them on the wire."""
        return [self.detector.messages, self.overlay.messages, self.protocol.messages]

    def misfit(self) -> str:
        """Why this protocol cannot keep its promises on this overlay; empty if it can."""
        needed = self.protocol.needs.overlay
        if needed in ("static", "tree", "mesh") and not self.overlay.static:
            return f"{self.protocol.name} needs an overlay that does not change"
        if needed == "tree" and not self.topology.is_tree():
            return (
                f"{self.protocol.name} needs a tree, and the overlay's graph has a cycle or a gap"
            )
        if needed == "mesh" and not self.topology.is_complete():
            return f"{self.protocol.name} needs everybody to be a neighbour (overlay full_mesh)"
        return ""

    def reach(self) -> int:
        """How many hops away in the graph nodes keep links to."""
        asked = self.protocol.reach
        return 1 if asked is None else asked(self.protocol_options)

    def build(
        self, me: NodeId, seed: str, place: NodeId | None = None, newcomer: bool = False
    ) -> Stack:
        """A new node. `place` is whose place in the graph it takes (its own if not given).

        A `newcomer` comes into a system that runs already, without a past of its own in it.

        `seed` should differ from run to run; each layer of each node draws from its own stream.
        """
        mine = me if place is None else place
        around = Surroundings(mine, self.topology, self.groups, self.reach())

        def setup(layer: str, options: dict[str, OptionValue]) -> Setup:
            own_seed = f"{seed}/{me}/{layer}"
            return Setup(me, own_seed, options, self.groups, around, inner, newcomer)

        def inner(name: str, options: dict[str, OptionValue], members: list[NodeId]) -> Multicast:
            spec = self._find_protocol(name)
            graph = {node: [peer for peer in members if peer != node] for node in members}
            inside = Surroundings(me, Topology(graph), self.groups)
            settings = spec.settings(dict(options))
            own_seed = f"{seed}/{me}/inner/{name}"
            return spec.build(Setup(me, own_seed, settings, self.groups, inside, inner, newcomer))

        detector = self.detector.build(setup("detector", self.detector_options))
        overlay = self.overlay.build(setup("overlay", self.overlay_options))
        multicast = self.protocol.build(setup("multicast", self.protocol_options))
        return Stack(me, detector, overlay, multicast)

    def tolerates(self, down: list[NodeId], seed: str) -> bool:
        """Whether the protocol keeps its promises while these nodes are away at once."""
        judge = self.protocol.tolerates
        if judge is None:
            return not down
        someone = next(iter(self.topology.neighbours))
        around = Surroundings(someone, self.topology, self.groups)

        def no_inner(_: str, __: dict[str, OptionValue], ___: list[NodeId]) -> Multicast:
            raise Misfit("asking what is tolerated builds no protocol")

        setup = Setup(someone, seed, self.protocol_options, self.groups, around, no_inner)
        return judge(down, setup)
