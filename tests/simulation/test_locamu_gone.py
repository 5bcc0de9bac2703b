"""Nodes that are declared gone, searched by the adversary: no disorder, nothing left, and nothing
lost but what those nodes had published."""

from pathlib import Path
from typing import Any

import pytest

from causalcast.core import Message, NodeId, Outbox
from causalcast.errors import ConfigError
from causalcast.judge import Judgement, Violation, judge, without_losses
from causalcast.protocols.locamu.giving_up import GivingUp
from causalcast.protocols.locamu.messages import GivenUp, Gone
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.safe_path import SafePath
from causalcast.protocols.locamu.substitution import Substitution
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, run_campaign, try_seed
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import Mutant, Patch
from causalcast.swarm.trial import try_scenario
from causalcast.testing import Cluster
from causalcast.trace.schema import GUARANTEES

PAST_FAILURES = Path(__file__).parent / "past_failures"
GONE = ("note", "locamu.gone")
SEEDS = range(100, 200)
FEW = 10  # publications that nobody could hand on any more
SCENARIO = """
protocol = "{protocol}"
until_ms = 400
[overlay]
kind = "line"
nodes = 4
[groups]
all = "*"
[[publish]]
node = [0, 3]
group = "all"
count = 20
[[fault]]
at_ms = 50
kind = "crash"
node = 1
[[fault]]
at_ms = 200
kind = "gone"
node = 1
by = 2
[calm]
recover_all = true
"""


def test_the_adversary_finds_nothing_but_losses() -> None:
    campaign = run_campaign(Plan("locamu", gives_up=True, facts="plain"), SEEDS)
    assert campaign.failures == []
    assert campaign.fired["gone"] > 50
    assert campaign.fired["note.locamu.handed_on"] > 10
    assert campaign.fired["lost_with_a_node_that_is_gone"] < FEW


def give_up_at_once(self: GivingUp, sender: NodeId, told: Gone, out: Outbox) -> None:
    self.declare_gone(told.peer, out)
    for node in self._departures.to_tell(told.peer):
        self._departures.heard[told.peer][node] = None
    self._give_up(told.peer, out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "patch"),
    [
        ("nothing_handed_on", Patch(Substitution, "hand_on", lambda *_: None)),
        ("never_given_up", Patch(GivingUp, "_give_up", lambda *_: None)),
    ],
)
def test_it_would_find_more(name: str, patch: Patch) -> None:
    """A planted bug either breaks a promise or loses more than the adversary saw lost before."""
    plan = Plan("locamu", gives_up=True, facts="plain")
    with Mutant(name, "", [], [patch]).planted():
        campaign = run_campaign(plan, SEEDS)
    lost = campaign.fired["lost_with_a_node_that_is_gone"]
    assert campaign.failures or lost >= FEW, (name, lost)


def forget_what_was_given_up(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, [one for one in records if not isinstance(one, GivenUp)], out)


_on_recover = Locamu.on_recover


@pytest.mark.parametrize(
    ("schedule", "patch", "breaks"),
    [
        (
            "given_up_what_was_only_passed_on",
            Patch(GivingUp, "on_gone_told", give_up_at_once),
            "causal_order",
        ),
        (
            "given_up_before_a_crash",
            Patch(Locamu, "on_recover", forget_what_was_given_up),
            "causal_order",
        ),
        (
            "gone_before_anybody_stood_in",
            Patch(SafePath, "is_all", lambda *_: False),
            "agreement",
        ),
    ],
)
def test_a_schedule_that_once_failed_fails_again(schedule: str, patch: Patch, breaks: str) -> None:
    scenario = Scenario.read(PAST_FAILURES / f"{schedule}.toml")
    assert try_scenario(scenario).problems == []
    with Mutant(schedule, "", [], [patch]).planted():
        assert breaks in try_scenario(scenario).broken()


def stage(nodes: int, f: int, groups: dict[str, list[int]], *steps: str) -> DirectedRun:
    """A line of nodes, after these steps and until nothing is under way."""
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", {"f": f}),
        ("overlay", {"kind": "line", "nodes": nodes}),
        ("groups", groups),
        ("calm", {"recover_all": True}),
    ]
    text = toml_text({"protocol": "locamu", "steps": list(steps)}, tables)
    scenario = Scenario(text, "stage")
    run = DirectedRun(scenario, "messages")
    for step in scenario.steps:
        do(run, *step)
    return run


def do(run: DirectedRun, *step: str | int) -> None:
    assert run.director.do(step), step
    for _ in range(10):
        run.director._empty_queues()
        for me, key in run.director._timers_in_order():
            if key in run.simulation.nodes[me].timers:
                run.simulation.run_out(me, key)
                run.simulation.end_turn()


def locamu(run: DirectedRun, node: int) -> Locamu:
    multicast = run.simulation.nodes[node].stack.multicast
    assert isinstance(multicast, Locamu)
    return multicast


