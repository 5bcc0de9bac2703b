"""Graphs have the shape their names say, and a node knows its surroundings and no more."""

import random

import pytest

from causalcast.core import Groups, NodeId, graphs
from causalcast.core.ids import GroupId
from causalcast.core.topology import Surroundings, Topology


def degrees(topology: Topology) -> list[int]:
    return [len(peers) for peers in topology.neighbours.values()]


def test_shapes() -> None:
    assert degrees(graphs.from_edges(4, graphs.line(4))) == [1, 2, 2, 1]
    assert degrees(graphs.from_edges(4, graphs.ring(4))) == [2, 2, 2, 2]
    assert degrees(graphs.from_edges(2, graphs.ring(2))) == [1, 1]
    assert degrees(graphs.from_edges(4, graphs.star(4))) == [3, 1, 1, 1]
    assert degrees(graphs.from_edges(7, graphs.tree(7, 3))) == [2, 3, 3, 1, 1, 1, 1]
    assert graphs.from_edges(5, graphs.full_mesh(5)).is_complete()


@pytest.mark.parametrize("nodes", [1, 2, 31])
def test_trees_are_trees_and_a_ring_is_none(nodes: int) -> None:
    assert graphs.from_edges(nodes, graphs.tree(nodes, 3)).is_tree()
    assert graphs.from_edges(nodes, graphs.random_tree(nodes, random.Random(1))).is_tree()
    assert graphs.from_edges(5, graphs.ring(5)).is_tree() is False
    assert graphs.from_edges(3, [(0, 1)]).is_tree() is False


def test_a_random_regular_graph_is_connected_and_has_at_most_its_degree() -> None:
    topology = graphs.from_edges(100, graphs.random_regular(100, 5, random.Random(1)))
    assert topology.is_connected()
    assert max(degrees(topology)) <= 5 and min(degrees(topology)) >= 3


@pytest.mark.parametrize("edge", [(0, 3), (1, 1), (-1, 0)])
def test_an_edge_that_cannot_be_is_refused(edge: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="edge"):
        graphs.from_edges(3, [edge])


def test_a_ball_holds_what_is_near_and_its_sizes_are_those_of_the_literature() -> None:
    """Degree 3: 22 nodes within 3 hops of an inner node, 94 within 5 (checklist, section 7)."""
    topology = graphs.from_edges(1023, graphs.tree(1023, 3))
    around = Surroundings(NodeId(20), topology, Groups({}))
    assert len(around.ball(1).neighbours) == 4
    assert len(around.ball(3).neighbours) == 22
    deeper = graphs.from_edges(4095, graphs.tree(4095, 3))
    assert len(Surroundings(NodeId(40), deeper, Groups({})).ball(5).neighbours) == 94


def test_behind_tells_on_which_side_of_a_tree_members_are() -> None:
    topology = graphs.from_edges(5, graphs.line(5))
    around = Surroundings(NodeId(2), topology, Groups({"ends": [NodeId(0)]}))
    assert around.behind(NodeId(1), GroupId(0)) is True
    assert around.behind(NodeId(3), GroupId(0)) is False
