"""A sender dies in the middle of a multicast and never comes back: do all others get it, or none?

P2 of "Scalability approaches for causal multicast: a survey", 2016. Where copies are passed on, all
correct nodes get what one of them got. Where copies go straight from their origin, those who have
one keep it until all have it, and hand it over when its origin is away. Without that (`UNKEPT`:
nobody ever asks or offers anything) the others wait for the origin's return.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from causalcast.core import NodeId, Outbox
from causalcast.judge import judge
from causalcast.protocols.cbcast.farewells import Unheard
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.testing import Cluster
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
STRAIGHT: list[tuple[str, dict[str, Any]]] = [
    ("cbcast", {}),
    ("causal_barriers", {}),
    ("vector_clock_broadcast", {"spread": "direct"}),
    ("first_generation", {"spread": "direct"}),
    ("psync", {"spread": "direct"}),
    ("compaction_multicast", {"spread": "direct"}),
    ("compaction_pairwise", {"spread": "direct"}),
]
ADDRESSED = ["cbcast", "causal_barriers"]
LATENCY_MS = 1.0  # of a `Cluster`
HOUR_MS = 3_600_000
UNKEPT = {"repeat_after": HOUR_MS, "acknowledge_after": HOUR_MS}


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


@pytest.mark.parametrize(("protocol", "options"), PASSED_ON + STRAIGHT, ids=str)
def test_what_one_correct_node_got_all_get(protocol: str, options: dict[str, Any]) -> None:
    run = in_the_middle(protocol, options, recover=False)
    survivors = delivered(run)[1:]
    assert all(len(messages) == NODES for messages in survivors)  # the last words included
    found = judge(run)
    assert not any(found.violations.values())
    assert bool(found.pending) == (protocol not in ADDRESSED)  # only these promise it outright


@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_a_sender_that_returns_does_no_harm(protocol: str, options: dict[str, Any]) -> None:
    healed = in_the_middle(protocol, options, recover=True)
    assert all(len(messages) == NODES for messages in delivered(healed))
    assert not any(judge(healed).violations.values()) and not judge(healed).pending


@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_a_sender_that_hangs_is_only_suspected(protocol: str, options: dict[str, Any]) -> None:
    """Its links stay, so nothing but a detector tells the others that they must bring its words."""
    cluster = Cluster(3, protocol, options=options, fifo=True)
    cluster.run_ms(50)
    cluster.cut(0, 2, loud=True)
    cluster.publish(0, b"last words")
    cluster.run_ms(5)
    cluster.world.doubts.hang(NodeId(0), 1.0)
    cluster.run_ms(10_000)
    assert cluster.delivered(1) == cluster.delivered(2) == [b"last words"]


@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_whom_a_sender_cannot_reach_others_reach(protocol: str, options: dict[str, Any]) -> None:
    """It lives, but its link to one node stays broken. When the link is back, nobody keeps what all
    have, although nothing changed for node 1, who had ceased to ask."""
    cluster = Cluster(3, protocol, options=options, fifo=True)
    cluster.run_ms(50)
    cluster.cut(0, 2, loud=True)
    cluster.publish(0, b"news")
    cluster.run_ms(60_000)
    assert cluster.delivered(2) == [b"news"]
    cluster.heal()
    cluster.run_ms(60_000)
    assert is_at_rest(cluster)


@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_a_living_origin_says_soon_that_all_have_it(protocol: str, options: dict[str, Any]) -> None:
    """Nobody has to wait until others are asked."""
    cluster = Cluster(3, protocol, options=options, fifo=True)
    cluster.run_ms(50)
    cluster.publish(0, b"news")
    cluster.run_ms(5)
    assert not is_at_rest(cluster)
    cluster.run_ms(95)
    assert is_at_rest(cluster)


def is_at_rest(cluster: Cluster) -> bool:
    rules, nodes = cluster.protocol.at_rest, cluster.world.nodes
    return all(rule(node.stack.multicast) for rule in rules for node in nodes)


@pytest.mark.parametrize("snapshots", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize(("protocol", "options"), STRAIGHT, ids=str)
def test_after_restarts_both_know_that_somebody_lacks_it(
    protocol: str, options: dict[str, Any], snapshots: bool
) -> None:
    """Node 2 cannot be reached. Sender and keeper restart, and the keeper asks; then the sender
    dies, and node 2 is back."""
    cluster = Cluster(3, protocol, options=options, fifo=True)
    cluster.run_ms(50)
    cluster.cut(0, 2, loud=True)
    cluster.cut(1, 2, loud=True)
    cluster.publish(0, b"news")
    cluster.run_ms(5)
    for node in (1, 0):
        if snapshots:
            cluster.world.lives.compact(NodeId(node))
        cluster.crash(node)
        cluster.recover(node)
    cluster.run_ms(5000)
    cluster.crash(0)
    cluster.heal()
    cluster.run_ms(20_000)
    assert cluster.delivered(2) == [b"news"]


# Packets of the first generation bring what came before in any case, if anybody speaks.
WAITING = [one for one in STRAIGHT if one[0] != "first_generation"]


@pytest.mark.parametrize(("protocol", "options"), WAITING, ids=str)
def test_without_those_who_keep_it_some_wait_for_ever(
    protocol: str, options: dict[str, Any]
) -> None:
    """Nothing is delivered in a wrong order even then."""
    run = in_the_middle(protocol, {**options, **UNKEPT}, recover=False)
    having = [node for node, messages in enumerate(delivered(run)) if 1 in messages and node]
    assert 1 <= len(having) < NODES - 1
    assert [name for name, rows in judge(run).violations.items() if rows] == ["agreement"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("protocol", ADDRESSED)
def test_a_cause_in_a_group_that_the_only_witness_is_not_in(protocol: str, kept: bool) -> None:
    """Node 1 gets an effect; the cause was published to a group that it is not in. It keeps it for
    node 2, who would else wait for ever for what died with node 0."""
    groups = {"pair": [0, 2], "all": [0, 1, 2]}
    cluster = Cluster(3, protocol, options=None if kept else dict(UNKEPT), groups=groups)
    cluster.run_ms(50)
    cluster.cut(0, 2)
    cluster.publish(0, b"cause", "pair")
    cluster.publish(0, b"effect", "all")
    cluster.run_ms(5)
    assert cluster.delivered(1) == [b"effect"]
    cluster.crash(0)
    cluster.run_ms(10_000)
    assert cluster.delivered(1) == [b"effect"]
    assert cluster.delivered(2) == ([b"cause", b"effect"] if kept else [])


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("protocol", ADDRESSED)
def test_who_keeps_a_cause_entrusts_it_with_its_own_words(protocol: str, restarts: bool) -> None:
    """Node 0's words to the trio reach node 1 alone, whose own reach node 2 alone; then both are
    dead. Node 2 is not in the trio and has all that node 3 needs, even if node 1 had restarted."""
    cluster = Cluster(4, protocol, groups={"trio": [0, 1, 3], "all": [0, 1, 2, 3]})
    cluster.run_ms(50)
    for a, b in ((0, 2), (0, 3), (1, 3)):
        cluster.cut(a, b)
    cluster.publish(0, b"cause", "trio")
    cluster.run_ms(5)
    cluster.crash(0)
    if restarts:
        cluster.crash(1)
        cluster.recover(1)
        cluster.run_ms(500)
    cluster.publish(1, b"effect", "all")
    cluster.run_ms(5)
    assert cluster.delivered(2) == [b"effect"]
    cluster.crash(1)
    cluster.run_ms(10_000)
    assert cluster.delivered(3) == [b"cause", b"effect"]


@pytest.mark.parametrize("protocol", ADDRESSED)
def test_who_hands_something_over_entrusts_its_causes(protocol: str) -> None:
    """Node 1 has a cause for node 3 and an effect for node 2, both of node 0, who is dead. It hands
    the effect over and dies, too. Node 2 can explain it to node 3."""
    groups = {"trio": [0, 1, 3], "others": [0, 1, 2], "all": [0, 1, 2, 3]}
    cluster = Cluster(4, protocol, groups=groups)
    cluster.run_ms(50)
    for a, b in ((0, 2), (0, 3), (1, 3)):
        cluster.cut(a, b)
    cluster.publish(0, b"cause", "trio")
    cluster.publish(0, b"effect", "others")
    cluster.run_ms(5)
    cluster.crash(0)
    cluster.run_ms(1000)
    assert cluster.delivered(2) == [b"effect"]
    cluster.crash(1)
    cluster.publish(2, b"answer", "all")
    cluster.run_ms(10_000)
    assert cluster.delivered(3) == [b"cause", b"answer"]


@pytest.mark.parametrize("protocol", ADDRESSED)
def test_who_left_is_entrusted_like_an_outsider(protocol: str) -> None:
    """Node 1 knows that node 2 left the club, and has something for it that node 2 never got."""
    cluster = Cluster(4, protocol, groups={"club": [0, 1, 2, 3], "all": [0, 1, 2, 3]})
    cluster.run_ms(50)
    for a, b in ((0, 2), (0, 3), (1, 3)):
        cluster.cut(a, b)
    cluster.publish(0, b"cause", "club")
    cluster.run_ms(5)
    cluster.leave(2, "club")
    cluster.run_ms(5)
    cluster.publish(1, b"effect", "all")
    cluster.run_ms(5)
    cluster.crash(0)
    cluster.crash(1)
    cluster.publish(2, b"answer", "all")
    cluster.run_ms(10_000)
    assert cluster.delivered(3)[-1:] == [b"answer"]
    assert cluster.delivered(2)[-1:] == [b"answer"]
    assert (b"effect" in cluster.delivered(3)) == (b"effect" in cluster.delivered(2))


@pytest.mark.parametrize("kept", [True, False])
def test_a_welcome_that_will_never_come(kept: bool) -> None:
    """Node 0 dies before it hears that node 2 joined. Node 1 knows what it had published before; so
    node 2 need not wait for it. (With barriers a message names what is for each, and none waits for
    a welcome.)"""
    options = None if kept else dict(UNKEPT)
    cluster = Cluster(3, "cbcast", options=options, groups={"club": [0, 1]})
    cluster.run_ms(50)
    cluster.publish(0, b"before", "club")
    cluster.run_ms(20)
    cluster.cut(0, 2)
    cluster.join(2, "club")
    cluster.crash(0)
    cluster.run_ms(20)
    cluster.publish(2, b"hello", "club")
    cluster.run_ms(20)
    cluster.publish(1, b"answer", "club")
    cluster.run_ms(5000)
    assert cluster.delivered(1) == [b"before", b"hello", b"answer"]
    assert cluster.delivered(2) == [b"hello", *([b"answer"] if kept else [])]


LEAVING = {"club": [0, 1, 2, 3], "all": [0, 1, 2, 3]}


def leave_while_something_follows(
    protocol: str, nodes: int = 4, cut: Sequence[tuple[int, int]] = ((0, 2), (0, 3), (1, 3))
) -> Cluster:
    """Node 1 has node 0's words to the club, which nobody else gets, and says something else to
    all, before it hears that node 2 left the club."""
    cluster = Cluster(nodes, protocol, groups={**LEAVING, "all": list(range(nodes))})
    cluster.run_ms(50)
    for a, b in cut:
        cluster.cut(a, b)
    cluster.publish(0, b"cause", "club")
    cluster.run_ms(5)
    cluster.leave(2, "club")
    cluster.publish(1, b"effect", "all")
    cluster.crash(0)
    return cluster


@pytest.mark.parametrize("restarts", ["never", "from its journal", "from a snapshot"])
@pytest.mark.parametrize("protocol", ADDRESSED)
def test_who_left_does_not_pass_on_what_nobody_can_explain(protocol: str, restarts: str) -> None:
    """Node 0 and node 1 die before they hear of the leave. If node 2 took the effect, node 3 would
    wait for ever for what node 2 says."""
    cluster = leave_while_something_follows(protocol)
    cluster.run_ms(LATENCY_MS)
    cluster.crash(1)
    assert cluster.delivered(1) == [b"cause", b"effect"]
    if restarts != "never":
        cluster.run_ms(5)
        if restarts == "from a snapshot":
            cluster._world.lives.compact(NodeId(2))
        cluster.crash(2)
        cluster.recover(2)
        cluster.run_ms(50)
    cluster.publish(2, b"answer", "all")
    cluster.run_ms(20_000)
    assert cluster.delivered(2) == cluster.delivered(3) == [b"answer"]
    cluster.recover(1)
    cluster.run_ms(5_000)
    assert cluster.delivered(2) == [b"answer", b"effect"]


def test_who_says_farewell_entrusts_the_causes() -> None:
    """Node 1 hears of the leave before it dies: then node 2 has the cause, for node 3."""
    cluster = leave_while_something_follows("cbcast")
    cluster.run_ms(3 * LATENCY_MS)
    cluster.crash(1)
    assert cluster.delivered(2) == [b"effect"]
    cluster.publish(2, b"answer", "all")
    cluster.run_ms(20_000)
    assert cluster.delivered(2) == [b"effect", b"answer"]
    assert cluster.delivered(3) == [b"cause", b"effect", b"answer"]


@pytest.mark.parametrize("kept", [True, False])
def test_others_say_farewell_for_one_that_died(kept: bool) -> None:
    """Node 4 is in no club; it got the cause and the effect from node 1, which dies before it can
    say farewell. So what node 2 left is explained by node 4. If node 4 has nothing, nobody has."""
    cut = [(0, 2), (0, 3), (0, 4), (1, 3)]
    cluster = leave_while_something_follows("cbcast", 5, cut if kept else [*cut, (1, 4)])
    cluster.run_ms(LATENCY_MS)
    cluster.crash(1)
    cluster.run_ms(20_000)
    assert cluster.delivered(4) == cluster.delivered(2) == ([b"effect"] if kept else [])
    assert cluster.delivered(3) == ([b"cause", b"effect"] if kept else [])


def test_a_cause_that_comes_after_all_is_as_good_as_a_farewell() -> None:
    """Node 0's words to node 2 were on their way when it left, and come when both others died."""
    cluster = Cluster(4, "cbcast", groups=LEAVING)
    cluster.run_ms(50)
    cluster.cut(0, 3)
    cluster.cut(1, 3)
    cluster.delay(0, 2, 50)
    cluster.publish(0, b"cause", "club")
    cluster.run_ms(5)
    cluster.leave(2, "club")
    cluster.publish(1, b"effect", "all")
    cluster.run_ms(LATENCY_MS)
    cluster.crash(0, keep=1.0)
    cluster.crash(1)
    cluster.run_ms(20)
    assert cluster.delivered(2) == []
    cluster.run_ms(40)
    assert cluster.delivered(2) == [b"effect"]
    cluster.run_ms(5_000)
    assert cluster.delivered(3) == [b"cause", b"effect"]


