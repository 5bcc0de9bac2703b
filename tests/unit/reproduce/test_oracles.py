"""What can be known without measuring, held against what is measured or counted."""

import math

import pytest

from causalcast.reproduce.families import FAMILIES
from causalcast.reproduce.families.broadcast import views_for
from causalcast.reproduce.families.sizes import ball, worst_header, zipf_sum
from causalcast.reproduce.families.tree import fallen_nodes


def ball_of(radius: int, degree: int = 3) -> dict[int, list[int]]:
    """The nodes within so many hops of an inner node of a tree, each with its neighbours."""
    links: dict[int, list[int]] = {0: []}
    edge = [0]
    for hops in range(radius):
        further = []
        for node in edge:
            for _ in range(degree if hops == 0 else degree - 1):
                child = len(links)
                links[child] = [node]
                links[node].append(child)
                further.append(child)
        edge = further
    return links


def within(links: dict[int, list[int]], start: int, hops: int) -> set[int]:
    """Everybody so near to a node, itself among them."""
    found = {start}
    for _ in range(hops):
        found |= {peer for node in found for peer in links[node]}
    return found


@pytest.mark.parametrize(("f", "near", "wide"), [(1, 22, 46), (2, 94, 190), (3, 382, 766)])
def test_neighbourhoods_of_degree_3(f: int, near: int, wide: int) -> None:
    assert ball(3, 2 * f + 1) == len(ball_of(2 * f + 1)) == near
    assert ball(3, 2 * f + 2) == len(ball_of(2 * f + 2)) == wide
    assert wide < 2 ** (2 * f + 3) + 2 ** (2 * f + 2)


@pytest.mark.parametrize(("f", "pairs"), [(1, 102), (2, 822), (3, 5670)])
def test_ordered_pairs_within_f_plus_1_hops_inside_the_ball(f: int, pairs: int) -> None:
    links = ball_of(2 * f + 1)
    assert sum(len(within(links, node, f + 1)) - 1 for node in links) == pairs


def test_views_of_hyparview() -> None:
    sizes = [views_for(10**power) for power in (2, 3, 4, 5)]
    assert sizes == [(3, 18), (4, 24), (5, 30), (6, 36)]


def test_the_sum_of_group_sizes_is_not_the_printed_one() -> None:
    assert zipf_sum(65_536) == 260_519
    assert zipf_sum(65_536, math.floor) == 259_019
    assert zipf_sum(100_000, math.floor) == 395_247


@pytest.mark.parametrize(("sender", "hops"), [("root", 3), ("leaf", 6)])
def test_delta_neighbourhood_sends_one_message_a_round_trip(sender: str, hops: int) -> None:
    values = {"protocol": "delta_neighbourhood", "nodes": 15, "messages": 20, "from": sender}
    row = FAMILIES["tree"](values)
    assert row["rate"] == pytest.approx(1000 / (2 * hops), rel=0.03)
    assert row["in_flight"] == 1


def test_a_stable_tree_has_no_redundancy_and_a_flood_sends_to_every_neighbour() -> None:
    common = {"nodes": 20, "views_of": 100, "senders": 1, "broadcasts": 30, "interval_ms": 200}
    network = {"payload_bytes": 100, "nodes_per_host": 5, "host_bandwidth_mbps": 2000}
    tree = FAMILIES["broadcast"]({"protocol": "plumtree", **common, **network})
    flood = FAMILIES["broadcast"]({"protocol": "prc_broadcast", **common, **network})
    assert tree["redundancy"] == pytest.approx(0, abs=0.05)
    # Everybody sends to all its neighbours, at most three: 3n / (n - 1) - 1 copies too many.
    assert 1.5 < flood["redundancy"] <= 3 * 20 / 19 - 1
    assert tree["reliability"] == flood["reliability"] == 1.0


@pytest.mark.parametrize("nodes", [100, 127, 128, 129, 255, 256, 257])
def test_the_node_that_is_looked_at_knows_a_whole_ball(nodes: int) -> None:
    """Also where the last level of the tree has one node only."""
    found = worst_header(nodes, 1)
    assert (found["ball"], found["past_entries_most"]) == (22, 57)


@pytest.mark.parametrize("nodes", [15, 31, 63, 127])
def test_nodes_that_fall_are_four_hops_apart_and_publish_nothing(nodes: int) -> None:
    """With f = 1 no more than one of any three hops around a node may be down."""
    senders = [place * nodes // 8 for place in range(8)]
    one, other = fallen_nodes(senders, 2)
    assert one in (3, 4) and other in (5, 6) and not {one, other} & set(senders)
    assert fallen_nodes(senders, 1) == [one]
