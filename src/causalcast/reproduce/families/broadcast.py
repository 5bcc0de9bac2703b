"""Broadcast on an overlay that HyParView built: the thesis on CPTCast, and what it left open."""

import heapq
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from causalcast.reproduce.families.columns import (
    ORIGIN_SHIFT,
    ColumnRun,
    Transits,
    delivered_at,
)
from causalcast.reproduce.families.judged_run import judged_columns, options_of

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
    whole, facts = judged_columns(scenario_of(values))
    steady = whole.after(LEARNING)
    sent = whole.of_kind["send"]
    published = max(1, len(whole.published[0]))
    deliveries = max(1, len(whole.elsewhere))
    transits = steady.transits()
    delivered = delivered_at(whole)
    beside = sent.off_links_of(steady.copies).bytes
    return {
        **facts,
        "latency_ms": steady.latency_mean_ms(),
        "latency_p99_ms": steady.latency_ms(0.99),
        "redundancy": steady.redundancy(),
        "first_redundancy": whole.redundancy_of(0),
        "reliability": steady.reliability(),
        "metadata_mean": steady.metadata_mean_bytes(),
        "grafts_per_broadcast": sent.with_notes("graft") / published,
        "prunes_per_broadcast": sent.with_notes("prune") / published,
        "bytes_per_delivery": sent.bytes / deliveries,
        "bytes_beside_the_tree": beside / deliveries,
        "share_beside_the_tree": beside / max(1, sent.bytes),
        "inversions": delivered.before(direct_causes(whole)),
        "second_redundancy": whole.redundancy_of(1),
        "changes_when_learnt": changes_when_learnt(steady),
        "latency_all_ms": whole.latency_mean_ms(),
        "redundancy_all": whole.redundancy(),
        "transit_ms": transits.mean_ms(),
        "latency_of_shortest": latency_of_shortest(steady, transits),
        "cpu_us_per_delivery": 1e6 * facts["cpu_seconds"] / deliveries,
        "doubled": delivered.doubled(),
    }


def views_for(nodes: int) -> tuple[int, int]:
    """Active and passive view as the thesis sets them: log10(n) + 1, and six times that."""
    active = round(math.log10(nodes)) + 1
    return active, 6 * active


def scenario_of(values: dict[str, Any]) -> str:
    """The text of what is simulated."""
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
    if "settle_ms" in values:
        overlay += f"\nsettle_ms = {values['settle_ms']}"
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


def _churn(others: Sequence[int], per_s: float, until_ms: int, rng: random.Random) -> str:
    """Another node falls each time, and comes back half a second later."""
    wanted = min(len(others), int(per_s * until_ms / 1000))
    fall = rng.sample(list(others), wanted)
    return "".join(
        f'[[fault]]\nat_ms = {int(1000 * place / per_s) + extra}\nkind = "{kind}"\nnode = {node}\n'
        for place, node in enumerate(fall)
        for extra, kind in ((0, "crash"), (AWAY_MS, "recover"))
    )


def changes_when_learnt(steady: ColumnRun) -> int:
    """Requests to push or not to push that were sent since the first broadcasts were there."""
    published, sent = steady.of_kind["publish"], steady.of_kind["send"]
    begin = published.at_us.min() if len(published) else 0
    return sent.where(sent.at_us >= begin).with_notes("graft", "prune")


def latency_of_shortest(steady: ColumnRun, transits: Transits) -> float | None:
    """Mean latency, over that of the quickest way by the least that each link ever took."""
    links = transits.least()
    origins = set(steady.of_kind["publish"].node.tolist())
    shortest = {origin: _quickest(links, origin) for origin in origins}
    rows, delays = steady.delayed
    taken = whole = 0
    for message, node, took in zip(
        rows.message.tolist(), rows.node.tolist(), delays.tolist(), strict=True
    ):
        least = shortest.get(message >> ORIGIN_SHIFT, {}).get(node)
        if least:
            taken += took
            whole += least
    return taken / whole if whole else None


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


def direct_causes(run: ColumnRun) -> dict[int, Sequence[int]]:
    """By message, the last that its origin had delivered when it published.

    Direct causes only: enough to show disorder; that there is none, the judge says.
    """
    published, delivered = run.of_kind["publish"], run.of_kind["deliver"]
    causes: dict[int, Sequence[int]] = {}
    for node, pos, message in zip(
        published.node.tolist(), published.pos.tolist(), published.message.tolist(), strict=True
    ):
        begin, end = np.searchsorted(delivered.node, [node, node + 1])
        had = begin + int(np.searchsorted(delivered.pos[begin:end], pos))
        causes[message] = delivered.message[max(begin, had - LEARNING) : had].tolist()
    return causes
