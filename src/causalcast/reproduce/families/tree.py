"""Publishers on a tree of 1 ms links whose bandwidth is the limit: the papers on LoCaMu."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from causalcast.pipeline.report.small_run import Event, SmallRun, measure
from causalcast.reproduce.families.judged_run import copies, judged_run, options_of

EDGE = 0.2  # of the deliveries at a node, at either end: not steady yet, or no longer
MESH_INTERVAL_MS = 0.2  # between publications of all senders together
ENOUGH = 10  # messages on a link before its use is measured


def tree(values: dict[str, Any]) -> dict[str, Any]:
    """One run: rates, metadata, use of links, and which links were used.

    `senders` publish `messages` in all, at full speed or `interval_ms` apart. A single one is the
    root, or the last leaf (`from = "leaf"`); several are spread evenly over the nodes.

    A protocol that sends straight from node to node runs on a mesh (`overlay = "full_mesh"`), with
    no limit of bandwidth. There its metadata is measured, and `rate` is derived: what the links of
    the tree would carry of such messages, and no more than was offered.

    `groups` is one for each subtree (`"subtrees"`), or so many of everybody. With `falls` so many
    nodes, none near another, are down in the second third of the time in which is published.
    """
    nodes, degree = values["nodes"], values.get("degree", 3)
    derived = values.get("overlay") == "full_mesh"
    made = judged_run(_scenario(values))
    rows = made.rows
    measured = measure(rows)
    edges = _tree_edges(nodes, degree)
    sent = copies(rows)
    deliveries = len(rows.elsewhere())
    rate = _rate_on_tree(values, measured) if derived else _steady_rate(rows)
    return {
        **made.facts,
        "rate": rate,
        "rate_is_derived": derived,
        "goodput_kbps": rate * values.get("payload_bytes", 32) * 8 / 1000,
        "offered": _offered(values),
        "share_of_link": rate / _capacity(values, measured),
        "deliveries_per_second": measured["deliveries_per_second"],
        "latency_ms": measured["latency_mean_ms"],
        "metadata_mean": measured["metadata_mean_bytes"],
        "metadata_max": measured["metadata_max_bytes"],
        "held_share": measured["held_share"],
        "copies_per_delivery": len(sent) / deliveries if deliveries else None,
        "copies_off_tree": sum(frozenset((row.node, row.peer)) not in edges for row in sent),
        "in_flight": _most_in_flight(rows),
        "round_trip_s": 2 * _eccentricity(values) * values.get("latency_ms", 1.0) / 1000,
        "cpu_us_per_delivery": 1e6 * made.facts["cpu_seconds"] / max(1, deliveries),
        **({} if derived else _use_of_links(rows, values, edges)),
        **({} if "falls" not in values else _before_during_after(rows, values)),
    }


def _offered(values: dict[str, Any]) -> float | None:
    """Publications per second of all senders; none at full speed."""
    interval = values.get("interval_ms", 0)
    return 1000 * values.get("senders", 1) / interval if interval else None


def _rate_on_tree(values: dict[str, Any], measured: dict[str, Any]) -> float:
    capacity = _capacity(values, measured)
    return min(capacity, _offered(values) or capacity)


def _capacity(values: dict[str, Any], measured: dict[str, Any]) -> float:
    """How many such messages a second one link of an inner node carries."""
    frame: float = values.get("payload_bytes", 32) + measured["metadata_mean_bytes"]
    share: float = values.get("bandwidth_mbps", 100) * 1e6 / values.get("degree", 3)
    return share / (8 * frame)


def _scenario(values: dict[str, Any]) -> str:
    nodes = values["nodes"]
    senders = _senders(values)
    count = max(1, values.get("messages", 60) // len(senders))
    interval = values.get("interval_ms", 0)
    mesh = values.get("overlay") == "full_mesh"
    # At full speed on a mesh nothing but the time between them keeps publications apart.
    interval = interval or (MESH_INTERVAL_MS * len(senders) if mesh else 0)
    shape = 'kind = "full_mesh"' if mesh else f'kind = "tree"\ndegree = {values.get("degree", 3)}'
    mbps = 0 if mesh else values.get("bandwidth_mbps", 100)
    groups = _groups(values)
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
{shape}
nodes = {nodes}
[network]
latency_ms = {float(values.get("latency_ms", 1.0))}
bandwidth_mbps = {mbps}
bandwidth_sharing = "{values.get("sharing", "per_link")}"
{groups}{streams}{_falls(values)}
[calm]
ms = 2000
recover_all = true
"""


