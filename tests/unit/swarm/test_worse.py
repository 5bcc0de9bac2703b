"""Worse scenarios are about one thing each, stay within the promise, and can be repeated."""

import tomllib
from typing import Any

import pytest

from causalcast.registry import find_protocol, protocol_names
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import ENOUGH_SEEDS, WORSE, Campaign, Plan, run_campaign, try_seed
from causalcast.swarm.worse import LARGE_BODIES, MANY, SIZES, WorseDraw, worse_scenario

PROTOCOL = "vector_clock_broadcast"
SEEDS = range(150)


def drawn(protocol: str = PROTOCOL) -> list[dict[str, Any]]:
    spec = find_protocol(protocol)
    return [tomllib.loads(worse_scenario(spec, seed, {})) for seed in SEEDS]


def test_the_same_seed_gives_the_same_text() -> None:
    spec = find_protocol(PROTOCOL)
    assert worse_scenario(spec, 3, {}) == worse_scenario(spec, 3, {})
    assert worse_scenario(spec, 3, {}) != worse_scenario(spec, 4, {})


def test_everything_that_it_is_for_is_drawn() -> None:
    scenarios = drawn()
    latencies = [one["network"]["latency_ms"] for one in scenarios]
    kinds = {latency["kind"] for latency in latencies if isinstance(latency, dict)}
    assert {"pareto", "per_link", "uniform"} <= kinds
    faults = [fault for one in scenarios for fault in one.get("fault", [])]
    assert max(fault.get("extra_ms", 0) for fault in faults) > 5000  # slower than every timer
    streams = [stream for one in scenarios for stream in one["publish"]]
    assert max(stream["count"] for stream in streams) == max(MANY)
    assert {stream["payload_bytes"] for stream in streams} >= set(LARGE_BODIES)
    assert max(one["until_ms"] for one in scenarios) > 30_000  # a long quiet time
    outside = [
        stream
        for one in scenarios
        for stream in one["publish"]
        if one["groups"][stream["group"]] != "*"
        and stream["node"] not in one["groups"][stream["group"]]
    ]
    assert outside  # publishers that are no members
    lives = [
        [fault["at_ms"] for fault in one.get("fault", []) if fault["kind"] == "recover"]
        for one in scenarios
    ]
    assert any(len(times) > 2 and max(times) - min(times) < 100 for times in lives)


def test_every_theme_is_drawn() -> None:
    themes = set()
    for seed in SEEDS:
        draw = WorseDraw(find_protocol(PROTOCOL), seed, {}, "", SIZES)
        draw.choose_theme()
        themes.add(draw.theme)
    assert themes == {"slow_link", "cut", "handshake", "answer", "quiet", "sleeper"}


@pytest.mark.parametrize("protocol", protocol_names())
def test_they_can_be_run_and_nobody_falls_who_may_not(protocol: str) -> None:
    spec = find_protocol(protocol)
    for seed in range(20):
        text = worse_scenario(spec, seed, {})
        scenario = Scenario(text, "worse", protocol=protocol)
        if spec.tolerates is None:
            assert not [fault for fault in scenario.faults if fault.kind in ("crash", "cut")]


@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "cbcast", "locamu", "psync"])
def test_promises_hold(protocol: str) -> None:
    found = run_campaign(Plan(protocol, by=WORSE), range(2 if protocol == "locamu" else 6))
    assert not found.failures, found.failures[0]


def test_it_can_be_repeated() -> None:
    plan = Plan(PROTOCOL, by=WORSE)
    assert "--by worse" in plan.repeat(3)
    one, other = (try_seed(plan, 3, "full").run for _ in range(2))
    assert one is not None and other is not None and one.events.equals(other.events)


def test_what_never_happened_fails_a_large_campaign() -> None:
    campaign = Campaign(Plan(PROTOCOL, by=WORSE), seeds=ENOUGH_SEEDS)
    assert {"crash", "cut", "delay", "world.no_records"} <= set(campaign.never_fired())
