"""Bytes of metadata per copy and per delivery of LoCaMu, as its messages leave the real codec.

A binary tree, one group of all, every node publishes. Counted is everything on the wire that is not
payload, framing included, of what is sent in the second half of the run: copies by themselves, and
everything else (acknowledgements, probes, repetitions' shares) per delivery.
"""

import argparse
import json
import sys

import pyarrow.compute as pc

from causalcast.reproduce.families.sizes import worst_header
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.version import VERSION, build_kind


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
        print(json.dumps(worst_header(nodes, options.f)), flush=True)
    for nodes in options.nodes:
        found = measure(nodes, options.f, options.per_second, options.count, options.headers)
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
