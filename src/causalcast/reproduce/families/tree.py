"""Publishers on a tree of 1 ms links whose bandwidth is the limit: the papers on LoCaMu."""

from collections import defaultdict
from typing import Any

from causalcast.pipeline.report.small_run import Event, SmallRun, measure
from causalcast.reproduce.families.judged_run import copies, judged_run, options_of

EDGE = 0.2  # of the deliveries at a node, at either end: not steady yet, or no longer
ENOUGH = 10  # messages on a link before its use is measured


def tree(values: dict[str, Any]) -> dict[str, Any]:
    """One run: rates, metadata, use of links, and which links were used.

    `senders` publish `messages` in all, at full speed or `interval_ms` apart. A single one is the
    root, or the last leaf (`from = "leaf"`); several are spread evenly over the nodes.
    """
    nodes, degree = values["nodes"], values.get("degree", 3)
    made = judged_run(_scenario(values))
    rows = made.rows
    measured = measure(rows)
    edges = _tree_edges(nodes, degree)
    sent = copies(rows)
    deliveries = len(rows.elsewhere())
    return {
        **made.facts,
        "rate": _steady_rate(rows),
        "goodput_kbps": _steady_rate(rows) * values.get("payload_bytes", 32) * 8 / 1000,
        "deliveries_per_second": measured["deliveries_per_second"],
        "latency_ms": measured["latency_mean_ms"],
        "metadata_mean": measured["metadata_mean_bytes"],
        "metadata_max": measured["metadata_max_bytes"],
        "held_share": measured["held_share"],
        "copies_per_delivery": len(sent) / deliveries if deliveries else None,
        "copies_off_tree": sum(frozenset((row.node, row.peer)) not in edges for row in sent),
        "in_flight": _most_in_flight(rows),
        "round_trip_s": 2 * _eccentricity(values) * values.get("latency_ms", 1.0) / 1000,
        **_use_of_links(rows, values, edges),
    }


def _scenario(values: dict[str, Any]) -> str:
    nodes = values["nodes"]
    senders = _senders(values)
    count = max(1, values.get("messages", 60) // len(senders))
    interval = values.get("interval_ms", 0)
    groups = "[groups]\nsubtrees = true\n" if values.get("groups") == "subtrees" else ""
    group = 'group = "random"\n' if groups else ""
    streams = "".join(
        f"[[publish]]\nat_ms = {place * interval / len(senders):.3f}\nnode = {node}\n{group}"
        f"count = {count}\ninterval_ms = {interval}\n"
        f"payload_bytes = {values.get('payload_bytes', 32)}\n"
        for place, node in enumerate(senders)
    )
    return f"""
protocol = "{values["protocol"]}"
until_ms = {values.get("until_ms", 3000)}
seed = {values.get("seed", 1)}
{options_of(values)}
[overlay]
kind = "{values.get("overlay", "tree")}"
nodes = {nodes}
degree = {values.get("degree", 3)}
[network]
latency_ms = {float(values.get("latency_ms", 1.0))}
bandwidth_mbps = {values.get("bandwidth_mbps", 100)}
bandwidth_sharing = "{values.get("sharing", "per_link")}"
{groups}{streams}
[calm]
ms = 2000
"""


def _senders(values: dict[str, Any]) -> list[int]:
    nodes, senders = values["nodes"], values.get("senders", 1)
    if senders == 1:
        return [nodes - 1] if values.get("from") == "leaf" else [0]
    return [place * nodes // senders for place in range(senders)]


def _tree_edges(nodes: int, degree: int) -> set[frozenset[int]]:
    """In heap order: the root has one child less than inner nodes have links."""
    return {frozenset((node, (node - 1) // (degree - 1))) for node in range(1, nodes)}


def _eccentricity(values: dict[str, Any]) -> int:
    """How many hops the furthest node is away from the (first) sender."""
    depth, reached = 0, 1
    while reached < values["nodes"]:
        depth += 1
        reached += (values.get("degree", 3) - 1) ** depth
    return 2 * depth if _senders(values)[0] else depth


def _steady_rate(rows: SmallRun) -> float:
    """Deliveries per second at the slowest node, without the beginning and the end."""
    times: dict[int, list[int]] = defaultdict(list)
    for event in rows.of_kind["deliver"]:
        times[event.node].append(event.at_us)
    rates = []
    for of_node in times.values():
        of_node.sort()
        first, last = int(EDGE * len(of_node)), int((1 - EDGE) * len(of_node)) - 1
        if last > first and of_node[last] > of_node[first]:
            rates.append((last - first) / (of_node[last] - of_node[first]) * 1e6)
    return min(rates, default=0.0)


def _most_in_flight(rows: SmallRun) -> int:
    """Most messages of one origin between their delivery at the origin and the last one."""
    started: dict[int, int] = {}
    ended: dict[int, int] = {}
    for event in rows.of_kind["deliver"]:
        assert event.message is not None
        if event.is_own:
            started[event.message] = event.at_us
        ended[event.message] = max(ended.get(event.message, 0), event.at_us)
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for message, at in started.items():
        if ended[message] > at:
            changes[message >> 32] += [(at, 1), (ended[message], -1)]
    most = 0
    for of_origin in changes.values():
        now = 0
        for _, change in sorted(of_origin):
            now += change
            most = max(most, now)
    return most


def _use_of_links(
    rows: SmallRun, values: dict[str, Any], edges: set[frozenset[int]]
) -> dict[str, float | None]:
    """Which share of its bandwidth the busiest link has used, of the root and of all nodes."""
    mbps = values.get("bandwidth_mbps", 100)
    links: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in rows.of_kind["receive"]:
        if event.peer is not None and frozenset((event.node, event.peer)) in edges:
            links[event.peer, event.node].append(event)
    degrees: dict[int, int] = defaultdict(int)
    for edge in edges:
        for node in edge:
            degrees[node] += 1
    used = {}
    for (sender, receiver), events in links.items():
        took = events[-1].at_us - events[0].at_us
        if len(events) >= ENOUGH and took > 0:
            size = sum((e.payload_bytes or 0) + (e.metadata_bytes or 0) for e in events[1:])
            used[sender, receiver] = size * 8 * degrees[sender] / (mbps * took)
    of_root = [share for (sender, _), share in used.items() if sender == 0]
    return {
        "use_of_root": max(of_root, default=None),
        "use_of_busiest": max(used.values(), default=None),
    }
