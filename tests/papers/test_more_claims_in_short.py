"""Further properties that the sources state in words: zones, members that come, overlays that
change. `claims.toml` says which claim each of them decides."""

import itertools
from typing import Any

import pytest
from zone_runs import TWO_ZONES, all_is_well, mesh, rows_of, run_of

from causalcast.core import NodeId
from causalcast.core.ids import MessageId
from causalcast.judge import judge
from causalcast.parts.safe_links.links import safe_links_of
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run

THREE_ZONES = [*mesh(range(3), range(3, 6), range(6, 9)), [2, 3], [5, 6]]


def scenario_run(
    protocol: str,
    overlay: dict[str, Any],
    publish: dict[str, Any],
    options: dict[str, Any] | None = None,
    faults: list[dict[str, Any]] | None = None,
    network: dict[str, Any] | None = None,
    groups: dict[str, Any] | None = None,
    seed: int = 1,
    calm_ms: int = 20_000,
) -> ScenarioRun:
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", options or {}),
        ("overlay", overlay),
        ("network", network or {"latency_ms": 1.0}),
        ("groups", groups or {"all": "*"}),
        ("[publish]", publish),
        *[("[fault]", fault) for fault in faults or []],
        ("calm", {"ms": calm_ms}),
    ]
    text = toml_text({"protocol": protocol, "until_ms": 1000, "seed": seed}, tables)
    running = ScenarioRun(Scenario(text, "test"), "messages")
    running.run()
    return running


# Zones


def latencies(run: Run, origin: int, nodes: range) -> list[int]:
    published = {row["message"]: row["at_us"] for row in rows_of(run, "publish")}
    return [
        row["at_us"] - published[row["message"]]
        for row in rows_of(run, "deliver")
        if row["node"] in nodes and row["message"] >> 32 == origin
    ]


def test_each_server_adds_a_short_delay() -> None:
    """Links take 1 ms: one inside a zone, and for each zone further on two or three."""
    publish = [{"node": 0, "count": 10, "interval_ms": 20}]
    run = run_of(THREE_ZONES, {"zones": "0-2; 3-5; 6-8"}, publish, nodes=9)
    all_is_well(run)
    zones = [latencies(run, 0, zone) for zone in (range(1, 3), range(3, 6), range(6, 9))]
    means = [sum(times) / len(times) / 1000 for times in zones]
    assert 1 <= means[0] < 1.1
    steps = [after - before for before, after in itertools.pairwise(means)]
    assert all(1 < step < 4 for step in steps), means


def test_until_another_server_takes_over_nothing_crosses() -> None:
    """Many times as long as between two messages; nothing is out of order, or missing."""
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [{"node": 2, "count": 100, "interval_ms": 5}]
    crash = [{"at_ms": 200, "kind": "crash", "node": 0, "keep": 0.0}]
    options = {"zones": "0-3; 4-7"}
    gaps = []
    for faults in ([], crash):
        run = run_of(edges, options, publish, faults, recover_all=False)
        times = [row["at_us"] for row in rows_of(run, "deliver") if row["node"] == 7]
        assert len(times) == 100 and not judge(run).violations["causal_order"]
        gaps.append(max(b - a for a, b in itertools.pairwise(times)))
    assert gaps[0] < 10_000 and gaps[1] > 4 * gaps[0], gaps


def test_a_join_in_one_zone_is_no_event_in_another() -> None:
    """Node 3 joins a group that lives in its zone: nodes of the other zone do the same as ever."""
    groups = {"all": "*", "here": [0, 1, 2]}
    publish = [{"node": 0, "group": "here", "count": 20, "interval_ms": 20}]
    join = [{"at_ms": 200, "kind": "join", "node": 1 + 2, "group": "here"}]
    seen = []
    for faults in ([], join):
        run = run_of(TWO_ZONES, {"zones": "0-3; 4-7"}, publish, faults, groups=groups)
        rows = rows_of(run, "deliver", "hold", "join", "leave")
        seen.append([(row["node"], row["kind"], row["message"]) for row in rows if row["node"] > 3])
        assert any(row["node"] == 3 for row in rows) == bool(faults)
    assert seen[0] == seen[1] == []


