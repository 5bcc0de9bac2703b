"""A failing scenario becomes small, and what is left still fails in the same way."""

import tomllib
from typing import Any

import pytest

from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.swarm.generate import toml_text
from causalcast.swarm.shrink import Shrinker, shrink
from causalcast.swarm.smaller import simpler_details, text_of_scenario, without_node
from causalcast.swarm.trial import try_scenario

PLAN = Plan("naive_flood", check=("causal_order",))


@pytest.mark.parametrize("by", ["random", "adversary"])
def test_flood_out_of_order_needs_two_publications(by: str) -> None:
    plan = Plan("naive_flood", check=("causal_order",), by=by)
    trial = next(t for t in (try_seed(plan, seed) for seed in range(200)) if t.problems)
    shrunk = shrink(trial, plan.properties(), plan.protocol)
    again = try_scenario(Scenario(shrunk.text, "again"), plan.properties())
    assert again.broken() == {"causal_order"}
    data = tomllib.loads(shrunk.text)
    published = [s for s in data.get("steps", []) if s.startswith("publish")]
    assert len(published or data["publish"]) == 2
    assert shrunk.events <= 8 and shrunk.events < _size(trial.text)


def _size(text: str) -> int:
    data = tomllib.loads(text)
    streams = sum(stream.get("count", 1) for stream in data.get("publish", []))
    return len(data.get("steps", [])) + streams + len(data.get("fault", []))


def test_shrinking_the_same_thing_twice_gives_the_same() -> None:
    trial = next(t for t in (try_seed(PLAN, seed) for seed in range(200)) if t.problems)
    one, other = (shrink(trial, PLAN.properties(), PLAN.protocol) for _ in range(2))
    assert one.text == other.text


def test_without_patience_what_fails_is_kept_as_it_is() -> None:
    trial = next(t for t in (try_seed(PLAN, seed) for seed in range(200)) if t.problems)
    shrinker = Shrinker("causal_order", PLAN.properties(), PLAN.protocol, patience_s=0)
    shrunk = shrinker.shrink(trial.text)
    assert shrunk is not None
    assert shrunk.trial.broken() == {"causal_order"}


def test_what_only_moves_the_dice_is_left_out_with_other_dice() -> None:
    """With the latencies of one seed three publications are needed; with others two do."""
    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", {"kind": "edges", "nodes": 3, "edges": [[0, 1], [1, 2], [0, 2]]}),
        ("network", {"latency_ms": {"kind": "exponential", "mean": 30}, "fifo": False}),
        ("groups", {"all": "*"}),
    ]
    for at_ms, node in ((1, 0), (5, 0), (20, 1), (25, 1), (30, 2)):
        tables.append(("[publish]", {"at_ms": at_ms, "node": node, "group": "all"}))
    text = toml_text({"protocol": "naive_flood", "until_ms": 100, "seed": 5}, tables)
    shrinker = Shrinker("causal_order", ("causal_order",), "naive_flood")
    kept = shrinker._without_all_it_can_do_without(tomllib.loads(text))
    assert len(kept["publish"]) == 3
    shrunk = shrinker.shrink(text)
    assert shrunk is not None and shrunk.events == 2
    assert try_scenario(Scenario(shrunk.text, "again"), ("causal_order",)).problems


def test_what_is_left_breaks_the_same_property_and_not_just_any() -> None:
    """Without the cut, causal order is broken all the same; but agreement is not."""
    tables: list[tuple[str, dict[str, Any]]] = [
        ("overlay", {"kind": "edges", "nodes": 3, "edges": [[0, 1], [1, 2], [0, 2]]}),
        ("network", {"latency_ms": {"kind": "exponential", "mean": 30}, "fifo": False}),
        ("groups", {"all": "*"}),
        ("[fault]", {"at_ms": 100, "kind": "partition", "sides": [[0], [1, 2]]}),
    ]
    for number in range(12):
        tables.append(("[publish]", {"at_ms": 10 * number, "node": number % 3, "group": "all"}))
    both = ("causal_order", "agreement")
    text = toml_text({"protocol": "naive_flood", "until_ms": 200, "seed": 1}, tables)
    assert try_scenario(Scenario(text, "both"), both).broken() == set(both)
    shrunk = Shrinker("agreement", both, "naive_flood").shrink(text)
    assert shrunk is not None and shrunk.trial.broken() == {"agreement"}
    assert shrunk.events == 2, "the cut, and a publication that does not get across"


def test_a_node_is_left_out_everywhere() -> None:
    data = tomllib.loads(
        """
        protocol = "naive_flood"
        until_ms = 5
        [overlay]
        kind = "edges"
        nodes = 4
        edges = [[0, 1], [1, 2], [2, 3]]
        [groups]
        all = "*"
        few = [1, 2, 3]
        [[publish]]
        node = 1
        [[publish]]
        node = 3
        [[fault]]
        at_ms = 1
        kind = "cut"
        link = [0, 1]
        [[fault]]
        at_ms = 1
        kind = "partition"
        sides = [[0, 1], [2, 3]]
        [[fault]]
        at_ms = 2
        kind = "suspect"
        node = 3
        by = 2
        """
    )
    fewer = without_node(data, 1)
    assert fewer["overlay"] == {"kind": "edges", "nodes": 3, "edges": [[1, 2], [0, 1]]}
    assert fewer["groups"] == {"all": "*", "few": [1, 2]}
    assert fewer["publish"] == [{"node": 2}]
    assert [fault["kind"] for fault in fewer["fault"]] == ["partition", "suspect"]
    assert fewer["fault"][1] == {"at_ms": 2, "kind": "suspect", "node": 2, "by": 1}
    assert data["overlay"]["nodes"] == 4  # the original is as it was


def test_steps_follow_the_numbers() -> None:
    data = {
        "protocol": "naive_flood",
        "steps": ["publish 2 all", "arrive 2 3 1", "crash 1 0.5", "expire 3 timer 2"],
        "overlay": {"kind": "edges", "nodes": 4, "edges": [[0, 1], [1, 2], [2, 3]]},
    }
    assert without_node(data, 1)["steps"] == ["publish 1 all", "arrive 1 2 1", "expire 2 timer 2"]


def test_a_scenario_survives_being_taken_apart() -> None:
    for seed in range(20):
        text = try_seed(PLAN, seed).text
        assert tomllib.loads(text_of_scenario(tomllib.loads(text))) == tomllib.loads(text)


@pytest.mark.parametrize("kind", ["cut", "partition"])
def test_a_loud_cut_stays_loud(kind: str) -> None:
    """A silent one is another fault, which a protocol need not survive."""
    where: dict[str, Any] = {"link": [0, 1]} if kind == "cut" else {"sides": [[0], [1]]}
    fault = {"at_ms": 123, "kind": kind, "loud": True, **where}
    data = {"overlay": {"kind": "line", "nodes": 2}, "fault": [fault]}
    found = [smaller["fault"][0] for smaller in simpler_details(data)]
    assert found and all(entry["loud"] for entry in found)