def _groups(values: dict[str, Any]) -> str:
    wanted = values.get("groups", 1)
    if wanted == "subtrees":
        return _subtree_groups(values)
    if wanted == 1:
        return ""
    return "\n".join(["[groups]", *(f'g{place} = "*"' for place in range(wanted)), ""])


def _thirds_us(values: dict[str, Any]) -> list[int]:
    """When the thirds of the time in which is published end."""
    count = max(1, values.get("messages", 60) // values.get("senders", 1))
    whole = count * values["interval_ms"] * 1000
    return [int(whole * place / 3) for place in (1, 2, 3)]


def _falls(values: dict[str, Any]) -> str:
    """Inner nodes that publish nothing, one below each child of the root: four hops apart."""
    if not values.get("falls"):
        return ""
    down, up, _ = _thirds_us(values)
    free = fallen_nodes(_senders(values), values["falls"])
    return "".join(
        f'[[fault]]\nat_ms = {at / 1000}\nkind = "{kind}"\nnode = {node}\n'
        for node in free
        for at, kind in ((down, "crash"), (up, "recover"))
    )


def fallen_nodes(senders: Sequence[int], falls: int) -> list[int]:
    """Grandchildren of the root: the first of each half that publishes nothing."""
    halves = ((3, 4), (5, 6))
    found = [next(node for node in half if node not in senders) for half in halves]
    return found[:falls]


def _before_during_after(rows: SmallRun, values: dict[str, Any]) -> dict[str, float | None]:
    """Latency and rate of what was published in each third, at nodes that are always up."""
    fell = {event.node for event in rows.of_kind["crash"]}
    ends = _thirds_us(values)
    begin = min((event.at_us for event in rows.of_kind["publish"]), default=0)
    found: dict[str, float | None] = {}
    for name, start, end in zip(("before", "during", "after"), [0, *ends], ends, strict=False):
        delays = [
            delay.delay_us / 1000
            for delay in rows.delays
            if start <= delay.published_us - begin < end
            and delay.event.node not in fell
            and delay.event.message is not None
            and delay.event.message >> 32 not in fell
        ]
        stayed = rows.nodes - len(fell)
        found[f"latency_{name}_ms"] = sum(delays) / len(delays) if delays else None
        found[f"latency_{name}_max_ms"] = max(delays, default=None)
        found[f"rate_{name}"] = len(delays) * 1e6 / ((end - start) * max(1, stayed))
    return found


def _subtree_groups(values: dict[str, Any]) -> str:
    """One group per inner node: the node and all below it."""
    nodes, children = values["nodes"], values.get("degree", 3) - 1
    below: list[list[int]] = [[node] for node in range(nodes)]
    for node in range(nodes - 1, 0, -1):
        below[(node - 1) // children] += below[node]
    lines = [f"g{node} = {sorted(of)}" for node, of in enumerate(below) if len(of) > 1]
    return "\n".join(["[groups]", *lines, ""])


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
    """Which share of its bandwidth the busiest link has used, of the root and of all nodes.

    From the first copy of a publication on it to the last: what follows later is no load.
    """
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
    for (sender, receiver), all_events in links.items():
        bodies = [at for at, event in enumerate(all_events) if event.payload_bytes]
        events = all_events[bodies[0] : bodies[-1] + 1] if bodies else []
        if not events:
            continue
        took = events[-1].at_us - events[0].at_us
        if len(events) >= ENOUGH and took > 0:
            size = sum((e.payload_bytes or 0) + (e.metadata_bytes or 0) for e in events[1:])
            used[sender, receiver] = size * 8 * degrees[sender] / (mbps * took)
    of_root = max((share for (sender, _), share in used.items() if sender == 0), default=None)
    busiest = max(used.values(), default=None)
    return {
        "use_of_root": of_root,
        "use_of_busiest": busiest,
        "root_of_busiest": of_root / busiest if of_root and busiest else None,
    }
