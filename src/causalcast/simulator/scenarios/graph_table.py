"""Reads the table `overlay` of a scenario: which overlay, and the graph it begins with."""

import random
from pathlib import Path
from typing import Any

from causalcast.core import graphs
from causalcast.core.topology import Topology
from causalcast.errors import ConfigError
from causalcast.registry import find_overlay
from causalcast.toml_table import Table

GRAPHS = (*graphs.SIMPLE, "tree", "random_tree", "random_regular", "edges")


def read_topology(table: Table, where: str, seed: int) -> tuple[str, Topology]:
    """The overlay's name and its graph at the start."""
    if table.has("from"):
        return table.text("kind", "static_graph"), _saved_graph(table, where)
    kind = table.text("kind")
    nodes = table.integer("nodes", least=1)
    rng = random.Random(f"{seed}/topology")
    if kind not in GRAPHS:
        find_overlay(kind)  # says what is known if there is no such overlay
        return kind, graphs.from_edges(nodes, [])
    try:
        edges = _edges(kind, nodes, table, rng)
        return "static_graph", graphs.from_edges(nodes, edges)
    except ValueError as error:
        raise ConfigError(f"{where}: overlay: {error}") from None


def _edges(kind: str, nodes: int, table: Table, rng: random.Random) -> list[graphs.Edge]:
    if kind == "edges":
        return [_edge(table, edge) for edge in table.items("edges")]
    if kind == "tree":
        return graphs.tree(nodes, table.integer("degree", 3, least=2))
    if kind == "random_tree":
        return graphs.random_tree(nodes, rng)
    if kind == "random_regular":
        return graphs.random_regular(nodes, table.integer("degree", 5, least=1), rng)
    return graphs.SIMPLE[kind](nodes)


def _edge(table: Table, edge: Any) -> graphs.Edge:
    if not isinstance(edge, list) or len(edge) != 2 or not all(type(e) is int for e in edge):
        raise table.wrong("edges", edge, "pairs of nodes such as [0, 1]")
    return edge[0], edge[1]


def _saved_graph(table: Table, where: str) -> Topology:
    from causalcast.simulator.scenarios.saved_graph import read_edges  # where pyarrow is

    edges = read_edges(Path(where).parent / table.text("from"), where)
    nodes = table.integer("nodes", 1 + max((max(edge) for edge in edges), default=0))
    try:
        return graphs.from_edges(nodes, edges)
    except ValueError as error:
        raise ConfigError(f"{where}: overlay.from: {error}") from None
