"""Broadcast on an overlay that HyParView built: the thesis on CPTCast, and what it left open."""

import math
import random
from collections import Counter
from typing import Any

from causalcast.pipeline.report.small_run import SmallRun, measure
from causalcast.reproduce.families.judged_run import after, copies, judged_run, options_of

LEARNING = 10  # broadcasts that trees are learnt from, left out of the averages
CRASH_AT_MS = 1000


def broadcast(values: dict[str, Any]) -> dict[str, Any]:
    """One run: latency, redundancy and reliability after the first broadcasts, and the tree.

    `senders` is 1, or more: then each broadcast comes from the next of them. With `crash_share`
    so much of the others falls for good while they broadcast.
    """
    made = judged_run(_scenario(values))
    whole = made.rows
    steady = after(whole, LEARNING)
    measured = measure(steady)
    notes = Counter(event.note or "" for event in whole.of_kind["send"])
    published = max(1, len(whole.published))
    deliveries = max(1, len(whole.elsewhere()))
    sent = whole.of_kind["send"]
    payload_links = {(row.node, row.peer) for row in copies(steady)}
    beside = [row for row in sent if (row.node, row.peer) not in payload_links]
    return {
        **made.facts,
        "latency_ms": measured["latency_mean_ms"],
        "latency_p99_ms": measured["latency_p99_ms"],
        "redundancy": measured["redundancy"],
        "first_redundancy": _first_redundancy(whole),
        "reliability": measured["reliability"],
        "metadata_mean": measured["metadata_mean_bytes"],
        "grafts_per_broadcast": _count(notes, "graft") / published,
        "prunes_per_broadcast": _count(notes, "prune") / published,
        "bytes_per_delivery": sum(_bytes(row) for row in sent) / deliveries,
        "bytes_beside_the_tree": sum(_bytes(row) for row in beside) / deliveries,
        "inversions": _inversions(whole),
    }


def views_for(nodes: int) -> tuple[int, int]:
    """Active and passive view as the thesis sets them: log10(n) + 1, and six times that."""
    active = round(math.log10(nodes)) + 1
    return active, 6 * active


def _scenario(values: dict[str, Any]) -> str:
    nodes, seed = values["nodes"], values.get("seed", 1)
    active, passive = views_for(values.get("views_of", nodes))
    rng = random.Random(f"{seed}/senders")
    chosen = rng.sample(range(nodes), values["senders"])
    interval, count = values["interval_ms"], values["broadcasts"]
    streams = "".join(
        f"[[publish]]\nat_ms = {place * interval}\nnode = {node}\n"
        f"count = {count // len(chosen)}\ninterval_ms = {interval * len(chosen)}\n"
        f"payload_bytes = {values['payload_bytes']}\n"
        for place, node in enumerate(chosen)
    )
    others = [node for node in range(1, nodes) if node not in chosen]
    fallen = rng.sample(others, round(len(others) * values.get("crash_share", 0)))
    faults = "".join(
        f'[[fault]]\nat_ms = {CRASH_AT_MS}\nkind = "crash"\nnode = {node}\n' for node in fallen
    )
    return f"""
protocol = "{values["protocol"]}"
until_ms = {interval * count + 100}
seed = {seed}
{options_of(values)}
[overlay]
kind = "hyparview"
nodes = {nodes}
active_view = {active}
passive_view = {passive}
[network]
latency_ms = {{kind = "per_link", low = 1, high = 12, jitter = 0.5}}
nodes_per_host = {values["nodes_per_host"]}
host_bandwidth_mbps = {values["host_bandwidth_mbps"]}
exchange = "shared"
{streams}{faults}
[calm]
ms = {values.get("calm_ms", 10000)}
"""


def _bytes(row: Any) -> int:
    return (row.payload_bytes or 0) + (row.metadata_bytes or 0)


def _count(notes: Counter[str], word: str) -> int:
    return sum(count for note, count in notes.items() if word in note)


def _first_redundancy(rows: SmallRun) -> float | None:
    """Of the first broadcast: payloads per node beyond the first."""
    first = min(rows.of_kind["publish"], key=lambda event: event.at_us, default=None)
    if first is None:
        return None
    sent = sum(row.message == first.message for row in copies(rows))
    got = sum(row.message == first.message for row in rows.elsewhere())
    return sent / got - 1 if got else None


def _inversions(rows: SmallRun) -> int:
    """Deliveries of a message before one that its origin had delivered when it published.

    Direct causes only: enough to show disorder; that there is none, the judge says.
    """
    had: dict[int, list[int]] = {}
    causes: dict[int, list[int]] = {}
    for event in sorted(rows.events, key=lambda event: (event.node, event.pos)):
        if event.message is None:
            continue
        if event.kind == "deliver":
            had.setdefault(event.node, []).append(event.message)
        elif event.kind == "publish":
            causes[event.message] = had.get(event.node, [])[-LEARNING:]
    found = 0
    for log in had.values():
        place = {message: number for number, message in enumerate(log)}
        for message in log:
            found += any(place.get(cause, -1) > place[message] for cause in causes.get(message, ()))
    return found
