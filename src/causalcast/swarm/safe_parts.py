"""Agreement per connected part: which nodes must agree, by the links that stand at the end.

A protocol that promises `agreement_per_part` says which neighbours are certain to get what a node
delivers (`SPEC.reaches`). Nodes that reach one another along such links form a part, and what one
of them delivered all others must have. The same holds one way: whoever can be reached from a node
must have what that node delivered (*link agreement*). Nothing else is promised between parts: a
node that lost its last way back into the system cannot know what it misses.
"""

from collections.abc import Iterator

from causalcast.core.ids import NodeId
from causalcast.core.spec import ProtocolSpec
from causalcast.judge.judgement import Violation
from causalcast.simulator.worlds.simulated_world import SimulatedWorld
from causalcast.trace.run_folder import Run

PROMISE = "agreement_per_part"


class Parts:
    """The nodes that are up, part by part, and from whom each of them hears."""

    def __init__(self, world: SimulatedWorld, spec: ProtocolSpec) -> None:
        reaches = spec.reaches
        assert reaches is not None, f"{spec.name} promises {PROMISE}: SPEC.reaches is missing"
        up = {node.me: list(reaches(node.stack.multicast)) for node in world.nodes if node.up}
        # One end may not have heard yet that a link is gone.
        self._graph = {
            node: [peer for peer in peers if peer in up and node in world.links_of(peer)]
            for node, peers in up.items()
        }
        ways_from = {node: _reached(self._graph, node) for node in self._graph}
        self.part_of = {
            node: [other for other in ways_from[node] if node in ways_from[other]]
            for node in self._graph
        }
        self.heard_by = {
            node: [other for other in self._graph if node in ways_from[other]]
            for node in self._graph
        }

    def count(self) -> int:
        """How many parts there are."""
        return len({min(part) for part in self.part_of.values()})

    def is_closed(self, node: NodeId) -> bool:
        """Whether no link leads out of the part of `node`, nor into it.

        What a part is owed over a link from outside never comes, if nothing leads back there.
        """
        inside = self.part_of[node]
        ways = [(a, b) for a, peers in self._graph.items() for b in peers]
        return all((a in inside) == (b in inside) for a, b in ways)


def within_parts(violations: list[Violation], run: Run, parts: Parts) -> Iterator[Violation]:
    """The violations that count: some node that has the message can reach the one that lacks it."""
    delivered = set()
    columns = (run.events[name].to_pylist() for name in ("kind", "node", "message"))
    for kind, node, message in zip(*columns, strict=True):
        if kind == "deliver":
            delivered.add((node, message))
    for violation in violations:
        others = parts.heard_by.get(NodeId(violation.node), [])
        if any((other, violation.message) in delivered for other in others):
            yield violation


def _reached(graph: dict[NodeId, list[NodeId]], start: NodeId) -> dict[NodeId, None]:
    found: dict[NodeId, None] = {start: None}
    waiting = [start]
    while waiting:
        for peer in graph[waiting.pop()]:
            if peer not in found:
                found[peer] = None
                waiting.append(peer)
    return found
