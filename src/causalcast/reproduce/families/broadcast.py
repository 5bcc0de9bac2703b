"""Broadcast on an overlay that HyParView built: the thesis on CPTCast, and what it left open."""

import heapq
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from causalcast.pipeline.report.small_run import SmallRun, measure
from causalcast.reproduce.families.judged_run import after, copies, judged_run, options_of

LEARNING = 10  # broadcasts that trees are learnt from, left out of the averages
CRASH_AT_MS = 1000
AWAY_MS = 500  # of a node that comes back as somebody new


def broadcast(values: dict[str, Any]) -> dict[str, Any]:
    """One run: latency, redundancy and reliability after the first broadcasts, and the tree.

    `senders` is 1, or more: then each broadcast comes from the next of them. With `crash_share`
    so much of the others falls for good while they broadcast; with `churn_per_s` so many of them a
    second fall, and come back as somebody new after half a second. `overlay = "tree"` is a fixed
    binary tree instead.
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
        "first_redundancy": _redundancy_of(whole, 0),
        "reliability": measured["reliability"],
        "metadata_mean": measured["metadata_mean_bytes"],
        "grafts_per_broadcast": _count(notes, "graft") / published,
        "prunes_per_broadcast": _count(notes, "prune") / published,
        "bytes_per_delivery": sum(_bytes(row) for row in sent) / deliveries,
        "bytes_beside_the_tree": sum(_bytes(row) for row in beside) / deliveries,
        "share_beside_the_tree": sum(map(_bytes, beside)) / max(1, sum(map(_bytes, sent))),
        "inversions": _inversions(whole),
        "second_redundancy": _redundancy_of(whole, 1),
        "changes_when_learnt": _changes(steady),
        "latency_all_ms": measure(whole)["latency_mean_ms"],
        "redundancy_all": measure(whole)["redundancy"],
        "transit_ms": _transit_ms(steady),
        "latency_of_shortest": _latency_of_shortest(steady),
        "cpu_us_per_delivery": 1e6 * made.facts["cpu_seconds"] / deliveries,
        "doubled": _doubled(whole),
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
    if values.get("churn_per_s"):
        faults += _churn(others, values["churn_per_s"], interval * count, rng)
    overlay = f"""kind = "hyparview"
active_view = {active}
passive_view = {passive}"""
    if values.get("overlay") == "tree":
        overlay = 'kind = "tree"'
    return f"""
protocol = "{values["protocol"]}"
until_ms = {interval * count + 100}
seed = {seed}
{options_of(values)}
[overlay]
{overlay}
nodes = {nodes}
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


def _churn(others: Sequence[int], per_s: float, until_ms: int, rng: random.Random) -> str:
    """Another node falls each time, and comes back half a second later."""
    wanted = min(len(others), int(per_s * until_ms / 1000))
    fall = rng.sample(list(others), wanted)
    return "".join(
        f'[[fault]]\nat_ms = {int(1000 * place / per_s) + extra}\nkind = "{kind}"\nnode = {node}\n'
        for place, node in enumerate(fall)
        for extra, kind in ((0, "crash"), (AWAY_MS, "recover"))
    )


def _redundancy_of(rows: SmallRun, place: int) -> float | None:
    """Of the broadcast at this place in time: payloads per node beyond the first."""
    ordered = sorted(rows.of_kind["publish"], key=lambda event: event.at_us)
    if len(ordered) <= place:
        return None
    message = ordered[place].message
    sent = sum(row.message == message for row in copies(rows))
    got = sum(row.message == message for row in rows.elsewhere())
    return sent / got - 1 if got else None


def _changes(steady: SmallRun) -> int:
    """Requests to push or not to push that were sent since the first broadcasts were there."""
    begin = min((event.at_us for event in steady.of_kind["publish"]), default=0)
    sent = [row for row in steady.of_kind["send"] if row.at_us >= begin]
    return sum("graft" in (row.note or "") or "prune" in (row.note or "") for row in sent)


def _on_links(rows: SmallRun) -> dict[tuple[int, int], list[int]]:
    """By link, how long each payload took on it."""
    sent = {(row.node, row.peer, row.message): row.at_us for row in copies(rows)}
    took: dict[tuple[int, int], list[int]] = {}
    for row in rows.of_kind["receive"]:
        at = sent.get((row.peer or 0, row.node, row.message))
        if at is not None and row.payload_bytes:
            took.setdefault((row.peer or 0, row.node), []).append(row.at_us - at)
    return took


def _transit_ms(rows: SmallRun) -> float | None:
    """From the moment in which a payload is sent to that in which it is there: with queues."""
    every = [took for times in _on_links(rows).values() for took in times]
    return sum(every) / len(every) / 1000 if every else None


def _latency_of_shortest(rows: SmallRun) -> float | None:
    """Mean latency, over that of the quickest way by the least that each link ever took."""
    links: dict[int, list[tuple[int, int]]] = {}
    for (one, other), times in _on_links(rows).items():
        links.setdefault(one, []).append((other, min(times)))
    origins = {event.node for event in rows.of_kind["publish"]}
    shortest = {origin: _quickest(links, origin) for origin in origins}
    pairs = [
        (delay.delay_us, shortest[delay.event.message >> 32].get(delay.event.node))
        for delay in rows.delays
        if delay.event.message is not None and delay.event.message >> 32 in shortest
    ]
    known = [(took, least) for took, least in pairs if least]
    whole = sum(least for _, least in known)
    return sum(took for took, _ in known) / whole if whole else None


def _quickest(links: dict[int, list[tuple[int, int]]], origin: int) -> dict[int, int]:
    found: dict[int, int] = {}
    ahead = [(0, origin)]
    while ahead:
        at, node = heapq.heappop(ahead)
        if node not in found:
            found[node] = at
            for other, took in links.get(node, ()):
                heapq.heappush(ahead, (at + took, other))
    return found


def _doubled(rows: SmallRun) -> int:
    """Deliveries of what the same node had delivered before."""
    delivered = [(event.node, event.message) for event in rows.of_kind["deliver"]]
    return len(delivered) - len(set(delivered))


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
