"""Protocols on safe links over HyParView: mass crashes, partitions, and what is kept afterwards."""

from typing import Any

import pytest

from causalcast.core import NodeId
from causalcast.parts.safe_links.links import SafeLinks, safe_links_of
from causalcast.protocols.prc_broadcast import FloodTokens
from causalcast.registry import find_protocol
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.shared_state import DUPLICATE
from causalcast.swarm.generate import random_scenario, toml_text
from causalcast.swarm.safe_parts import Parts
from causalcast.swarm.trial import Trial, try_run, try_scenario

PROTOCOLS = ["prc_broadcast", "cptcast"]


def changing_run(
    protocol: str,
    options: dict[str, Any],
    nodes: int,
    publish: dict[str, Any],
    faults: list[dict[str, Any]],
    until_ms: int,
) -> ScenarioRun:
    overlay = {
        "kind": "hyparview",
        "nodes": nodes,
        "active_view": 4,
        "shuffle_every": 1000,
        "probe_every": 1000,
        "settle_ms": 3000,
    }
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", options),
        ("overlay", overlay),
        ("network", {"latency_ms": {"kind": "uniform", "low": 5, "high": 30}}),
        ("[publish]", {"node": "random", **publish}),
        *[("[fault]", fault) for fault in faults],
        ("calm", {"ms": 30_000}),
    ]
    head = {"protocol": protocol, "until_ms": until_ms, "seed": 5}
    return ScenarioRun(Scenario(toml_text(head, tables), "test"), "deliveries")


def parts_after(run: ScenarioRun) -> tuple[Trial, int]:
    """What did not hold, and into how many parts the nodes fell."""
    trial = try_run(run, run.run)
    return trial, Parts(run.simulation, run.scenario.blueprint.protocol).count()


def delivered_by(run: ScenarioRun) -> dict[int, set[int]]:
    """Per node that is up, what it delivered."""
    rows = run.result().events.to_pylist()
    up = [node.me for node in run.simulation.nodes if node.up]
    return {
        node: {row["message"] for row in rows if row["node"] == node and row["kind"] == "deliver"}
        for node in up
    }


def mass_crash(protocol: str, setup: str) -> ScenarioRun:
    faults = [{"at_ms": 800, "kind": "crash", "node": node} for node in range(0, 80, 2)]
    publish = {"count": 30, "interval_ms": 100}
    return changing_run(protocol, {"link_setup": setup}, 80, publish, faults, 3500)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_vectors_bring_all_survivors_of_a_mass_crash_together(protocol: str) -> None:
    run = mass_crash(protocol, "vector")
    trial, parts = parts_after(run)
    assert not trial.problems
    assert parts == 1
    delivered = list(delivered_by(run).values())
    assert all(some == delivered[0] for some in delivered)


def test_over_safe_paths_some_survivors_stay_deaf_and_nothing_else_breaks() -> None:
    trial, parts = parts_after(mass_crash("prc_broadcast", "safe_path"))
    assert not trial.problems  # order, and agreement in each part
    assert parts > 1


