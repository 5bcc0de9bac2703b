"""Swarm, explorer and conformance go wherever real nodes go: planted exceptions are found there."""

from collections import Counter
from typing import Any

import pytest

from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.registry import find_protocol, protocol_names
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import ENOUGH_SEEDS, Campaign, Plan, run_campaign
from causalcast.swarm.generate import random_scenario
from causalcast.swarm.mutant import Rewritten
from causalcast.swarm.real_worlds import drawn_facts, expected_facts
from causalcast.testing.conformance import Conformance

PROTOCOL = "vector_clock_broadcast"
RAISE = "raise AssertionError('planted')"
PLANTED = {
    "links_lose_nothing": Rewritten(
        ReliableSending,
        "on_message",
        "self._learn_how_long(neighbour, message, out)",
        RAISE,
    ),
    "no_records": Rewritten(
        ReliableSending,
        "accept",
        "if out.world.keeps_records:",
        f"if not out.world.keeps_records: {RAISE}\n        if True:",
    ),
    "congested": Rewritten(
        ReliableSending,
        "_repeat",
        "patience = self.repeat_after\n",
        f"patience = self.repeat_after\n    if peer in out.world.congested: {RAISE}\n",
    ),
}


def die(*_: Any) -> None:
    raise AssertionError("planted")


@pytest.fixture(params=[*PLANTED, "on_run"])
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An exception in a branch that only real nodes took once."""
    name = str(request.param)
    if name == "on_run":
        monkeypatch.setattr(VectorClockBroadcast, "on_run", die)
    else:
        patch = PLANTED[name]
        monkeypatch.setattr(patch.owner, patch.name, patch.replacement)
    return name


@pytest.mark.parametrize("by", ["random", "adversary", "stories"])
def test_the_swarm_finds_it(planted: str, by: str) -> None:
    if planted == "congested" and by != "random":
        most = 400
    else:
        most = 150
    found = run_campaign(Plan(PROTOCOL, by=by), range(most), stop_at_first=True)
    assert found.failures, planted
    assert "planted" in found.failures[0].detail


def test_it_was_not_found_while_nothing_was_known(planted: str) -> None:
    found = run_campaign(Plan(PROTOCOL, facts="plain"), range(40))
    assert not found.failures, planted


def test_conformance_finds_it(planted: str) -> None:
    with pytest.raises(AssertionError, match="planted"):
        Conformance(PROTOCOL).check_promises(range(100))


def combinations(protocol: str, seeds: range) -> Counter[tuple[bool, ...]]:
    spec = find_protocol(protocol)
    drawn: Counter[tuple[bool, ...]] = Counter()
    for seed in seeds:
        facts = drawn_facts(spec, seed)
        plain = {"keeps_records": True}
        known = [facts.get(name, plain.get(name, 0)) for name in FACTS]
        drawn[tuple(bool(value) for value in known)] += 1
    return drawn


FACTS = ("links_lose_nothing", "keeps_records", "congestion", "read_every_ms")


def test_every_combination_is_drawn() -> None:
    drawn = combinations(PROTOCOL, range(500))
    assert len(drawn) == 2 ** len(FACTS)
    assert drawn[False, True, False, False] > 100  # nothing is known
    assert drawn[True, True, True, True] > 50  # what a real node knows


@pytest.mark.parametrize("protocol", protocol_names())
def test_the_rest_of_a_seed_stays_and_can_be_run(protocol: str) -> None:
    spec = find_protocol(protocol)
    for seed in range(30):
        plain, told = (random_scenario(spec, seed, {}, facts=facts) for facts in ("plain", "drawn"))
        scenario = Scenario(told, "drawn", protocol=protocol)
        before = Scenario(plain, "plain", protocol=protocol)
        same = [stream.at_us for stream in before.streams]
        assert [stream.at_us for stream in scenario.streams] == same
        assert scenario.nodes() == before.nodes()
        if not drawn_facts(spec, seed):
            assert told == plain


def test_a_fact_that_was_never_drawn_fails_the_campaign() -> None:
    spec = find_protocol(PROTOCOL)
    campaign = Campaign(Plan(PROTOCOL), seeds=ENOUGH_SEEDS)
    everything = dict.fromkeys(campaign.never_fired(), 1)
    for fact in expected_facts(spec):
        assert fact in everything
        campaign.fired = {kind: times for kind, times in everything.items() if kind != fact}
        assert campaign.never_fired() == [fact] and not campaign.succeeded()
    plain = Campaign(Plan(PROTOCOL, facts="plain"), seeds=ENOUGH_SEEDS)
    assert not [kind for kind in plain.never_fired() if kind.startswith("world.")]


def test_a_plan_says_how_to_repeat_it() -> None:
    assert "--facts" not in Plan(PROTOCOL).repeat(3)
    assert Plan(PROTOCOL, facts="plain").repeat(3).endswith("--facts plain")


def test_who_gives_nodes_up_keeps_records() -> None:
    plan = Plan("locamu", gives_up=True)
    assert all(plan.facts_of(seed).get("keeps_records", True) for seed in range(100))
