"""Schedules in which LoCaMu lets somebody wait for ever for a node that never comes back.

They are the smallest known in which the algorithm of the papers does so, though no more nodes are
down than it may work around. Who waits is expected here: once nobody does, these tests say so.
"""

from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text

Tables = list[tuple[str, dict[str, Any]]]
LINE_OF_3 = [[0, 1], [1, 2]]
STAR = [[0, 1], [0, 2], [0, 3]]
C2_UNTIL_THE_FALL = ["publish 1 g", "bring 1 0", "bring 0 3", "publish 3 g"]
C2_FALL = ["crash 0 0", "suspect 1 0", "suspect 2 0", "suspect 3 0"]
# Name -> edges, groups, steps.
SCHEDULES: dict[str, tuple[list[list[int]], dict[str, list[int]], list[str]]] = {
    "C1: the publisher fell before its copy arrived": (
        LINE_OF_3,
        {"all": [0, 1, 2]},
        ["publish 1 all", "bring 1 0", "crash 1 0", "suspect 0 1", "suspect 2 1", "publish 0 all"],
    ),
    "C1, and its neighbour was down in between": (
        LINE_OF_3,
        {"all": [0, 1, 2]},
        ["publish 1 all", "bring 1 0", "crash 0 0", "recover 0", "crash 1 0", "suspect 2 1"],
    ),
    "C1, and its neighbour lives from a snapshot": (
        LINE_OF_3,
        {"all": [0, 1, 2]},
        ["publish 1 all", "bring 1 0", "compact 0", "crash 0 0", "recover 0", "crash 1 0"],
    ),
    "C2: the forwarder fell, and only it knows under which number": (
        STAR,
        {"g": [2, 3]},
        [*C2_UNTIL_THE_FALL, *C2_FALL],
    ),
    "C2, and who knows the number was down in between": (
        STAR,
        {"g": [2, 3]},
        [*C2_UNTIL_THE_FALL, "crash 3 0", "recover 3", *C2_FALL],
    ),
    "C2, and who knows the number lives from a snapshot": (
        STAR,
        {"g": [2, 3]},
        [*C2_UNTIL_THE_FALL, "compact 3", "crash 3 0", "recover 3", *C2_FALL],
    ),
    "C2, and the forwarder said before what the others have": (
        STAR,
        {"g": [2, 3]},
        [*C2_UNTIL_THE_FALL, "expire 0 repeat", "arrive 0 3", "arrive 0 3", *C2_FALL],
    ),
    "C3: a relay got two messages in an order that nobody meant": (
        [[0, 1], [1, 2], [0, 3]],
        {"g": [2, 3]},
        [
            "publish 2 g",
            "publish 0 g",
            "bring 0 1",
            "crash 0 0",
            "suspect 1 0",
            "suspect 3 0",
            "bring 2 1",
        ],
    ),
    "C4: what the publisher sent past a neighbour is with one behind that alone": (
        [[0, 1], [1, 2], [2, 3]],
        {"all": [0, 1, 2, 3]},
        ["suspect 1 2", "publish 1 all", "bring 1 3", "crash 1 0"],
    ),
    "C5: a number that nobody was told is depended on": (
        [[3, 2], [2, 0], [0, 1]],
        {"all": [0, 1, 2, 3]},
        [
            "publish 1 all",
            "bring 1 0",
            "publish 0 all",
            "bring 0 2",
            "bring 0 2",
            "publish 2 all",
            "bring 2 0",
            "crash 2 0",
        ],
    ),
    "C5, for a node two hops behind the one that fell": (
        [[4, 1], [1, 3], [3, 2], [2, 5], [5, 0]],
        {"all": [0, 1, 2, 3, 4, 5]},
        [
            "publish 5 all",
            "bring 5 2",
            "bring 2 3",
            "publish 3 all",
            "bring 3 2",
            "crash 3 0",
        ],
    ),
    "C6: the publisher's next message went to others than the one before": (
        [[1, 0], [0, 2]],
        {"two": [2], "both": [1, 2]},
        ["publish 0 two", "publish 0 both", "bring 0 1", "bring 0 1", "crash 0 0"],
    ),
    "Wrong suspicions alone, which doubled what was handed on with new numbers": (
        [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]],
        {"m": [0, 3], "mm": [0, 5]},
        [
            "suspect 1 2",
            "publish 1 m",
            "bring 1 3",
            "suspect 3 4",
            "publish 3 mm",
            "bring 3 5",
            "suspect 4 3",
            "suspect 2 3",
            "suspect 5 3",
            "suspect 2 1",
        ],
    ),
    "Three of nine in a line are away": (
        [[node, node + 1] for node in range(8)],
        {"all": list(range(9))},
        ["crash 1", "crash 4", "crash 7", *[f"publish {node} all" for node in (0, 2, 3, 5, 6, 8)]],
    ),
}

WAITS = [name for name in SCHEDULES if name[:2] in ("C1", "C2", "C3", "C4", "C5", "C6")]


def played(name: str) -> DirectedRun:
    """The run of a schedule; who is down at its end stays down, and all near it suspect it."""
    edges, groups, steps = SCHEDULES[name]
    return ended(edges, groups, steps, {})


def ended(
    edges: list[list[int]],
    groups: dict[str, list[int]],
    steps: list[str],
    options: dict[str, Any],
) -> DirectedRun:
    tables: Tables = [
        ("options", options),
        ("overlay", {"kind": "edges", "nodes": 1 + max(map(max, edges)), "edges": edges}),
        ("network", {"fifo": False}),
        ("groups", groups),
    ]
    scenario = Scenario(toml_text({"protocol": "locamu", "steps": steps}, tables), "stays down")
    run = DirectedRun(scenario, "deliveries")
    for step in scenario.steps:
        run.director.do(step)
    run.director.complete(recover_all=False)
    return run


def lacking(run: DirectedRun) -> list[tuple[int, str]]:
    """Who of those that are up lacks what one of them has, or is out of order; and that."""
    found = judge(run.result()).violations
    return [
        (violation.node, f"{violation.message >> 32}.{violation.message & 0xFFFFFFFF}")
        for kind in ("agreement", "causal_order", "no_duplication")
        for violation in found[kind]
    ]


ON_THE_WAY = "a neighbour that stands in as its publisher would, and names of numbers, are missing"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=ON_THE_WAY))
        if name in WAITS
        else name
        for name in SCHEDULES
    ],
)
def test_nobody_waits_for_a_node_that_stays_down(name: str) -> None:
    run = played(name)
    assert lacking(run) == []
    assert all(
        not node.stack.multicast.holdback.copies  # type: ignore[attr-defined]
        for node in run.simulation.nodes
        if node.up
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_nothing_is_missing_or_left_when_all_are_back(name: str) -> None:
    run = played(name)
    run.director.complete(recover_all=True)
    assert lacking(run) == []
    assert all(node.stack.multicast.is_idle() for node in run.simulation.nodes)  # type: ignore[attr-defined]


def test_with_f_of_2_two_that_fall_take_a_message_with_them() -> None:
    """0 has 3.1 from 1, which got it from its publisher; both fall. 0's targets are not on the way
    back, and it has nothing of the publisher's own: 2 and 4 never get it."""
    edges = [[node, node + 1] for node in range(4)]
    steps = ["suspect 3 2", "publish 3 all", "bring 3 1", "crash 3 0", "bring 1 0", "crash 1 0"]
    run = ended(edges, {"all": [0, 1, 2, 3, 4]}, steps, {"f": 2})
    assert lacking(run) == [(2, "3.1"), (4, "3.1")]
