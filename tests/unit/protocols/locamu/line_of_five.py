"""What one node of a line of five knows, for tests of parts by themselves: 0 - 1 - 2 - 3 - 4."""

from causalcast.core import GroupId, Groups, LinkId, NodeId, Publication, Setup, message_id
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.safe_path import SafePath
from causalcast.protocols.locamu.spec import SPEC

NODES = [NodeId(n) for n in range(5)]
N0, N1, N2, N3, N4 = NODES


def state_of(me: NodeId) -> NodeState:
    """With f = 1: links reach two hops, numbers are kept of three."""
    graph = Topology({n: [m for m in NODES if abs(m - n) == 1] for n in NODES})
    groups = Groups({"all": NODES})
    options = {option.name: option.default for option in SPEC.options}

    def no_inner(*_: object) -> None:
        raise AssertionError

    surroundings = Surroundings(me, graph, groups)
    setup = Setup(me, "seed", options, groups, surroundings, no_inner)  # type: ignore[arg-type]
    around = Neighbourhood(me, surroundings.ball(3))
    state = NodeState(setup, around, SafePath(around, 2, 3, 2))
    state.peers.links = {peer: LinkId(peer) for peer in state.peers.reachable}
    return state


def publication(number: int) -> Publication:
    """The `number`-th of node 0."""
    return Publication(message_id(N0, number), GroupId(0), b"")


def copy_from_1(number: int, needs: dict[tuple[NodeId, NodeId], int]) -> Arrived:
    """A copy of the `number`-th publication of node 0, one hop on its way from node 1 to node 2."""
    numbers = {N0: {N1: number, N2: number}, N1: {N2: number, N3: number}}
    message = Copy(publication(number), b"")
    copy = Arrived(N1, message, N0, 0, N1, numbers, needs, 0)
    copy.number = number
    return copy
