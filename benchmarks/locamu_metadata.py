"""Bytes of metadata per copy and per delivery of LoCaMu, as its messages leave the real codec.

A binary tree, one group of all, every node publishes. Counted is everything on the wire that is not
payload, framing included, of what is sent in the second half of the run: copies by themselves, and
everything else (acknowledgements, probes, repetitions' shares) per delivery.
"""

import argparse
import json
import sys

import pyarrow.compute as pc

from causalcast.core import GroupId, Groups, NodeId, Publication, graphs, message_id
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood
from causalcast.protocols.locamu.link_header import Header, HeaderWriter, LinkPlan
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.spec import SPEC
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.version import VERSION, build_kind
from causalcast.wire.codec import Codec
from causalcast.wire.framing import LENGTH_BYTES

LARGE = 1 << 31  # a number of four bytes


def scenario(nodes: int, f: int, per_second: float, count: int, headers: str) -> Scenario:
    """Every node publishes `count` times, each beginning at another moment."""
    interval = 1000 / per_second
    streams = "\n".join(
        f"[[publish]]\nat_ms = {1 + interval * node / nodes}\nnode = {node}\n"
        f"count = {count}\ninterval_ms = {interval}\npayload_bytes = 32\n"
        for node in range(nodes)
    )
    text = f"""
protocol = "locamu"
until_ms = {interval * count + 100}
seed = 1
[options]
f = {f}
headers = "{headers}"
[overlay]
kind = "tree"
nodes = {nodes}
degree = 3
[world]
links_lose_nothing = true
[network]
latency_ms = {{kind = "uniform", low = 0.5, high = 1.5}}
{streams}
[calm]
ms = 2000
"""
    return Scenario(text, "benchmark")


def measure(nodes: int, f: int, per_second: float, count: int, headers: str) -> dict[str, float]:
    """Simulate, and count the bytes."""
    running = ScenarioRun(scenario(nodes, f, per_second, count, headers), "messages")
    running.run()
    events = running.recorder.table()
    half = running.scenario.until_us // 2
    late = events.filter(pc.greater(events["at_us"], half))
    sends = late.filter(pc.equal(late["kind"].cast("string"), "send"))
    is_copy = pc.equal(sends["note"].cast("string"), "locamu.copy")
    copies = sends.filter(is_copy)["metadata_bytes"]
    other = sends.filter(pc.invert(is_copy))["metadata_bytes"]
    deliveries = pc.sum(pc.equal(late["kind"].cast("string"), "deliver")).as_py()
    every = events.filter(pc.equal(events["kind"].cast("string"), "send"))
    all_copies = every.filter(pc.equal(every["note"].cast("string"), "locamu.copy"))
    states = [node.stack.multicast.state_size() for node in running.simulation.nodes]
    return {
        "nodes": nodes,
        "f": f,
        "per_second": per_second,
        "copies": len(copies),
        "copy_bytes_average": round(pc.mean(copies).as_py(), 2),
        "copy_bytes_p99": pc.quantile(copies, 0.99)[0].as_py(),
        "copy_bytes_max": pc.max(all_copies["metadata_bytes"]).as_py(),
        "control_bytes_per_delivery": round(pc.sum(other).as_py() / deliveries, 2),
        "state_entries_most": max(states),
    }


def worst_case(nodes: int, f: int) -> dict[str, int]:
    """The largest header an inner node can get: the first of a link, every number there is in it,
    each of four bytes; and what such a node keeps. Beside it, the ball it knows."""
    tree = graphs.from_edges(nodes, graphs.tree(nodes, 3))
    # As far from the root as from the leaves, so that its surroundings lie inside the tree.
    me = NodeId((1 << (nodes.bit_length() // 2)) - 1)
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
        copy = Copy(Publication(message_id(NodeId(nodes - 1), LARGE), GroupId(0), b""), header)
        sizes.append(LENGTH_BYTES + len(Codec([[], [], SPEC.messages]).encode(copy)))
        if f == 1:
            sizes.append(publishers_copy(tree, around, peer, me))
    pairs = [
        (issuer, node)
        for issuer in around.nodes()
        for node in around.within(f + 1)
        if issuer != node and around.distance(issuer, node) <= f + 1
    ]
    return {
        "nodes": nodes,
        "f": f,
        "largest_header_bytes": max(sizes),
        "ball": len(around.nodes()),
        "past_entries_most": len(pairs),
    }


def publishers_copy(tree: Topology, around: Neighbourhood, source: NodeId, to: NodeId) -> int:
    """The largest that a publisher sends itself, without names: all that it depends on."""
    near = Neighbourhood(source, Surroundings(source, tree, Groups({})).ball(3))
    needs = dict.fromkeys(near.pairs_within(3, 2), LARGE)
    numbers = {source: dict.fromkeys(near.within(2), LARGE + 1)}
    plan = LinkPlan(around, source, to, 2, 3, 3, whole=True)
    header = HeaderWriter(plan).write(Header(source, 0, numbers, needs))
    copy = Copy(Publication(message_id(source, LARGE), GroupId(0), b""), header)
    return LENGTH_BYTES + len(Codec([[], [], SPEC.messages]).encode(copy))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[63, 511])
    parser.add_argument("--f", type=int, default=1)
    parser.add_argument("--per-second", type=float, default=10)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--headers", default="compressed", choices=["compressed", "dense"])
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    for nodes in (63, 1023, 65_535):
        print(json.dumps(worst_case(nodes, options.f)), flush=True)
    for nodes in options.nodes:
        found = measure(nodes, options.f, options.per_second, options.count, options.headers)
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
