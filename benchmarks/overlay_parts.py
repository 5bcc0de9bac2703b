"""How often HyParView overlays are in several parts after joins alone, or after leaves.

    python benchmarks/overlay_parts.py --nodes 200 --view 5 --seeds 0..32
    python benchmarks/overlay_parts.py --nodes 200 --view 5 --seeds 0..78 --leave 0.3
    python benchmarks/overlay_parts.py --nodes 40 --view 3 --seeds 0..20 --halves

Nodes join all at once (or `--every` milliseconds apart), each through a random one that is there.
Printed is how many of the runs are in several parts after some time, and when the last one was
whole. With `--halves` two halves were apart for a minute, filled their views with one another and
forgot whom they had lost: the hardest case, which joins alone seldom lead to. With `--blind` nodes
do not look for other parts.
"""

import argparse
import random
import sys

from causalcast.core.ids import NodeId
from causalcast.core.topology import Topology
from causalcast.overlays.hyparview import HyParView
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text

SECOND = 1_000_000
NEVER_MS = 1_000_000_000


def parts(run: ScenarioRun) -> int:
    """Into how many parts the active views divide the nodes that are up."""
    views: dict[NodeId, list[NodeId]] = {}
    for node in run.simulation.nodes:
        if node.up:
            assert isinstance(node.stack.overlay, HyParView)
            views[node.me] = list(node.stack.overlay.active)
    graph = Topology({me: [p for p in peers if p in views] for me, peers in views.items()})
    left, count = set(views), 0
    while left:
        left -= set(graph.distances(min(left), len(views)))
        count += 1
    return count


def prepared(
    nodes: int, view: int, seed: int, every_ms: int, blind: bool, forgets: bool = False
) -> ScenarioRun:
    """An overlay ten seconds after the last node joined."""
    overlay = {
        "kind": "hyparview",
        "nodes": nodes,
        "active_view": view,
        "join_every_ms": every_ms,
        "settle_ms": 10_000,
        "look_every": NEVER_MS if blind else 30_000,
        "probe_for": 1 if forgets else 3_600_000,
    }
    latency = {"kind": "per_link", "low": 5, "high": 50}
    network = {"latency_ms": latency, "exchange": "shared"}
    head = {"protocol": "naive_flood", "until_ms": 0, "seed": seed}
    text = toml_text(head, [("overlay", overlay), ("network", network)])
    return ScenarioRun(Scenario(text, "overlay_parts"), "deliveries")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--view", type=int, default=5)
    parser.add_argument("--seeds", default="0..32")
    parser.add_argument("--every", type=int, default=0, metavar="MS")
    parser.add_argument("--leave", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--blind", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(".."))
    split = {0: 0}
    longest = 0
    for seed in range(first, last):
        run = prepared(
            options.nodes, options.view, seed, options.every, options.blind, options.halves
        )
        world = run.simulation
        if options.leave:
            rng = random.Random(seed)
            for node in rng.sample(range(options.nodes), int(options.nodes * options.leave)):
                world.lives.leave(NodeId(node))
            world.run(world.now + 10 * SECOND)
        if options.halves:
            sides = [[NodeId(n) for n in range(side, options.nodes, 2)] for side in (0, 1)]
            world.link_faults.partition(sides, True)
            world.run(world.now + 60 * SECOND)
            world.link_faults.heal(None, None)
        split[0] += parts(run) > 1
        whole_at = 0
        for half_minute in range(1, 2 * options.minutes + 1):
            if parts(run) > 1:
                whole_at = half_minute
            world.run(world.now + 30 * SECOND)
            split[half_minute] = split.get(half_minute, 0) + (parts(run) > 1)
        longest = max(longest, whole_at)
        print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    runs = last - first
    told = ", ".join(f"{count} after {30 * at} s" for at, count in split.items() if not at % 2)
    print(f"{options.nodes} nodes, view {options.view}, {runs} runs in several parts: {told}")
    if split[2 * options.minutes] == 0:
        print(f"whole after at most {30 * longest} s")


if __name__ == "__main__":
    main()
