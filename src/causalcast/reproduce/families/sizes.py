"""Sizes that need no run of a whole workload: counted in the code and the codec that ship."""

import math
import random
from collections.abc import Callable
from typing import Any

from causalcast.core import GroupId, Groups, NodeId, Publication, graphs, message_id
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood
from causalcast.protocols.locamu.link_header import Header, HeaderWriter, LinkPlan
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.spec import SPEC
from causalcast.wire.codec import Codec
from causalcast.wire.framing import LENGTH_BYTES

Values = dict[str, Any]
LARGE = 1 << 31  # a number of four bytes
WORD = 4  # bytes of a slot in the papers
BARRIER_ENTRY = 8  # bytes of an entry of a causal barrier there
GROUPS = 1500  # of the Zipf distribution
ZIPF = 1.25


def size(values: Values) -> Values:
    """One quantity, by its name."""
    return SIZES[values["quantity"]](values)


def worst_header(nodes: int, f: int, degree: int = 3, first_id: int = 0) -> Values:
    """LoCaMu: the largest header an inner node can get, and what such a node keeps.

    The header is the first of a link, with every number there is in it, each of four bytes. Beside
    it, the ball that the node knows. Nodes have ids from `first_id` on.
    """
    plain = graphs.from_edges(nodes, graphs.tree(nodes, degree))
    tree = Topology(
        {
            NodeId(node + first_id): [NodeId(peer + first_id) for peer in peers]
            for node, peers in plain.neighbours.items()
        }
    )
    half = -(-_depth(nodes, degree) // 2)  # as far from the root as from the leaves: all is tree
    found: Values = {}
    for level in (half, half - 1):  # higher up where few nodes are on the last level
        me = NodeId(first_id + sum((degree - 1) ** above for above in range(level)))
        found = _largest(tree, me, f, NodeId(first_id + nodes - 1))
        if found["ball"] == ball(degree, 2 * f + 1):
            break
    return {"nodes": nodes, **found}


def _in_the_middle(f: int, degree: int, first_id: int) -> Values:
    """The same of a node with a tree around it that is large enough, whatever lies further off."""
    links: dict[NodeId, list[NodeId]] = {NodeId(first_id): []}
    edge = list(links)
    for hops in range(3 * f + 2):
        further = []
        for node in edge:
            for _ in range(degree if hops == 0 else degree - 1):
                child = NodeId(first_id + len(links))
                links[child] = [node]
                links[node].append(child)
                further.append(child)
        edge = further
    return _largest(Topology(links), NodeId(first_id), f, edge[-1])


def _largest(tree: Topology, me: NodeId, f: int, origin: NodeId) -> Values:
    around = Neighbourhood(me, Surroundings(me, tree, Groups({})).ball(2 * f + 1))
    sizes: list[int] = []
    for peer in around.within(f + 1):
        plan = LinkPlan(around, peer, me, f + 1, 2 * f + 1, 2 * f + 1)
        far = max(plan.issuers, key=lambda issuer: around.distance(issuer, me))
        numbers = {
            issuer: dict.fromkeys(plan.numbered_by(issuer), 1)  # nothing like its forecast
            for issuer in around.way(far, me)[:-1]
        }
        needs = dict.fromkeys(plan.pairs, LARGE)
        header = HeaderWriter(plan).write(Header(NOBODY, 0, numbers, needs))
        copy = Copy(Publication(message_id(origin, LARGE), GroupId(0), b""), header)
        sizes.append(LENGTH_BYTES + len(Codec([[], [], SPEC.messages]).encode(copy)))
        if f == 1:
            sizes.append(_publishers_copy(tree, around, peer, me))
    near = around.within(f + 1)
    pairs = [
        (issuer, node)
        for issuer in around.nodes()
        for node in near
        if issuer != node and around.distance(issuer, node) <= f + 1
    ]
    return {
        "f": f,
        "largest_header_bytes": max(sizes),
        "ball": len(around.nodes()),
        "past_entries_most": len(pairs),
    }


def _publishers_copy(tree: Topology, around: Neighbourhood, source: NodeId, to: NodeId) -> int:
    """The largest that a publisher sends itself with f = 1, without names: all it depends on."""
    near = Neighbourhood(source, Surroundings(source, tree, Groups({})).ball(3))
    needs = dict.fromkeys(near.pairs_within(3, 2), LARGE)
    numbers = {source: dict.fromkeys(near.within(2), LARGE + 1)}
    plan = LinkPlan(around, source, to, 2, 3, 3, whole=True)
    header = HeaderWriter(plan).write(Header(source, 0, numbers, needs))
    copy = Copy(Publication(message_id(source, LARGE), GroupId(0), b""), header)
    return LENGTH_BYTES + len(Codec([[], [], SPEC.messages]).encode(copy))


def _depth(nodes: int, degree: int) -> int:
    depth, reached = 0, 1
    while reached < nodes:
        depth += 1
        reached += (degree - 1) ** depth
    return depth


def ball(degree: int, radius: int) -> int:
    """How many nodes a tree has within so many hops of an inner node, itself among them."""
    return 1 + sum(degree * int((degree - 1) ** (hops - 1)) for hops in range(1, radius + 1))


def zipf_sum(nodes: int, rounded: Callable[[float], int] = math.ceil) -> int:
    """The sum of the sizes of all groups by the formula of S000, section VI."""
    return sum(rounded(nodes * rank**-ZIPF + 0.5) for rank in range(1, GROUPS + 1))


def _worst(values: Values) -> Values:
    """Worst metadata of a message and memory of a node, all-to-all, in bytes."""
    nodes, f, degree = values["nodes"], values.get("f", 1), values.get("degree", 3)
    protocol, first_id = values["protocol"], values.get("first_id", 0)
    entries = {"cbcast": nodes, "barriers": nodes * nodes, "vd": 1, "locamu": 0}[protocol]
    if protocol == "locamu":
        if nodes > ball(degree, 2 * f + 1) * 4:
            found = worst_header(nodes, f, degree, first_id)
            entries, header = found["past_entries_most"], found["largest_header_bytes"]
        else:  # the ball does not fit inside the tree: what it would be in a larger one
            found = _in_the_middle(f, degree, first_id)
            entries, header = found["past_entries_most"], found["largest_header_bytes"]
        squared = ball(degree, 2 * f + 1) ** 2 * WORD
        return {
            "header_bytes": header,
            "entries": entries,
            "state_bytes": 2 * entries * WORD,
            "ball": ball(degree, 2 * f + 1),
            "ball_share": ball(degree, 2 * f + 1) / nodes,
            "wide_ball_of_bound": ball(degree, 2 * f + 2) / _bound(f),
            "squared_bytes": squared,
        }
    width = {"cbcast": WORD, "barriers": BARRIER_ENTRY, "vd": 2 * WORD}[protocol]
    state = {"cbcast": zipf_sum(nodes) * WORD, "barriers": entries * width, "vd": 2 * WORD}
    return {
        "header_bytes": entries * width,
        "entries": entries,
        "state_bytes": state[protocol],
        "squared_bytes": entries * width,
    }


def _bound(f: int) -> int:
    """S003, section 1: how many nodes are within 2f+2 hops in a binary tree, at most."""
    return int(2 ** (2 * f + 3) + 2 ** (2 * f + 2))


def _groups(values: Values) -> Values:
    """The sum of all group sizes, as printed and with the other rounding."""
    nodes = values["nodes"]
    return {"sum_of_sizes": zipf_sum(nodes), "sum_rounded_down": zipf_sum(nodes, math.floor)}


def _subtrees(values: Values) -> Values:
    """The groups of a tree, one per inner node with everybody below it."""
    nodes = values["nodes"]
    sizes = [1] * nodes
    for node in range(nodes - 1, 0, -1):
        sizes[(node - 1) // 2] += sizes[node]
    groups = [members for members in sizes if members > 1]
    return {"groups": len(groups), "smallest": min(groups), "largest": max(groups)}


def _parts_without_a_node(values: Values) -> Values:
    """Of all nodes of a tree, the share whose loss leaves the rest in several parts."""
    nodes = values["nodes"]
    inner = sum(2 * node + 1 < nodes for node in range(nodes))
    root_splits = nodes > 2
    return {"share_that_parts": (inner - (not root_splits)) / nodes, "leaves": nodes - inner}


def _clock(values: Values) -> Values:
    """A vector clock of so many slots of so many bits."""
    return {"bytes": values["bits"] * values["nodes"] / 8}


def _break_even(values: Values) -> Values:
    """Compacted clocks: entries of m + b bits each, against n slots of b bits."""
    nodes, slot = values["nodes"], values["bits"]
    name = math.ceil(math.log2(nodes))
    most = nodes * slot / (name + slot)  # entries, as printed: "the proportion"
    return {
        "most_entries": most,
        "printed_bound_as_share": most,
        "true_share": slot / (name + slot),
        "bits_of_all_entries": nodes * (name + slot),
        "bits_of_clock": nodes * slot,
        "bits_of_two_entries": 2 * (name + slot),
    }


def _routing(values: Values) -> Values:
    """What a node of a tree must know of groups: per link, whether members lie behind it."""
    nodes, groups = values["nodes"], values["groups"]
    tree = graphs.from_edges(nodes, graphs.tree(nodes, 3))
    everybody = [NodeId(node) for node in range(nodes)]
    rng = random.Random("routing")
    members = {f"g{place}": sorted(rng.sample(everybody, 8)) for place in range(groups)}
    me = NodeId(1)
    around = Surroundings(me, tree, Groups(members))
    table = {
        (peer, group): around.behind(peer, GroupId(group))
        for peer in around.neighbours()
        for group in range(groups)
    }
    return {"table_entries": len(table), "entries_per_group": len(table) / groups}


SIZES: dict[str, Callable[[Values], Values]] = {
    "worst": _worst,
    "groups": _groups,
    "subtrees": _subtrees,
    "parts_without_a_node": _parts_without_a_node,
    "clock": _clock,
    "break_even": _break_even,
    "routing": _routing,
}
