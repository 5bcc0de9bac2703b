"""Zones made of a graph: connected, as large as allowed, and the same for everybody."""

from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import NodeId, graphs
from causalcast.core.topology import Topology
from causalcast.protocols.causal_separators.zone_map import Zone, ZoneMap, pieces


@st.composite
def connected_graphs(draw: st.DrawFn) -> Topology:
    nodes = draw(st.integers(1, 12))
    edges = [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)]
    more = st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=8)
    edges += [(min(pair), max(pair)) for pair in draw(more) if pair[0] != pair[1]]
    return graphs.from_edges(nodes, list(dict.fromkeys(edges)))


@given(connected_graphs(), st.integers(1, 6), st.integers(1, 3))
def test_zones_of_any_graph_are_connected_and_form_a_tree(
    graph: Topology, size: int, servers: int
) -> None:
    lists = pieces(graph, size)
    assert sorted(node for piece in lists for node in piece) == sorted(graph.neighbours)
    assert all(len(piece) <= size for piece in lists)
    found = ZoneMap(graph, [Zone("psync", {}, piece) for piece in lists])
    found.join_spanning(servers)  # checks that it is a tree
    assert len(found.joints) == len(lists) - 1
    for joint in found.joints:
        here, there = (joint.servers[zone] for zone in joint.zones)
        assert 1 <= len(here) == len(there) <= servers
        everybody = [*here, *there]
        assert all(b in graph.neighbours[a] for a in everybody for b in everybody if a != b)


def test_the_order_in_which_a_graph_is_listed_does_not_matter() -> None:
    graph = graphs.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)])
    turned = Topology(
        {NodeId(n): list(reversed(graph.neighbours[NodeId(n)])) for n in (3, 5, 1, 0, 2, 4)}
    )
    assert pieces(graph, 3) == pieces(turned, 3) == [[0, 1, 5], [2, 3, 4]]