@pytest.mark.parametrize("nodes", [3, 6])
def test_fifo_links_in_a_circle_keep_causal_order(nodes: int) -> None:
    """Everybody passes everything on over all its links, and knows what it has had."""
    for seed in range(8):
        running = scenario_run(
            "naive_causal",
            {"kind": "ring", "nodes": nodes},
            {"node": list(range(nodes)), "count": 20, "interval_ms": 3},
            network={"latency_ms": {"kind": "uniform", "low": 1, "high": 30}},
            seed=seed,
        )
        assert not any(judge(running.result()).violations.values())


# Clocks


def test_compaction_costs_one_more_clock_in_memory() -> None:
    sizes = []
    for protocol in ("vector_clock_broadcast", "compaction_multicast"):
        running = scenario_run(
            protocol,
            {"kind": "full_mesh", "nodes": 10},
            {"node": list(range(10)), "count": 10, "interval_ms": 20},
        )
        sizes.append([node.stack.multicast.state_size() for node in running.simulation.nodes])
    extra = [compact - plain for plain, compact in zip(*sizes, strict=True)]
    assert all(0 <= more <= 10 for more in extra) and max(extra) > 0, extra


def test_nobody_stops_while_a_member_joins() -> None:
    """CBCAST here: groups change by messages, without a flush."""
    publish = {"node": 0, "group": "some", "count": 100, "interval_ms": 5}
    join = [{"at_ms": 250, "kind": "join", "node": 4, "group": "some"}]
    gaps = []
    for faults in ([], join):
        running = scenario_run(
            "cbcast",
            {"kind": "full_mesh", "nodes": 5},
            publish,
            faults=faults,
            groups={"some": [0, 1, 2, 3]},
        )
        rows = rows_of(running.result(), "deliver")
        times = [row["at_us"] for row in rows if row["node"] == 1]
        gaps.append(max(b - a for a, b in itertools.pairwise(times)))
        assert any(row["node"] == 4 for row in rows) == bool(faults)
    assert gaps[1] <= gaps[0] + 1000, gaps


# CPTCast


def quiet_cptcast(nodes: int, count: int) -> ScenarioRun:
    return scenario_run(
        "cptcast",
        {"kind": "hyparview", "nodes": nodes, "active_view": 4, "settle_ms": 3000},
        {"node": 3, "count": count, "interval_ms": 800 // count},
        {"order": "queue", "tree": "shared", "link_setup": "safe_path"},
        calm_ms=60_000,
    )


def test_what_cptcast_keeps_depends_neither_on_messages_nor_on_nodes() -> None:
    """When all is quiet: at most a mode for each of its four links."""
    for nodes, count in ((10, 10), (10, 80), (30, 10)):
        running = quiet_cptcast(nodes, count)
        sizes = [node.stack.multicast.state_size() for node in running.simulation.nodes]
        assert max(sizes) <= 4, (nodes, count, sizes)


def test_when_all_is_quiet_both_ends_of_a_link_push_or_both_announce() -> None:
    running = quiet_cptcast(30, 80)
    some = MessageId(3 << 32 | 1)
    ends: dict[tuple[NodeId, NodeId], bool] = {}
    for node in running.simulation.nodes:
        for peer, link in safe_links_of(node.stack.multicast).links.items():
            ends[node.me, peer] = link.modes.is_eager(some)  # type: ignore[attr-defined]
    pairs = [(one, other) for one, other in ends if one < other and (other, one) in ends]
    unequal = [pair for pair in pairs if ends[pair] != ends[pair[1], pair[0]]]
    assert len(pairs) > 30 and len(unequal) <= len(pairs) // 20, unequal
