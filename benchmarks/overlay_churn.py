"""The trees of CPTCast while nodes come and go: redundancy, latency, reliability.

Ten senders in turn, one broadcast every 100 ms. Every so often a node that does not send crashes
for good and another one joins; links have latencies of their own from 5 to 50 ms. Reliability
counts the nodes that were there all the time. The first 20 broadcasts are not counted otherwise.
"""

import argparse
import random
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.shared_state import DUPLICATE
from causalcast.version import VERSION, build_kind

SENDERS = 10
ROUNDS = 12
LEARNING = 20
CHURN_MS = [0, 1000, 200]
TREES = ["shared", "root", "source"]


def faults(nodes: int, every_ms: int) -> tuple[str, set[int]]:
    """One crash and one join at a time, as TOML, and who is there from first to last."""
    rng = random.Random("churn")
    staying = set(range(nodes))
    there = list(range(SENDERS, nodes))
    text = ""
    for count in range(1000 * ROUNDS // every_ms if every_ms else 0):
        fallen = there.pop(rng.randrange(len(there)))
        staying.discard(fallen)
        there.append(nodes + count)
        for kind, node in (("crash", fallen), ("join", nodes + count)):
            text += f'[[fault]]\nat_ms = {500 + count * every_ms}\nkind = "{kind}"\nnode = {node}\n'
    return text, staying


def scenario(tree: str, nodes: int, active_view: int, every_ms: int) -> tuple[str, set[int]]:
    """The TOML of one point, and who is there from first to last."""
    changes, staying = faults(nodes, every_ms)
    streams = "".join(
        f"[[publish]]\nat_ms = {100 * sender}\nnode = {sender}\ncount = {ROUNDS}\n"
        'interval_ms = 1000\ngroup = "all"\n'
        for sender in range(SENDERS)
    )
    text = (
        f'protocol = "cptcast"\nuntil_ms = {1000 * (ROUNDS + 1)}\nseed = 1\n'
        f'[options]\ntree = "{tree}"\n'
        f'[overlay]\nkind = "hyparview"\nnodes = {nodes + changes.count("join")}\n'
        f"active_view = {active_view}\njoin_every_ms = 20\nsettle_ms = 20000\n"
        '[network]\nlatency_ms = { kind = "per_link", low = 5, high = 50 }\ntick_us = 100\n'
        f'[groups]\nall = "*"\n{streams}{changes}[calm]\nms = 20000\n'
    )
    return text, staying


def column(events: pa.Table, kind: str, name: str) -> np.ndarray:
    """A column of the events of one kind."""
    chosen = events.filter(pc.equal(events["kind"].cast("string"), kind))
    return chosen[name].to_numpy()


def run_point(tree: str, nodes: int, active_view: int, every_ms: int) -> str:
    """One run, as a line of the table."""
    text, staying = scenario(tree, nodes, active_view, every_ms)
    running = ScenarioRun(Scenario(text, "churn"), "deliveries")
    running.recorder.wants[DUPLICATE] = True
    running.simulation.out.tells_duplicates = True
    running.run()
    events = running.result().events
    published = column(events, "publish", "message")
    at = dict(zip(published.tolist(), column(events, "publish", "at_us").tolist(), strict=True))
    first = sorted(at.values())[LEARNING]
    delivered, by = column(events, "deliver", "message"), column(events, "deliver", "node")
    born = np.array([at[message] for message in delivered.tolist()])
    counted = (born >= first) & (by != delivered >> 32)
    latency = (column(events, "deliver", "at_us") - born)[counted] / 1000
    again = sum(at[message] >= first for message in column(events, "duplicate", "message").tolist())
    owed = int(np.isin(by, sorted(staying)).sum())
    return (
        f"{tree:8} {every_ms or '–':>6} {again / counted.sum():11.3f} {latency.mean():8.0f} "
        f"{np.percentile(latency, 99):7.0f} {owed / (len(staying) * len(at)):9.5f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--active-view", type=int, default=4)
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    print(f"{options.nodes} nodes\n{'tree':8} every ms redundancy  mean ms  p99 ms   reliab.")
    for every_ms in CHURN_MS:
        for tree in TREES:
            print(run_point(tree, options.nodes, options.active_view, every_ms), flush=True)


if __name__ == "__main__":
    main()
