"""Agreement per part: who can be expected to agree, as the nodes themselves saw it at the end.

A protocol that promises `agreement_per_part` says which neighbours are certain to get what a node
delivers (`SPEC.reaches`). Nodes that reach one another along such links form a part, and what one
of them delivered all others must have. Between parts nothing is promised: a node that lost its last
way back into the system cannot know what it misses.
"""

from collections.abc import Iterator

from causalcast.core.ids import NodeId
from causalcast.core.spec import ProtocolSpec
from causalcast.judge.judgement import Violation
from causalcast.simulator.living_world import LivingWorld
from causalcast.trace.run_folder import Run

PROMISE = "agreement_per_part"


def parts_of(world: LivingWorld, spec: ProtocolSpec) -> list[list[NodeId]]:
    """The nodes that are up, part by part."""
    reaches = spec.reaches
    assert reaches is not None, f"{spec.name} promises {PROMISE} and does not say what it reaches"
    up = {node.me: list(reaches(node.stack.multicast)) for node in world.nodes if node.up}
    known = {
        node: [peer for peer in peers if peer in up and node in _known_to(world, peer)]
        for node, peers in up.items()
    }
    ways_from = {node: _reached(known, node) for node in known}
    parts: list[list[NodeId]] = []
    placed: set[NodeId] = set()
    for node in known:
        if node not in placed:
            part = [other for other in ways_from[node] if node in ways_from[other]]
            placed.update(part)
            parts.append(part)
    return parts


def within_parts(
    violations: list[Violation], run: Run, parts: list[list[NodeId]]
) -> Iterator[Violation]:
    """Those violations of agreement where somebody in the same part has the message."""
    delivered = set()
    columns = (run.events[name].to_pylist() for name in ("kind", "node", "message"))
    for kind, node, message in zip(*columns, strict=True):
        if kind == "deliver":
            delivered.add((node, message))
    part_of = {node: part for part in parts for node in part}
    for violation in violations:
        others = part_of.get(NodeId(violation.node), [])
        if any((other, violation.message) in delivered for other in others):
            yield violation


def _known_to(world: LivingWorld, peer: NodeId) -> list[NodeId]:
    """Whose links this node still has: one end may not have heard yet that a link is gone."""
    return list(world.links_of(peer))


def _reached(graph: dict[NodeId, list[NodeId]], start: NodeId) -> dict[NodeId, None]:
    found: dict[NodeId, None] = {start: None}
    waiting = [start]
    while waiting:
        for peer in graph[waiting.pop()]:
            if peer not in found:
                found[peer] = None
                waiting.append(peer)
    return found
