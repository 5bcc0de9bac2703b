"""Graphs to start from: lines, rings, stars, trees, random trees, random regular graphs, meshes."""

import random
from collections.abc import Callable
from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.topology import Topology

Edge = tuple[int, int]


def from_edges(nodes: int, edges: list[Edge]) -> Topology:
    """The graph of nodes 0..n-1 with these edges; raises ValueError for an edge that cannot be."""
    neighbours: dict[NodeId, dict[NodeId, None]] = {NodeId(n): {} for n in range(nodes)}
    for a, b in edges:
        for end in (a, b):
            if not 0 <= end < nodes:
                raise ValueError(f"edge [{a}, {b}]: there is no node {end}")
        if a == b:
            raise ValueError(f"edge [{a}, {b}] leads from a node to itself")
        neighbours[NodeId(a)][NodeId(b)] = None
        neighbours[NodeId(b)][NodeId(a)] = None
    return Topology({node: list(peers) for node, peers in neighbours.items()})


def line(nodes: int) -> list[Edge]:
    """0 – 1 – 2 – …"""
    return [(n, n + 1) for n in range(nodes - 1)]


def ring(nodes: int) -> list[Edge]:
    """A line whose ends meet."""
    return line(nodes) + ([(nodes - 1, 0)] if nodes > 2 else [])


def star(nodes: int) -> list[Edge]:
    """Everybody is joined to node 0."""
    return [(0, n) for n in range(1, nodes)]


def tree(nodes: int, degree: int) -> list[Edge]:
    """Heap order: inner nodes have `degree` neighbours, the root one less."""
    children = degree - 1
    return [((n - 1) // children, n) for n in range(1, nodes)]


def random_tree(nodes: int, rng: random.Random) -> list[Edge]:
    """Each node joins a random earlier one."""
    return [(rng.randrange(n), n) for n in range(1, nodes)]


def random_regular(nodes: int, degree: int, rng: random.Random) -> list[Edge]:
    """Random perfect matchings laid over one another, until all are joined; degrees may fall short
    of `degree` where matchings agree on an edge."""
    for _ in range(100):
        edges: dict[Edge, None] = {}
        for _ in range(degree):
            order = list(range(nodes))
            rng.shuffle(order)
            for a, b in zip(order[::2], order[1::2], strict=False):
                edges[min(a, b), max(a, b)] = None
        found = list(edges)
        if from_edges(nodes, found).is_connected():
            return found
    raise ValueError(f"no connected graph of degree {degree} on {nodes} nodes was found")


def full_mesh(nodes: int) -> list[Edge]:
    """Everybody is joined to everybody."""
    return [(a, b) for a in range(nodes) for b in range(a + 1, nodes)]


# Graphs that follow from the number of nodes alone.
SIMPLE: Final[dict[str, Callable[[int], list[Edge]]]] = {
    "line": line,
    "ring": ring,
    "star": star,
    "full_mesh": full_mesh,
}