def test_a_second_node_that_is_gone_lets_others_think_again_about_the_first() -> None:
    """Node 0 waits for what node 2 has of node 1; then node 2 is gone, too."""
    run = stage(5, 2, {"all": list(range(5))}, "crash 1 0", "crash 2 0", "gone 0 1")
    assert not locamu(run, 0).departures.given_up
    do(run, "gone", 3, 2)
    for node in (0, 3, 4):
        assert list(locamu(run, node).departures.given_up) == [1, 2], node
    do(run, "publish", 0, "all")
    run.complete()
    assert not any(judge(run.result()).violations.values())


def test_two_fallen_neighbours_cannot_be_declared_gone_from_both_ends() -> None:
    """Nobody is left who could tell node 1 what node 4 was told. So neither is accepted."""
    run = stage(6, 1, {"all": list(range(6))}, "crash 2 0", "crash 3 0")
    assert "bring others of them back" in locamu(run, 1).giving_up.objection(NodeId(2))
    assert "bring others of them back" in locamu(run, 4).giving_up.objection(NodeId(3))
    do(run, "recover", 3)
    assert locamu(run, 1).giving_up.objection(NodeId(2)) == ""


def test_a_node_that_is_told_of_too_many_refuses() -> None:
    """Node 1 does not know of node 5, nor node 7 of node 3; node 6 has heard of both."""
    run = stage(8, 1, {"all": list(range(8))}, "crash 3 0", "crash 5 0")
    do(run, "gone", 1, 3)
    do(run, "gone", 7, 5)
    told = locamu(run, 6)
    assert list(told.departures.gone) == [3] and list(told.departures.refused) == [5]
    assert told.conditions()["gone_refused"] == 1
    assert list(locamu(run, 4).departures.gone) == [3]
    assert not locamu(run, 7).departures.given_up  # what only waits is not lost


def test_nobody_joins_a_group_whose_coordinator_is_gone() -> None:
    groups = {"g": [1, 2], "h": [0, 2]}
    run = stage(4, 1, groups)
    assert run.director.do(("join", 0, "g"))  # which node 1 never hears of
    do(run, "crash", 1, 0)
    g = run.simulation.blueprint.groups.id_of("g")
    assert locamu(run, 0).asked_for() == [g]
    do(run, "gone", 2, 1)
    assert locamu(run, 0).asked_for() == []  # nothing is to be gained by waiting
    assert run.simulation.fired["note.locamu.never_admitted"] == 1
    assert "declared gone" in locamu(run, 3).refusal(g, joining=True)
    assert locamu(run, 3).refusal(g, joining=False) == ""
    run.simulation.lives.join_group(NodeId(3), g)
    assert run.simulation.fired["join_refused"] == 1
    do(run, "crash", 0)
    do(run, "recover", 0)
    assert locamu(run, 0).asked_for() == []
    assert g not in run.simulation.nodes[0].groups


def test_a_scenario_can_declare_a_node_gone() -> None:
    run = simulate(Scenario(SCENARIO.format(protocol="locamu"), "scenario"), "full")
    assert run.header.faults["gone"] == 1
    rows = run.events.to_pylist()
    gone_at = [row["node"] for row in rows if (row["kind"], row["note"]) == GONE]
    assert sorted(gone_at) == [0, 2, 3]
    assert sum(row["kind"] == "deliver" and row["node"] == 3 for row in rows) == 40


def test_a_protocol_that_cannot_give_a_node_up_is_refused() -> None:
    text = SCENARIO.format(protocol="naive_causal")
    with pytest.raises(ConfigError, match="naive_causal cannot give a node up"):
        Scenario(text, "scenario")


def test_only_what_a_node_that_is_gone_published_may_be_missing() -> None:
    gone, other = 3 << 32 | 1, 2 << 32 | 1
    violations: dict[str, list[Violation]] = {name: [] for name in GUARANTEES}
    violations["agreement"] = [Violation("agreement", "missing", 0, m) for m in (gone, other)]
    violations["causal_order"] = [
        Violation("causal_order", "gap", 0, other, 1, gone),
        Violation("causal_order", "inversion", 0, other, 1, gone),
    ]
    left, lost = without_losses(Judgement(violations, frozenset({"agreement"})), [3])
    assert lost == 2 and left.pending == frozenset()
    assert [v.message for v in left.violations["agreement"]] == [other]
    assert [v.kind for v in left.violations["causal_order"]] == ["inversion"]


def test_the_same_seed_gives_up_the_same_nodes() -> None:
    plan = Plan("locamu", gives_up=True, facts="plain")
    first, second = try_seed(plan, 7), try_seed(plan, 7)
    assert first.text == second.text and first.fired == second.fired
    assert plan.repeat(7).endswith("--gone --facts plain")


def test_a_cluster_of_the_test_kit_goes_on_without_a_node() -> None:
    cluster = Cluster(nodes=4, overlay="line", protocol="locamu")
    cluster.run_ms(100)
    cluster.crash(1)
    cluster.run_ms(1000)
    cluster.publish(0, b"past node 1")
    cluster.command(2, "gone 1")
    cluster.settle()
    assert cluster.delivered(3) == [b"past node 1"]
