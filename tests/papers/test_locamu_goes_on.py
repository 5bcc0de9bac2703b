"""LoCaMu goes on around nodes that never come back, with f = 1; each mechanism is needed for it.

The schedules are the smallest in which the algorithm of the papers lets somebody wait for ever,
though no more nodes are down than it may work around. With f of 2 or more one still does.
"""

from typing import Any

import pytest

from causalcast.core import Message, NodeId, Outbox
from causalcast.judge import judge
from causalcast.protocols.locamu.durable_records import DurableRecords
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import Key, Named, Replay, Replayed, StoodBy
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.own_names import OwnNames
from causalcast.protocols.locamu.peers import Peers
from causalcast.protocols.locamu.processing import Processing
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.replays import Replays
from causalcast.protocols.locamu.substitution import Substitution
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import Mutant, Patch

Tables = list[tuple[str, dict[str, Any]]]
LINE_OF_3 = [[0, 1], [1, 2]]
STAR = [[0, 1], [0, 2], [0, 3]]
C2_UNTIL_THE_FALL = ["publish 1 g", "bring 1 0", "bring 0 3", "publish 3 g"]
C2_FALL = ["crash 0 0", "suspect 1 0", "suspect 2 0", "suspect 3 0"]
HELD_REPLAY = [  # 2 gets 1.1 in the place of 1, and lacks 0.1
    "publish 0 all",
    "bring 0 1",
    "publish 1 all",
    "bring 1 0",
    "crash 1 0",
    "suspect 0 1",
    "suspect 2 1",
    "arrive 0 2 1",
]

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
    "C1, and who stands in suspected it before the receiver did": (
        LINE_OF_3,
        {"all": [0, 1, 2]},
        ["publish 1 all", "bring 1 0", "crash 1 0", "suspect 0 1", "bring 0 2", "suspect 2 1"],
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
    "C5, and what was told was lost once": (
        [[3, 2], [2, 0], [0, 1]],
        {"all": [0, 1, 2, 3]},
        [
            "publish 1 all",
            "bring 1 0",
            "bring 0 2",
            "publish 2 all",
            "lose 2 0",
            "expire 2 repeat",
            "expire 2 repeat",
            "bring 2 0",
            "crash 2 0",
        ],
    ),
    "C5, and who numbered it was down in between": (
        [[0, 2], [2, 1]],
        {"all": [0, 1, 2]},
        [
            "publish 0 all",
            "bring 0 2",
            "crash 2 0",
            "recover 2",
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
    "a replay waits where its causes are missing": (LINE_OF_3, {"all": [0, 1, 2]}, HELD_REPLAY),
    "a replay is lost with the node where it waits": (
        LINE_OF_3,
        {"all": [0, 1, 2]},
        [*HELD_REPLAY, "arrive 2 0", "crash 2 0", "recover 2"],
    ),
    "a name comes before the message": (
        STAR,
        {"g": [2, 3]},
        [
            *C2_UNTIL_THE_FALL,
            *C2_FALL,
            "bring 3 2",
            "expire 2 repeat",
            "arrive 2 3",
            "arrive 3 2",
        ],
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


def played(name: str) -> DirectedRun:
    """The run of a schedule; who is down at its end stays down, and all near it suspect it."""
    edges, groups, steps = SCHEDULES[name]
    return ended(edges, groups, steps, {})


def ended(
    edges: list[list[int]],
    groups: dict[str, list[int]],
    steps: list[str],
    options: dict[str, Any],
    level: str = "deliveries",
) -> DirectedRun:
    tables: Tables = [
        ("options", options),
        ("overlay", {"kind": "edges", "nodes": 1 + max(map(max, edges)), "edges": edges}),
        ("network", {"fifo": False}),
        ("groups", groups),
    ]
    scenario = Scenario(toml_text({"protocol": "locamu", "steps": steps}, tables), "stays down")
    run = DirectedRun(scenario, level)
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


@pytest.mark.parametrize("name", SCHEDULES)
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


ONE_FELL = ["publish 0 all", "bring 0 1", "crash 0 0"]
FAR_ANSWER = [  # 0 past 1 and 2 to 3, who asks those; 3 past 4 and 5 to 6, who does the same
    *["suspect 0 1", "suspect 0 2", "publish 0 m", "bring 0 3"],
    *["arrive 3 1", "arrive 3 2", "arrive 1 3", "arrive 2 3"],
    *["suspect 3 4", "suspect 3 5", "publish 3 answers", "bring 3 6"],
]
BOTH_FALL = ["crash 0 0", "crash 3 0"]
# With f of 2 or more: f, edges, groups, steps, and who never gets what.
BEYOND_ONE: dict[
    str, tuple[int, list[list[int]], dict[str, list[int]], list[str], list[tuple[int, str]]]
] = {
    # Who has it got it from somebody who fell, and has nothing of its publisher's own; the way back
    # is none of its targets.
    "two in a row, and nobody is suspected wrongly": (
        2,
        [[2, 0], [0, 1], [1, 3]],
        {"all": [0, 1, 2, 3]},
        [*ONE_FELL, "bring 1 3", "crash 1 0"],
        [(2, "0.1")],
    ),
    "one between them was suspected wrongly": (
        2,
        [[0, 1], [1, 2], [2, 3], [3, 4]],
        {"all": [0, 1, 2, 3, 4]},
        ["suspect 3 2", "publish 3 all", "bring 3 1", "crash 3 0", "bring 1 0", "crash 1 0"],
        [(2, "3.1"), (4, "3.1")],
    ),
    "three in a row": (
        3,
        [[4, 0], [0, 1], [1, 2], [2, 3]],
        {"all": [0, 1, 2, 3, 4]},
        [*ONE_FELL, "bring 1 2", "crash 1 0", "bring 2 3", "crash 2 0"],
        [(4, "0.1")],
    ),
    # Nobody can do better who lets an answer leave without what it follows: 6 has delivered it, and
    # what 1 must deliver before it fell with 0 and 3.
    "an answer went further than what it follows": (
        2,
        [[node, node + 1] for node in range(6)],
        {"m": [0, 1, 3], "answers": [1, 3, 6]},
        [*FAR_ANSWER, "arrive 6 4", "arrive 6 5", "arrive 4 6", "arrive 5 6", *BOTH_FALL],
        [(1, "3.1")],
    ),
}


@pytest.mark.parametrize("name", BEYOND_ONE)
def test_with_f_of_2_or_more_those_that_fall_take_a_message_with_them(name: str) -> None:
    f, edges, groups, steps, lost = BEYOND_ONE[name]
    run = ended(edges, groups, steps, {"f": f})
    assert lacking(run) == lost
    run.director.complete(recover_all=True)
    assert lacking(run) == []


@pytest.mark.parametrize("f", [2, 3])
def test_with_f_of_2_or_more_what_is_published_after_the_fall_comes_everywhere(f: int) -> None:
    """Twice as many in a row are away as may be: everything has to jump over them."""
    nodes = 4 * f + 3
    edges = [[node, node + 1] for node in range(nodes - 1)]
    away = [*range(1, f + 1), *range(nodes - 1 - f, nodes - 1)]
    up = [node for node in range(nodes) if node not in away]
    steps = [f"crash {node}" for node in away] + [f"publish {node} all" for node in up]
    run = ended(edges, {"all": list(range(nodes))}, steps, {"f": f})
    assert lacking(run) == []
    rows = run.result().events.to_pylist()
    assert sum(row["kind"] == "deliver" for row in rows) == len(up) ** 2


# Planted bugs: what each mechanism is for.

_on_recover = Locamu.on_recover
_tell = Peers.tell


def stand_in_for_nobody(*_: object) -> None:
    return


def tell_no_names(
    self: OwnNames, node: NodeId, copy: Record, whole: bool, out: Outbox
) -> list[object]:
    return []


def tell_near_names(
    self: OwnNames, node: NodeId, record: Record, tells_all: bool, knows: bool
) -> dict[NodeId, int]:
    return _unknown_to(self, node, record, False, knows)


_unknown_to = OwnNames._unknown_to


def forget_names(self: KnownNames, record: Record) -> list[Named]:
    return []


def all_is_settled(self: OwnNames, node: NodeId) -> int:
    return self._past.numbers[self._me, node]


def recover_without_names(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, [entry for entry in records if not isinstance(entry, Named)], out)


def recover_without_standby(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, [entry for entry in records if not isinstance(entry, StoodBy)], out)


def snapshot_without_standby(self: DurableRecords) -> list[Message]:
    return [entry for entry in _snapshot(self) if not isinstance(entry, StoodBy)]


_snapshot = DurableRecords.snapshot


def forget_all(self: KnownNames) -> list[Named]:
    return []


def needed_for_nobody(self: Substitution, record: Record) -> bool:
    return False


def led_to_members(self: Processing, record: Record) -> list[NodeId]:
    group = record.message.publication.group  # type: ignore[attr-defined]
    return self.members.led_to(group, record.epoch, self.peers.reachable)


def replay_without_causes(self: Peers, node: NodeId, message: Message, out: Outbox) -> None:
    if isinstance(message, Replay):
        message = Replay(message.message, message.origin, message.epoch, message.numbers, needs={})
    _tell(self, node, message, out)


def answer_what_is_held(self: Locamu, sender: NodeId, replay: Replay, out: Outbox) -> None:
    _on_replay(self, sender, replay, out)
    self.peers.tell(sender, Replayed(replay.origin, replay.numbers[self.me]), out)


_on_replay = Locamu._on_replay


def key_of_the_next(self: KnownNames, issuer: NodeId, node: NodeId, number: int) -> Key | None:
    return _key(self, issuer, node, number + 1)


_key = KnownNames._key

C1 = "C1: the publisher fell before its copy arrived"
C2 = "C2: the forwarder fell, and only it knows under which number"
C5 = "C5: a number that nobody was told is depended on"
# What is planted -> the patch, and the schedule that shows it.
PLANTED: dict[str, tuple[Patch, str]] = {
    "nobody stands in": (Patch(Replays, "replay", stand_in_for_nobody), C1),
    "forgotten before it is finished": (
        Patch(Substitution, "_is_needed_for_publisher", needed_for_nobody),
        C1,
    ),
    "a standby copy is not on disk": (
        Patch(Locamu, "on_recover", recover_without_standby),
        "C1, and its neighbour was down in between",
    ),
    "a standby copy is not in the snapshot": (
        Patch(DurableRecords, "snapshot", snapshot_without_standby),
        "C1, and its neighbour lives from a snapshot",
    ),
    "a replay without what it depends on": (
        Patch(Peers, "tell", replay_without_causes),
        "a replay waits where its causes are missing",
    ),
    "a replay is acknowledged while it waits": (
        Patch(Locamu, "_on_replay", answer_what_is_held),
        "a replay is lost with the node where it waits",
    ),
    "names are not told": (Patch(OwnNames, "to_tell", tell_no_names), C5),
    "names are told to those near alone": (
        Patch(OwnNames, "_unknown_to", tell_near_names),
        "C5, for a node two hops behind the one that fell",
    ),
    "names are told once": (
        Patch(OwnNames, "_start_over", stand_in_for_nobody),
        "C5, and what was told was lost once",
    ),
    "names are told of what was numbered since a crash alone": (
        Patch(OwnNames, "restore", stand_in_for_nobody),
        "C5, and who numbered it was down in between",
    ),
    "names are not asked for": (Patch(KnownNames, "ask", stand_in_for_nobody), C2),
    "a name is dropped with its message": (Patch(KnownNames, "take_over", forget_names), C2),
    "a name is dropped before all have it": (
        Patch(OwnNames, "_settled_at", all_is_settled),
        "C2, and the forwarder said before what the others have",
    ),
    "names are not on disk": (
        Patch(Locamu, "on_recover", recover_without_names),
        "C2, and who knows the number was down in between",
    ),
    "names are not in the snapshot": (
        Patch(KnownNames, "snapshot", forget_all),
        "C2, and who knows the number lives from a snapshot",
    ),
    "a name is taken for another number": (Patch(KnownNames, "_key", key_of_the_next), C5),
    "publications go to members alone": (
        Patch(Processing, "_led_to", led_to_members),
        "C6: the publisher's next message went to others than the one before",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_each_mechanism_is_needed(bug: str) -> None:
    patch, name = PLANTED[bug]
    with Mutant("planted", "", [], [patch]).planted():
        assert lacking(played(name)) != []
