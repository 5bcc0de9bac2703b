"""Bytes of causal history per copy, as the real codec writes them, for the survey's protocols.

`clock`: a whole vector clock of n members. `compaction`: what is left of it where few of many
members talk, which is the favourable case. `barriers`: the worst case, everybody at once.
"""

import argparse
import json
import sys

from causalcast.core import GroupId, NodeId
from causalcast.parts.broadcast.stamped_broadcast import broadcast_of
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.version import VERSION, build_kind

COMPACT = ("compaction_multicast", "compaction_pairwise")


def copies(running: ScenarioRun, after_us: int = -1) -> list[int]:
    """The metadata of every copy of a publication that was sent after some moment."""
    rows = running.recorder.table().to_pylist()
    return [
        row["metadata_bytes"]
        for row in rows
        if row["kind"] == "send" and row["message"] is not None and row["at_us"] > after_us
    ]


def copy_bytes(delivered: dict[NodeId, int]) -> int:
    """The metadata of a copy whose origin has delivered so much of each node."""
    text = 'protocol = "vector_clock_broadcast"\nuntil_ms = 10\n'
    text += '[overlay]\nkind = "full_mesh"\nnodes = 2\n[calm]\nms = 0\n'
    running = ScenarioRun(Scenario(text, "benchmark"), "messages")
    running.simulation.run(5_000)
    multicast = running.simulation.nodes[0].stack.multicast
    broadcast_of(multicast).delivery.delivered = delivered
    running.simulation.lives.publish(NodeId(0), GroupId(0), b"")
    return copies(running)[0]


def clock(members: int, count: int) -> dict[str, float]:
    """A publication whose origin has delivered `count` publications of each of the others."""
    whole = copy_bytes({NodeId(node): count for node in range(1, members)})
    history = whole - copy_bytes({})
    bits = 8 * history / (members - 1)
    return {"members": members, "count": count, "bytes": history, "bits_per_entry": round(bits, 1)}


def talk(protocol: str, members: int, busy: int) -> float:
    """Everybody speaks once, then a few talk: mean metadata of what these send."""
    text = f"""
protocol = "{protocol}"
until_ms = 1000
seed = 1
[options]
spread = "direct"
[overlay]
kind = "full_mesh"
nodes = {members}
[network]
exchange = "wire"
[[publish]]
at_ms = 10
node = {list(range(members))}
payload_bytes = 0
[[publish]]
at_ms = 100
node = {list(range(busy))}
count = 10
interval_ms = 20
payload_bytes = 0
[calm]
ms = 100
"""
    running = ScenarioRun(Scenario(text, "benchmark"), "messages")
    running.run()
    # The first of each names what everybody said; from the second on it is a talk of few.
    sizes = copies(running, after_us=115_000)
    return sum(sizes) / len(sizes)


def compaction(members: int, busy: int) -> dict[str, float]:
    """Which share of a whole clock's bytes is left."""
    whole = talk("vector_clock_broadcast", members, busy)
    left = {name: talk(name, members, busy) for name in COMPACT}
    bare = copy_bytes({})
    return {
        "members": members,
        "busy": busy,
        "clock_bytes": round(whole - bare, 1),
        **{
            f"{name}_share": round((size - bare) / (whole - bare), 4) for name, size in left.items()
        },
    }


def barriers(members: int) -> dict[str, float]:
    """Everybody speaks at once, then one speaks to all: what its copies weigh."""
    text = f"""
protocol = "causal_barriers"
until_ms = 1000
[overlay]
kind = "full_mesh"
nodes = {members}
[[publish]]
at_ms = 100
node = {list(range(members))}
payload_bytes = 0
[[publish]]
at_ms = 500
node = 0
payload_bytes = 0
[calm]
ms = 100
"""
    running = ScenarioRun(Scenario(text, "benchmark"), "messages")
    running.run()
    largest = max(copies(running, after_us=400_000))
    return {"members": members, "bytes": largest, "entries": (members - 1) ** 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    found = {
        "clock": [clock(n, count) for n in (10, 100, 200, 1000) for count in (100, 60_000)],
        "compaction": [compaction(n, 4) for n in (50, 99)],
        "barriers": [barriers(n) for n in (8, 16, 32, 64)],
    }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, rows in found.items():
        print(name)
        for row in rows:
            print("  " + ", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
