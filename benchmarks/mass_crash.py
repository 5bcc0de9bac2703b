"""What a crash of many nodes at once, and a partition into halves, leave of causal broadcast.

CPTCast on HyParView with four neighbours. Crash: 60 broadcasts, one every 100 ms, and 1.5 s after
the first one a share of the nodes dies for good; judged 25 s after the last. Partition: halves
apart for a minute, with one broadcast a second on either side; judged a minute after it healed.
Parts are those of the safe graph; reliability is the share of survivors that have a message, over
all messages that any of them has.
"""

import argparse
import random
import sys
import time

import pyarrow.compute as pc

from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.safe_parts import Parts
from causalcast.version import VERSION, build_kind

SHARES = [10, 30, 50, 70]


def scenario(setup: str, nodes: int, publish: str, faults: str, until_ms: int, calm_ms: int) -> str:
    """The TOML of a run."""
    return (
        f'protocol = "cptcast"\nuntil_ms = {until_ms}\nseed = 1\n'
        f'[options]\nlink_setup = "{setup}"\nlog = 10000\n'
        f'[overlay]\nkind = "hyparview"\nnodes = {nodes}\nactive_view = 4\nsettle_ms = 20000\n'
        '[network]\nlatency_ms = { kind = "per_link", low = 5, high = 50 }\ntick_us = 100\n'
        f'[groups]\nall = "*"\n{publish}{faults}[calm]\nms = {calm_ms}\n'
    )


def crash(setup: str, nodes: int, share: int) -> str:
    """A share of the nodes falls for good while others publish."""
    rng = random.Random(f"mass crash {share}")
    fallen = rng.sample(range(1, nodes), nodes * share // 100)
    faults = "".join(f'[[fault]]\nat_ms = 1500\nkind = "crash"\nnode = {node}\n' for node in fallen)
    senders = rng.sample(sorted(set(range(nodes)) - set(fallen)), 10)
    publish = "".join(
        f"[[publish]]\nat_ms = {100 * place}\nnode = {node}\ncount = 6\ninterval_ms = 1000\n"
        'group = "all"\n'
        for place, node in enumerate(senders)
    )
    return scenario(setup, nodes, publish, faults, 31_000, 1000)


def partition(setup: str, nodes: int) -> str:
    """Even and odd nodes are apart for a minute."""
    sides = [list(range(0, nodes, 2)), list(range(1, nodes, 2))]
    faults = (
        f'[[fault]]\nat_ms = 1000\nkind = "partition"\nsides = {sides}\nloud = true\n'
        '[[fault]]\nat_ms = 61000\nkind = "heal"\n'
    )
    publish = "".join(
        f'[[publish]]\nat_ms = {at}\nnode = {node}\ncount = 60\ninterval_ms = 1000\ngroup = "all"\n'
        for node, at in ((0, 1500), (1, 2000))
    )
    return scenario(setup, nodes, publish, faults, 122_000, 1000)


def measured(text: str) -> str:
    """One run: how many parts, how large the largest, reliability, CPU seconds."""
    begun = time.process_time()
    running = ScenarioRun(Scenario(text, "mass crash"), "deliveries")
    running.run()
    world = running.simulation
    parts = Parts(world, running.scenario.blueprint.protocol)
    up = {int(node.me) for node in world.nodes if node.up}
    events = running.result().events
    delivered = events.filter(pc.equal(events["kind"].cast("string"), "deliver"))
    rows = zip(delivered["message"].to_pylist(), delivered["node"].to_pylist(), strict=True)
    had = [message for message, node in rows if node in up]
    reliability = len(had) / (len(set(had)) * len(up))
    largest = max(len(part) for part in parts.part_of.values())
    return (
        f"{parts.count():6} {largest:6} of {len(up):5} {reliability:9.4f} "
        f"{time.process_time() - begun:7.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--setup", choices=["vector", "safe_path"], help="both by default")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    print(f"{options.nodes} nodes\n{'':24} {'parts':>6} {'largest':>15} reliability  CPU s")
    for setup in [options.setup] if options.setup else ["vector", "safe_path"]:
        for share in SHARES:
            line = measured(crash(setup, options.nodes, share))
            print(f"{setup:9} crash of {share:2} %   {line}", flush=True)
        line = measured(partition(setup, options.nodes))
        print(f"{setup:9} halves, a minute {line}", flush=True)


if __name__ == "__main__":
    main()