def test_what_was_waiting_in_the_group_is_no_longer_waited_for() -> None:
    """Node 1 leaves while node 0's words to the group wait there for node 2's. It drops them, and
    what node 0 says elsewhere waits for nothing but its farewell."""
    cluster = Cluster(3, "cbcast", groups={"club": [0, 1], "other": [1, 2]})
    cluster.run_ms(50)
    cluster.cut(1, 2)
    cluster.publish(2, b"question", "club")
    cluster.run_ms(5)
    cluster.publish(0, b"answer", "club")
    cluster.run_ms(5)
    cluster.publish(0, b"elsewhere", "other")
    cluster.run_ms(100)
    cluster.leave(1, "club")
    cluster.run_ms(LATENCY_MS)
    assert cluster.delivered(1) == []
    cluster.run_ms(2 * LATENCY_MS)
    assert cluster.delivered(1) == [b"elsewhere"]


def test_who_comes_back_still_waits_for_what_it_left() -> None:
    """Node 2 leaves and joins again before node 1 hears of it. Node 0's words were for the first
    time, and it is told so; but what node 1 says follows them."""
    cluster = Cluster(4, "cbcast", groups=LEAVING)
    cluster.run_ms(50)
    for a, b in ((0, 3), (1, 3)):
        cluster.cut(a, b)
    cluster.publish(0, b"cause", "club")
    cluster.cut(0, 2)
    cluster.run_ms(5)
    cluster.leave(2, "club")
    cluster.join(2, "club")
    cluster.publish(1, b"effect", "all")
    cluster.crash(0)
    cluster.run_ms(LATENCY_MS)
    cluster.crash(1)
    cluster.publish(2, b"answer", "all")
    cluster.run_ms(20_000)
    assert cluster.delivered(2) == cluster.delivered(3) == [b"answer"]


