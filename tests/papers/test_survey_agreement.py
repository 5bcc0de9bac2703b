"""A sender dies in the middle of a multicast and never comes back: do all others get it, or none?

P2 of "Scalability approaches for causal multicast: a survey", 2016. Where copies are passed on, all
correct nodes get what one of them got. Where copies go straight from their origin, it waits for the
origin's return: so that is what these protocols promise (`agreement_after_recovery`).
"""

from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run

NODES = 5
SENDER = 0
PASSED_ON = [
    ("first_generation", {}),
    ("psync", {}),
    ("vector_clock_broadcast", {}),
    ("compaction_multicast", {}),
    ("compaction_pairwise", {}),
    ("causal_separators", {"zone_size": 3}),
]
STRAIGHT = [
    ("cbcast", {}),
    ("causal_barriers", {}),
    ("vector_clock_broadcast", {"spread": "direct"}),
]


def last_words(protocol: str, options: dict[str, Any], effects: int, recover: bool) -> Run:
    """Node 0 crashes inside the step in which it publishes, after so many effects; then a node that
    has what it said publishes too."""
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", options),
        ("overlay", {"kind": "full_mesh", "nodes": NODES}),
        ("[publish]", {"at_ms": 100, "node": SENDER}),
        ("[publish]", {"at_ms": 400, "node": list(range(1, NODES))}),
        ("[fault]", {"at_ms": 99, "kind": "crash", "node": SENDER, "after_effects": effects}),
        ("calm", {"ms": 20_000, "recover_all": recover}),
    ]
    text = toml_text({"protocol": protocol, "until_ms": 1000, "seed": 1}, tables)
    return simulate(Scenario(text, "test"), "full")


def in_the_middle(protocol: str, options: dict[str, Any], recover: bool) -> Run:
    """The run in which some copies left and some did not."""
    for effects in range(1, 10):
        run = last_words(protocol, options, effects, recover)
        rows = run.events.to_pylist()
        sent = [r for r in rows if r["kind"] == "send" and r["node"] == SENDER]
        crashed = next(r["at_us"] for r in rows if r["kind"] == "crash")
        before = [r for r in sent if r["message"] is not None and r["at_us"] <= crashed]
        if before:
            assert len(before) < NODES - 1
            return run
    raise AssertionError("no copy left in any of the runs")


def delivered(run: Run) -> list[list[int]]:
    rows = [row for row in run.events.to_pylist() if row["kind"] == "deliver"]
    return [[row["message"] for row in rows if row["node"] == node] for node in range(NODES)]


@pytest.mark.parametrize(("protocol", "options"), PASSED_ON, ids=str)
def test_what_one_correct_node_got_all_get(protocol: str, options: dict[str, Any]) -> None:
    run = in_the_middle(protocol, options, recover=False)
    survivors = delivered(run)[1:]
    assert all(len(messages) == NODES for messages in survivors)  # the last words included
    found = judge(run)
    assert not any(found.violations.values())


@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_what_goes_straight_waits_for_its_origin(protocol: str, options: dict[str, Any]) -> None:
    """Nothing is delivered in a wrong order meanwhile, and all is well when the origin is back."""
    run = in_the_middle(protocol, options, recover=False)
    having = [node for node, messages in enumerate(delivered(run)) if 1 in messages and node]
    assert 1 <= len(having) < NODES - 1
    found = judge(run)
    assert [name for name, rows in found.violations.items() if rows] == ["agreement"]
    assert found.pending == {"agreement"}  # owed as soon as the origin is back
    healed = in_the_middle(protocol, options, recover=True)
    assert all(len(messages) == NODES for messages in delivered(healed))
    assert not any(judge(healed).violations.values()) and not judge(healed).pending
