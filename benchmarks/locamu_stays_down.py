"""How often does LoCaMu wait for nodes that stay down? The adversary's runs, without recovery.

Who is down at the end stays down, within the fault budget, and all near it suspect it; everything
else comes to rest. Counted are the runs in which a member that is up lacks what another one that is
up has: with the publisher of what is missing down, or with all of them up; and those in which only
a node that is no member waits for something that another one keeps. Order and integrity must hold
in all runs.

With `--fall-first` the nodes that stay down fall before anything is published, as many as the fault
budget allows, and nobody else does. That is what is promised with f of 2 or more.
"""

import argparse
import json
import random
import sys
from typing import Any

from causalcast.core import NodeId
from causalcast.judge import judge
from causalcast.protocols.locamu.messages import key_of
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.spec import SPEC
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.adversary import Adversary, draw_stage, prepare_adversary
from causalcast.swarm.generate import toml_text
from causalcast.swarm.trial import SAFETY
from causalcast.version import VERSION, build_kind


def is_waiting(locamu: Locamu, all_of_them: dict[NodeId, Locamu], down: list[NodeId]) -> bool:
    """Whether something is held here that another one has, or kept for somebody that is up and does
    not have it. What is with those that are down alone is not owed, nor what depends on it."""
    kept = any(
        node not in down and node not in record.complete_at and node not in record.known_at
        for record in locamu.log.records
        for node in record.targets
    )
    held = [key_of(copy.message) for copy in locamu.holdback.copies.values()]
    return kept or any(
        all_of_them[node].log.named(key) is not None
        for key in held
        for node in all_of_them
        if node not in down
    )


def fall_first(adversary: Adversary, seed: int) -> None:
    """Let some nodes fall for good, and nobody else."""
    blueprint, chance = adversary.run.scenario.blueprint, random.Random(f"fall first {seed}")
    nodes = [node.me for node in adversary.run.simulation.nodes]
    down: list[NodeId] = []
    for node in chance.sample(nodes, len(nodes)):
        if blueprint.tolerates([*down, node], str(seed)) and len(down) + 1 < len(nodes):
            down.append(node)
    for node in down:
        adversary.run.director.do(("crash", node))
    may_fall = ("_crash", "_crash_in_step", "_recover")
    kept = [tactic for tactic in adversary._tactics if tactic[1].__name__ not in may_fall]
    adversary._tactics = kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--f", type=int, default=1)
    parser.add_argument("--fall-first", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    counts = {
        "somebody_down": 0,
        "waiting_publisher_down": 0,
        "waiting_publishers_up": 0,
        "waiting_no_member": 0,
    }
    waiting: list[int] = []
    wrong: list[int] = []
    for seed in range(options.first, options.first + options.runs):
        settings = {"f": options.f}
        head, tables = draw_stage(SPEC, seed, settings)
        tables = [(name, {} if name == "calm" else table) for name, table in tables]
        adversary = prepare_adversary(Scenario(toml_text(head, tables), "run"), "deliveries")
        world = adversary.run.simulation
        world.steps.invariants = list(SPEC.invariants)
        if options.fall_first:
            fall_first(adversary, seed)
        adversary.play()
        down = [node.me for node in world.nodes if not node.up]
        nodes: dict[NodeId, Any] = {node.me: node.stack.multicast for node in world.nodes}
        found = judge(adversary.run.result()).violations
        if world.steps.broken or any(found[name] for name in SAFETY):
            wrong.append(seed)
        if not down or not adversary.run.scenario.blueprint.tolerates(down, str(seed)):
            continue  # who was to fall in its next step may have fallen beside another
        counts["somebody_down"] += 1
        if any(missing.message >> 32 in down for missing in found["agreement"]):
            kind = "waiting_publisher_down"
        elif found["agreement"]:
            kind = "waiting_publishers_up"
        elif any(is_waiting(nodes[node.me], nodes, down) for node in world.nodes if node.up):
            kind = "waiting_no_member"
        else:
            continue
        counts[kind] += 1
        waiting.append(seed)
    found_out = {"runs": options.runs, **settings, **counts, "waiting": waiting, "wrong": wrong}
    print(json.dumps(found_out))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