@pytest.mark.parametrize("protocol", ADDRESSED)
def test_what_nobody_alive_can_explain_is_delivered_by_nobody(protocol: str) -> None:
    """Node 0's words reach node 1 alone, whose answer reaches node 2; then both die. Node 2 never
    delivers the answer, and nobody needs to; when one of them is back, all is delivered."""
    cluster = Cluster(4, protocol)
    cluster.run_ms(50)
    cluster.cut(0, 2)
    cluster.cut(0, 3)
    cluster.cut(1, 3)
    cluster.publish(0, b"question")
    cluster.run_ms(5)
    cluster.crash(0)
    answer = cluster.publish(1, b"answer")
    cluster.run_ms(5)
    cluster.crash(1)
    cluster.run_ms(5000)
    assert cluster.delivered(2) == cluster.delivered(3) == []
    assert cluster.explain(2, answer)
    cluster.publish(3, b"who is there?")  # life goes on
    cluster.heal()
    cluster.run_ms(1000)
    assert cluster.delivered(2) == cluster.delivered(3) == [b"who is there?"]
    cluster.recover(1)
    cluster.run_ms(5000)
    expected = [b"who is there?", b"question", b"answer"]
    assert cluster.delivered(2) == cluster.delivered(3) == expected


def test_nobody_says_farewell_before_it_knows_of_the_leave() -> None:
    cluster = Cluster(3, "cbcast", groups={"club": [0, 1, 2]})
    cluster.run_ms(50)

    def answered() -> bool:
        out = Outbox()
        asked = cluster.world.nodes[1].stack.multicast
        assert isinstance(asked, Cbcast)
        asked._on_unheard(NodeId(2), Unheard(cluster.group_id("club"), 1), out)
        return bool(out.effects or out.records)

    assert not answered()
    cluster.leave(2, "club")
    cluster.run_ms(5)
    assert answered()
