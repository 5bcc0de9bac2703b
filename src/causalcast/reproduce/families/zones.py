"""Zones in a row, joined by servers, beside the same nodes without zones (the survey's 3.4)."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from causalcast.pipeline.report.small_run import SmallRun, measure
from causalcast.reproduce.families.judged_run import judged_run, options_of

BEGIN_MS = 100
EDGE = 0.1  # of the deliveries at a node, at either end: the beginning, and what comes late
PROTOCOL = "causal_separators"


def zones(values: dict[str, Any]) -> dict[str, Any]:
    """One run on a mesh of links of 1 ms: latency, and how evenly messages come.

    Nodes of a zone share a line of `line_mbps` to all others, if there is one. All publish in
    turn, or with `from = "first zone"` those of it that are no servers. Gaps are those between
    deliveries at the last node of zone `layer`. With `pause_ms` the server of zone 1 stands still
    so long in the middle.
    """
    made = judged_run(scenario_of(values))
    measured = measure(made.rows)
    size = values["nodes"] // values["zones"]
    last = size * (values.get("layer", values["zones"] - 1) + 1) - 1
    return {
        **made.facts,
        "latency_ms": measured["latency_mean_ms"],
        "latency_p99_ms": measured["latency_p99_ms"],
        "metadata_mean": measured["metadata_mean_bytes"],
        "rate": 1000 / values["interval_ms"],
        **_gaps(made.rows, last),
    }


def scenario_of(values: dict[str, Any]) -> str:
    """The text of what is simulated."""
    nodes, count, interval = values["nodes"], values["count"], values["interval_ms"]
    size = nodes // values["zones"]
    senders = list(range(1, size)) if values.get("from") == "first zone" else list(range(nodes))
    streams = "".join(
        f"[[publish]]\nat_ms = {BEGIN_MS + place * interval}\nnode = {node}\ncount = {count}\n"
        f"interval_ms = {interval * len(senders)}\n"
        f"payload_bytes = {values.get('payload_bytes', 200)}\n"
        for place, node in enumerate(senders)
    )
    until = BEGIN_MS + interval * len(senders) * count
    return f"""
protocol = "{values["protocol"]}"
until_ms = {until}
seed = {values.get("seed", 1)}
{options_of({**values, **_zone_options(values, size)})}
[overlay]
kind = "full_mesh"
nodes = {nodes}
[network]
latency_ms = 1.0
loss = {values.get("loss", 0.0)}
{_line(values, size)}
{streams}{_pause(values, size, until)}
[calm]
ms = 60000
"""


def _zone_options(values: dict[str, Any], size: int) -> dict[str, Any]:
    if values["protocol"] != PROTOCOL:
        return {}
    count = values["zones"]
    return {
        "options.zones": "; ".join(f"{size * z}-{size * z + size - 1}" for z in range(count)),
        "options.joints": " ".join(f"{z}-{z + 1}" for z in range(count - 1)),
        "options.servers": 1,
    }


def _line(values: dict[str, Any], size: int) -> str:
    if "line_mbps" not in values:
        return ""
    return f"nodes_per_host = {size}\nhost_bandwidth_mbps = {values['line_mbps']}"


def _pause(values: dict[str, Any], size: int, until: float) -> str:
    """The first node of a zone is its server."""
    if "pause_ms" not in values:
        return ""
    middle = (BEGIN_MS + until) / 2
    return "".join(
        f'[[fault]]\nat_ms = {at}\nkind = "{kind}"\nnode = {size}\n'
        for at, kind in ((middle, "pause"), (middle + values["pause_ms"], "resume"))
    )


def _gaps(rows: SmallRun, node: int) -> dict[str, float]:
    times: dict[int, list[int]] = defaultdict(list)
    for event in rows.of_kind["deliver"]:
        times[event.node].append(event.at_us)
    return gaps_between(sorted(times[node]))


def gaps_between(times_us: Sequence[int]) -> dict[str, float]:
    """How the gaps between some moments differ, without the first and the last of them."""
    edge = int(EDGE * len(times_us))
    chosen = times_us[edge : len(times_us) - edge]
    gaps = [(after - before) / 1000 for before, after in itertools.pairwise(chosen)]
    mean = statistics.fmean(gaps)
    return {
        "gap_variance": statistics.pvariance(gaps),
        "gap_spread": statistics.pstdev(gaps) / mean if mean else 0.0,
        "gap_most_ms": max(gaps),
    }