def halves(until_ms: int) -> list[dict[str, Any]]:
    even, odd = list(range(0, 40, 2)), list(range(1, 40, 2))
    return [
        {"at_ms": 500, "kind": "partition", "sides": [even, odd], "loud": True},
        {"at_ms": until_ms, "kind": "heal"},
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_halves_that_both_went_on_agree_after_they_meet_again(protocol: str) -> None:
    publish = {"count": 60, "interval_ms": 100}
    run = changing_run(protocol, {}, 40, publish, halves(6000), 7000)
    trial, parts = parts_after(run)
    assert not trial.problems
    assert parts == 1
    delivered = list(delivered_by(run).values())
    assert all(some == delivered[0] for some in delivered)
    assert len(delivered[0]) == run.simulation.lives.publications


def test_where_the_log_does_not_reach_back_the_gap_is_told() -> None:
    publish = {"count": 60, "interval_ms": 100}
    run = changing_run("prc_broadcast", {"log": 5}, 40, publish, halves(6000), 7000)
    trial, parts = parts_after(run)
    assert not trial.problems  # nobody delivers across the gap
    assert parts > 1
    assert trial.fired["note.vector_setup.log_falls_short"] > 0
    assert trial.fired["note.vector_setup.behind_the_log"] > 0


@pytest.mark.parametrize(
    ("protocol", "setup", "count"),
    [
        ("prc_broadcast", "vector", 400),
        ("prc_broadcast", "safe_path", 400),
        ("cptcast", "safe_path", 400),
        pytest.param("cptcast", "vector", 10_000, marks=pytest.mark.slow),
    ],
)
def test_what_can_be_forgotten_is_forgotten(protocol: str, setup: str, count: int) -> None:
    """After so many broadcasts and a quiet time, what is left does not depend on how many there
    were."""
    publish = {"node": 3, "count": count, "interval_ms": 2}
    options = {"link_setup": setup, "log": 20}
    run = changing_run(protocol, options, 10, publish, [], 2 * count + 40_000)
    run.run()
    for node in run.simulation.nodes:
        multicast = node.stack.multicast
        assert all(not link.owed for link in safe_links_of(multicast).links.values())
        # The log, two counts, and for each link at most whether it pushes.
        assert multicast.state_size() <= (20 + 2 + 4 if setup == "vector" else 4)
    assert len(delivered_by(run)[NodeId(0)]) == count


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_silent_neighbour_is_given_up_before_memory_is_full(protocol: str) -> None:
    """Half of the nodes stand still for seconds, and nobody is told: links to them are replaced."""
    stop = [{"at_ms": 300, "kind": "pause", "node": node} for node in range(0, 20, 2)]
    go_on = [{"at_ms": 3000, "kind": "resume", "node": node} for node in range(0, 20, 2)]
    publish = {"node": 3, "count": 300, "interval_ms": 10}
    run = changing_run(protocol, {"most_kept": 50}, 20, publish, [*stop, *go_on], 4000)
    trial, _ = parts_after(run)
    assert not trial.problems
    assert trial.fired["note.safe_links.given_up"] > 0


def test_the_tree_of_a_root_settles_though_everybody_sends() -> None:
    """Beacons shape it, messages do not pull at it: payloads hardly ever come twice any more."""

    def doubled(tree: str) -> float:
        publish = {"count": 100, "interval_ms": 50}
        options = {"tree": tree, "beacon_every": 500}
        run = changing_run("cptcast", options, 60, publish, [], 6000)
        run.recorder.wants[DUPLICATE] = run.simulation.out.tells_duplicates = True
        run.run()
        rows = run.result().events.to_pylist()
        first = sorted(row["at_us"] for row in rows if row["kind"] == "publish")[40]
        late = {row["message"] for row in rows if row["kind"] == "publish" and row["at_us"] > first}
        kinds = [row["kind"] for row in rows if row["message"] in late]
        return kinds.count("duplicate") / kinds.count("deliver")

    assert doubled("root") < 0.1 < doubled("shared")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_with_vectors_every_link_between_nodes_with_a_past_becomes_safe(protocol: str) -> None:
    """Whatever the swarm draws: where the overlay ends connected, the nodes end in one part."""
    spec = find_protocol(protocol)
    links = 0
    for seed in range(30):
        text = random_scenario(spec, seed, {"link_setup": "vector"})
        run = ScenarioRun(Scenario(text, f"seed {seed}", protocol), "deliveries")
        trial = try_run(run, run.run)
        assert not trial.problems
        assert "note.vector_setup.log_falls_short" not in trial.fired
        world = run.simulation
        parts = Parts(world, spec)
        born = [node.me for node in world.nodes if node.up and node.stack.multicast.takes_part()]
        for node in born:
            peers = [p for p in world.links_of(node) if p in born and node in world.links_of(p)]
            assert all(peer in parts.part_of[node] for peer in peers), f"seed {seed}"
            links += len(peers)
    assert links > 200


def test_who_can_be_reached_must_have_the_message_though_no_way_leads_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Link agreement: only 0 -> 1 is safe, and 0 does not send what it delivers."""
    make_out_safe, spread = SafeLinks.make_out_safe, FloodTokens.spread

    def only_the_first(self: SafeLinks, link: Any, out: Any) -> None:
        if self.me == 0:
            make_out_safe(self, link, out)

    def not_the_first(self: FloodTokens, *arguments: Any) -> None:
        if self.safe.me != 0:
            spread(self, *arguments)

    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", {"kind": "line", "nodes": 2}),
        ("[publish]", {"at_ms": 10, "node": 0}),
    ]
    text = toml_text({"protocol": "prc_broadcast", "until_ms": 20, "seed": 1}, tables)
    monkeypatch.setattr(SafeLinks, "make_out_safe", only_the_first)
    assert not try_scenario(Scenario(text, "one way")).broken()
    monkeypatch.setattr(FloodTokens, "spread", not_the_first)
    assert "agreement" in try_scenario(Scenario(text, "one way")).broken()
