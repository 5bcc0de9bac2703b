"""A cluster on paper: which protocol, overlay and detector with which options, for whom.

Both worlds build their nodes from it, so a node is put together in one place only.
"""

from collections.abc import Callable
from typing import final

from causalcast.core.automaton import Multicast
from causalcast.core.command import NODE, Command
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
        multicast = dict.fromkeys(self.protocol.messages)
        for hosted in self.hosted():
            multicast.update(dict.fromkeys(hosted.messages))
        return [self.detector.messages, self.overlay.messages, list(multicast)]

    def hosted(self) -> list[ProtocolSpec]:
        """The protocols that this one contains."""
        contains = self.protocol.contains
        names = [] if contains is None else contains(self.protocol_options)
        return [self._find_protocol(name) for name in dict.fromkeys(names)]

    def command(self, words: str) -> Command:
        """What an operator says; raises ValueError if it is no command in this cluster."""
        command = self.protocol.command(words)
        form = self.protocol.commands[command.name]
        for kind, number in zip(form.arguments, command.arguments, strict=True):
            is_known = number in self.topology.neighbours or not self.overlay.static
            if kind == NODE and not is_known:
                raise ValueError(f"this cluster has no node {number}")
        return command

    def links_needed(self) -> str:
        """What links must be: any, reliable or fifo; hosted protocols may need more."""
        order = ["any", "reliable", "fifo"]
        specs = [self.protocol, *self.hosted()]
        return max((spec.needs.links for spec in specs), key=order.index)

    def misfit(self) -> str:
        """Why this protocol cannot keep its promises on this overlay; empty if it can."""
        needed = self.protocol.needs.overlay
        if needed == "mesh" and self.overlay.complete and self.protocol.agrees_on_members:
            return ""
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
        self,
        me: NodeId,
        seed: str,
        place: NodeId | None = None,
        newcomer: bool = False,
        incarnation: int = 0,
        life: int = 0,
    ) -> Stack:
        """A new node. `place` is whose place in the graph it takes (its own if not given).

        A `newcomer` comes into a system that runs already, without a past of its own in it.
        `incarnation` and `life` tell a real node from what it was before.

        `seed` should differ from run to run; each layer of each node draws from its own stream.
        """
        mine = me if place is None else place
        # Where neighbours change, a node knows nobody at first, in every world.
        graph = self.topology if self.overlay.static else Topology({mine: []})
        around = Surroundings(mine, graph, self.groups, self.reach())

        def setup(layer: str, options: dict[str, OptionValue]) -> Setup:
            own_seed = f"{seed}/{me}/{layer}"
            return Setup(
                me, own_seed, options, self.groups, around, inner, newcomer, incarnation, life
            )

        def inner(
            name: str, options: dict[str, object], graph: Topology, groups: Groups
        ) -> Multicast:
            spec = self._find_protocol(name)
            _check_hosting(spec, graph)
            try:
                settings = spec.settings(options)
            except ValueError as error:
                raise Misfit(f"{name}: {error}") from None
            inside = Surroundings(me, graph, groups)
            own_seed = f"{seed}/{me}/inner/{name}"
            return spec.build(
                Setup(me, own_seed, settings, groups, inside, inner, newcomer, incarnation, life)
            )

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

        def no_inner(_: str, __: dict[str, object], ___: Topology, ____: Groups) -> Multicast:
            raise Misfit("asking what is tolerated builds no protocol")

        setup = Setup(someone, seed, self.protocol_options, self.groups, around, no_inner)
        return judge(down, setup)


def _check_hosting(spec: ProtocolSpec, graph: Topology) -> None:
    """Inside another protocol a node comes back as itself, keeps order, and has these links."""
    name = spec.name
    if "causal_order" not in spec.guarantees:
        raise Misfit(f"{name} promises no causal order, so it cannot run inside a zone")
    if spec.restart != "resume":
        raise Misfit(f"{name} forgets everything in a crash, so it cannot run inside a zone")
    if spec.contains is not None:
        raise Misfit(f"{name} contains protocols itself, so it cannot run inside a zone")
    if spec.needs.overlay == "tree" or spec.reach is not None:
        raise Misfit(f"{name} needs a tree with links across nodes, which zones do not have")
    if spec.needs.overlay == "mesh" and not graph.is_complete():
        raise Misfit(f"{name} needs links between all nodes of its zone")
