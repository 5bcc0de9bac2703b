"""What waits at its receiver is not sent again and again, and what waits is not scanned for each
message that comes."""

from typing import Any

import pytest

from causalcast.core import NodeId, Outbox
from causalcast.judge import judge
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.processing import Processing
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import Mutant, Patch

WAITING = 20
_send_copy = Forwarding._send_copy


def stage(
    edges: list[list[int]],
    groups: dict[str, list[int]],
    f: int,
    steps: list[str],
    window: int = 1000,
) -> DirectedRun:
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", {"f": f, "window": window}),
        ("overlay", {"kind": "edges", "nodes": 1 + max(map(max, edges)), "edges": edges}),
        ("groups", groups),
        ("calm", {"recover_all": True}),
    ]
    scenario = Scenario(toml_text({"protocol": "locamu", "steps": steps}, tables), "stage")
    run = DirectedRun(scenario, "messages")
    for step in scenario.steps:
        assert run.director.do(step), step
    return run


def turn(run: DirectedRun, times: int) -> None:
    """Let everything arrive, and each timer run out, so many times."""
    for _ in range(times):
        run.director._empty_queues()
        for me, key in run.director._timers_in_order():
            if key in run.simulation.nodes[me].timers:
                run.simulation.run_out(me, key)
                run.simulation.end_turn()


def locamu(run: DirectedRun, node: int) -> Locamu:
    multicast = run.simulation.nodes[node].stack.multicast
    assert isinstance(multicast, Locamu)
    return multicast


class Counted:
    """Copies that were sent, planted into the protocol."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], int] = {}

    def mutant(self) -> Mutant:
        def send(
            node: Forwarding,
            record: Record,
            to: NodeId,
            before: list[NodeId],
            again: bool,
            out: Outbox,
        ) -> None:
            me = node._me
            self.sent[me, to] = self.sent.get((me, to), 0) + 1
            _send_copy(node, record, to, before, again, out)

        return Mutant("counted", "", [], [Patch(Forwarding, "_send_copy", send)])


# Node 1 publishes, reaches node 0 and falls: what node 0 publishes waits at node 2 for that.
FALLS = ["publish 1 all", "bring 1 0", "crash 1 0"]


def test_what_waits_at_its_receiver_is_not_sent_whole_again() -> None:
    steps = [*FALLS, *["publish 0 all"] * WAITING]
    counted = Counted()
    with counted.mutant().planted():
        run = stage([[0, 1], [1, 2]], {"all": [0, 1, 2]}, 2, steps)
        turn(run, 60)
        assert len(locamu(run, 2).holdback.copies) >= WAITING
        assert counted.sent[0, 2] <= 3 * WAITING
        run.complete()
    assert not locamu(run, 2).holdback.copies


def test_a_repetition_of_what_waits_asks_no_new_question() -> None:
    """Two nodes in a row are skipped, so node 5 asks around the gap before it takes a copy. Copies
    that come again while it waits for an answer are no reason to ask anew."""
    steps = ["suspect 0 1", "suspect 0 2", "publish 0 g", "bring 0 3", "suspect 3 2", "suspect 3 4"]
    run = stage(
        [[0, 1], [1, 2], [2, 3], [2, 4], [4, 5]],
        {"g": [3, 5]},
        2,
        [*steps, "publish 3 g", "crash 0 0", "bring 3 5"],
    )
    first = dict(locamu(run, 5).consultation.asked)
    assert first
    copy = next(iter(locamu(run, 5).holdback.copies.values()))
    again = Arrived(
        copy.source,
        copy.message,
        copy.origin,
        copy.epoch,
        copy.back,
        dict(copy.numbers),
        dict(copy.needs),
        0,
    )
    again.number = copy.number
    locamu(run, 5).processing.take_in(copy.source, again, Outbox())
    assert dict(locamu(run, 5).consultation.asked) == first


def test_what_a_node_sent_and_is_held_is_not_asked_of_it_again() -> None:
    run = stage([[0, 1], [1, 2]], {"all": [0, 1, 2]}, 2, [*FALLS, *["publish 0 all"] * WAITING])
    turn(run, 3)
    waiting = locamu(run, 2)
    wanted = waiting.missing.to_ask_for(1 << 60, 0)
    assert wanted == {1: [1]}  # and nothing of node 0, whose copies are here


def test_a_window_that_was_full_is_filled_in_order() -> None:
    """More than the window waits for a node that comes back; nothing is left behind."""
    steps = ["crash 2 0", *["publish 0 all"] * WAITING, "recover 2"]
    run = stage([[0, 1], [1, 2]], {"all": [0, 1, 2]}, 1, steps, window=3)
    run.complete()
    rows = run.result().events.to_pylist()
    got = [row["message"] for row in rows if row["kind"] == "deliver" and row["node"] == 2]
    assert got == list(range(1, WAITING + 1))
    assert not any(locamu(run, node).log.open.get(NodeId(2)) for node in (0, 1))


CATCHES_UP = """
protocol = "locamu"
until_ms = 20000
seed = 1
[options]
f = 1
[overlay]
kind = "tree"
nodes = 5
degree = 2
[network]
latency_ms = { kind = "uniform", low = 1, high = 3 }
[[publish]]
at_ms = 1000
node = "random"
count = 300
interval_ms = 1
[[fault]]
at_ms = 900
kind = "crash"
node = 2
[[fault]]
at_ms = 3000
kind = "recover"
node = 2
"""


def test_who_catches_up_looks_at_each_copy_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy waits for the last of what it lacks of an issuer, not for the first: else each that
    arrives wakes all that wait, which was some thirty times a copy here."""
    looks, came = 0, 0
    consider, take_in = Processing._consider, Processing.take_in

    def counted(self: Processing, key: Pair, copy: Arrived, out: Outbox) -> None:
        nonlocal looks
        looks += 1
        consider(self, key, copy, out)

    def counted_in(self: Processing, sender: NodeId, copy: Arrived | None, out: Outbox) -> None:
        nonlocal came
        came += 1
        take_in(self, sender, copy, out)

    monkeypatch.setattr(Processing, "_consider", counted)
    monkeypatch.setattr(Processing, "take_in", counted_in)
    run = simulate(CATCHES_UP, "deliveries")
    assert run.publications > 200
    assert not any(judge(run).violations.values())
    assert came < looks < 3 * came
