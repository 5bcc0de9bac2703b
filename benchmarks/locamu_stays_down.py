"""How often does LoCaMu wait for nodes that stay down? The adversary's runs, without recovery.

Who is down at the end stays down, within the fault budget; everything else comes to rest. Counted
are the runs in which a member that is up lacks what another one that is up has: with the publisher
of what is missing down, or with all of them up. Order and integrity must hold in all runs.
"""

import argparse
import json
import sys

from causalcast.judge import judge
from causalcast.protocols.locamu.spec import SPEC
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.adversary import draw_stage, prepare_adversary
from causalcast.swarm.generate import toml_text
from causalcast.swarm.trial import SAFETY
from causalcast.version import VERSION, build_kind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--f", type=int, default=1)
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    counts = {"somebody_down": 0, "waiting_publisher_down": 0, "waiting_publishers_up": 0}
    wrong: list[int] = []
    for seed in range(options.runs):
        settings = {"f": options.f}
        head, tables = draw_stage(SPEC, seed, settings)
        tables = [(name, {} if name == "calm" else table) for name, table in tables]
        adversary = prepare_adversary(Scenario(toml_text(head, tables), "run"), "deliveries")
        world = adversary.run.simulation
        world.steps.invariants = list(SPEC.invariants)
        adversary.play()
        down = [node.me for node in world.nodes if not node.up]
        found = judge(adversary.run.result()).violations
        if world.steps.broken or any(found[name] for name in SAFETY):
            wrong.append(seed)
        if not down:
            continue
        counts["somebody_down"] += 1
        if any(missing.message >> 32 in down for missing in found["agreement"]):
            counts["waiting_publisher_down"] += 1
        elif found["agreement"]:
            counts["waiting_publishers_up"] += 1
    print(json.dumps({"runs": options.runs, **settings, **counts, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
