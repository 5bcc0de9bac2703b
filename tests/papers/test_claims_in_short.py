"""Properties that the sources state in words, each shown by one small run or by counting.

`causalcast reproduce` runs them again: `claims.toml` says which claim each of them decides.
"""

import itertools
import random
from typing import Any

import pytest

from causalcast.core import NodeId, graphs
from causalcast.core.topology import Topology
from causalcast.datagrams.plain_bytes import LARGEST
from causalcast.judge import judge
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.parts.vector_clock import VectorClock, concurrent, merge, precedes
from causalcast.protocols.locamu.fault_budget import is_within_budget
from causalcast.protocols.locamu.headers import Headers
from causalcast.protocols.locamu.link_header import Header
from causalcast.protocols.locamu.peers import Peers
from causalcast.protocols.member_multicast.members import MemberMulticast
from causalcast.registry import find_protocol
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import random_scenario, toml_text
from causalcast.swarm.mutant import Mutant, Patch
from causalcast.testing.draft_run import DraftRun, message_id

IP_AND_UDP = 20 + 8  # bytes of their heads
LINES = [graphs.from_edges(n, [(a, a + 1) for a in range(n - 1)]) for n in (5, 7)]
TREES = [*LINES, graphs.from_edges(10, graphs.tree(10, 3))]


def run_of(
    protocol: str,
    overlay: dict[str, Any],
    publish: list[dict[str, Any]],
    faults: list[dict[str, Any]] | None = None,
    options: dict[str, Any] | None = None,
    groups: dict[str, Any] | None = None,
) -> ScenarioRun:
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", options or {}),
        ("overlay", overlay),
        ("network", {"latency_ms": 1.0}),
        ("groups", groups or {"all": "*"}),
        *[("[publish]", stream) for stream in publish],
        *[("[fault]", fault) for fault in faults or []],
        ("calm", {"ms": 5000, "recover_all": False}),
    ]
    text = toml_text({"protocol": protocol, "until_ms": 500, "seed": 1}, tables)
    running = ScenarioRun(Scenario(text, "test"), "messages")
    running.run()
    return running


def rows_of(running: ScenarioRun, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in running.result().events.to_pylist() if row["kind"] in kinds]


# LoCaMu


@pytest.mark.parametrize("f", [1, 2])
def test_a_node_of_locamu_knows_nobody_further_than_2f_plus_1_hops(f: int) -> None:
    tree = {"kind": "tree", "degree": 3, "nodes": 127}
    publish = [{"node": [0, 70, 126], "count": 5, "interval_ms": 7}]
    running = run_of("locamu", tree, publish, options={"f": f})
    whole = graphs.from_edges(127, graphs.tree(127, 3))
    known = 0
    for node in running.simulation.nodes:
        past = node.stack.multicast.past  # type: ignore[attr-defined]
        named = {other for pair in past.numbers for other in pair} | set(past.arrived)
        near = whole.distances(node.me, 2 * f + 1)
        assert named <= set(near), f"{node.me} knows {named - set(near)}"
        known += len(named)
    assert known > 127, "something is kept"


def is_connected(nodes: set[NodeId], whole: Topology, reach: int) -> bool:
    """Whether these nodes are in one piece if all within so many hops have links."""
    found = {next(iter(nodes))}
    while more := {o for n in found for o in whole.distances(n, reach) if o in nodes} - found:
        found |= more
    return found == nodes


@pytest.mark.parametrize("f", [1, 2])
@pytest.mark.parametrize("tree", TREES, ids=["line of 5", "line of 7", "tree of 10"])
def test_links_of_f_plus_1_hops_keep_survivors_together(tree: Topology, f: int) -> None:
    """Of every set of nodes that the bound allows to be down; with f hops some sets do not."""
    everybody = set(tree.neighbours)
    allowed = [
        set(down)
        for size in range(len(everybody))
        for down in itertools.combinations(everybody, size)
        if is_within_budget(dict.fromkeys(down), tree, f)
    ]
    assert all(is_connected(everybody - down, tree, f + 1) for down in allowed)
    assert not all(is_connected(everybody - down, tree, f) for down in allowed)


@pytest.mark.parametrize("f", [1, 2, 3])
def test_of_2f_plus_1_nodes_in_a_row_f_plus_1_are_always_up(f: int) -> None:
    """So a copy that passes all who are up has the numbers of enough of them."""
    length = 4 * f + 2
    line = graphs.from_edges(length, [(a, a + 1) for a in range(length - 1)])
    for size in range(length):
        for down in itertools.combinations(range(length), size):
            if is_within_budget({NodeId(node): None for node in down}, line, f):
                rows = [range(a, a + 2 * f + 1) for a in range(length - 2 * f)]
                assert all(sum(n not in down for n in row) >= f + 1 for row in rows)


@pytest.mark.parametrize("f", [1, 2])
def test_who_can_send_to_those_within_reach_is_within_2f_plus_2_hops(f: int) -> None:
    """And some of them are no nearer, so that a smaller ball does not hold them all."""
    tree = graphs.from_edges(63, graphs.tree(63, 3))
    furthest = 0
    for me in tree.neighbours:
        wide = tree.distances(me, 2 * f + 2)
        senders = {s for near in tree.distances(me, f + 1) for s in tree.distances(near, f + 1)}
        assert senders <= set(wide)
        furthest = max(furthest, max(wide[sender] for sender in senders))
    assert furthest == 2 * f + 2


def test_copies_move_away_from_their_publisher_and_have_2f_plus_1_issuers_at_most() -> None:
    """Under crashes and wrong suspicions; copies that a neighbour sends in place of the publisher
    begin there, so those are left out."""
    most = 0
    write = Headers.write

    def counted(self: Headers, node: NodeId, header: Header, again: bool) -> bytes:
        nonlocal most
        most = max(most, len(header.numbers))
        return write(self, node, header, again)

    sends = 0
    spec = find_protocol("locamu")
    with Mutant("counted", "", [], [Patch(Headers, "write", counted)]).planted():
        for seed in range(3):
            text = random_scenario(spec, seed, {})
            running = ScenarioRun(Scenario(text, f"seed {seed}", "locamu"), "messages")
            running.run()
            topology = running.scenario.blueprint.topology
            around = Neighbourhood(NodeId(0), topology)
            for row in rows_of(running, "send"):
                if row["note"] == "locamu.copy" and row["message"] is not None:
                    origin, node = NodeId(row["message"] >> 32), NodeId(row["node"])
                    way = around.way(origin, NodeId(row["peer"]))
                    assert node in way, f"seed {seed}: {row}"
                    sends += 1
    assert sends > 100 and most == 3


def test_sending_to_the_first_live_node_only_saves_copies() -> None:
    """Against copies to everybody within reach, with nobody down and with one."""

    def all_live(self: Peers) -> dict[NodeId, None]:
        return {node: None for node in self.reachable if node not in self.suspected}

    tree = {"kind": "tree", "degree": 3, "nodes": 15}
    publish = [{"node": [7, 14], "count": 10, "interval_ms": 10}]
    crash = [{"at_ms": 20, "kind": "crash", "node": 1}]
    for faults in ([], crash):
        counts = []
        for patches in ([], [Patch(Peers, "_first_live", all_live)]):
            with Mutant("to_all", "", [], patches).planted():
                running = run_of("locamu", tree, publish, faults)
            counts.append(sum(r["note"] == "locamu.copy" for r in rows_of(running, "send")))
        assert counts[0] * 1.5 < counts[1], counts


# Vector clocks, and CBCAST's of all groups


def test_vector_clocks_say_exactly_what_happened_before_and_lamport_clocks_do_not() -> None:
    """Random runs of four processes; a Lamport clock also orders what is concurrent."""
    misled = 0
    for seed in range(40):
        dice = random.Random(seed)
        clocks: list[VectorClock] = [{} for _ in range(4)]
        lamport = [0] * 4
        pasts: list[set[int]] = [set() for _ in range(4)]
        events: list[tuple[VectorClock, int, set[int]]] = []
        for event in range(24):
            me = dice.randrange(4)
            if events and dice.random() < 0.6:  # it has heard of an earlier event
                heard = dice.randrange(len(events))
                merge(clocks[me], events[heard][0])
                lamport[me] = max(lamport[me], events[heard][1])
                pasts[me] |= events[heard][2] | {heard}
            clocks[me][NodeId(me)] = clocks[me].get(NodeId(me), 0) + 1
            lamport[me] += 1
            events.append((dict(clocks[me]), lamport[me], set(pasts[me])))
            pasts[me].add(event)
        for one, other in itertools.permutations(range(24), 2):
            before = one in events[other][2]
            assert precedes(events[one][0], events[other][0]) == before
            unrelated = not before and other not in events[one][2]
            assert concurrent(events[one][0], events[other][0]) == unrelated
            misled += unrelated and events[one][1] < events[other][1]
    assert misled > 0


def metadata_of(protocol: str, nodes: int, own_ms: int, others_ms: int) -> tuple[float, float]:
    """Mean bytes beside the body: in node 0's copies, and in those of the others."""
    others = list(range(1, nodes))
    publish = [
        {"node": 0, "count": 400 // own_ms, "interval_ms": own_ms},
        {"node": others, "count": 400 // others_ms, "interval_ms": others_ms},
    ]
    mesh = {"kind": "full_mesh", "nodes": nodes}
    running = run_of(protocol, mesh, publish, options={"spread": "direct"})
    copies = [row for row in rows_of(running, "send") if row["payload_bytes"]]
    of_0 = [row["metadata_bytes"] for row in copies if row["node"] == 0]
    rest = [row["metadata_bytes"] for row in copies if row["node"] != 0]
    return sum(of_0) / len(of_0), sum(rest) / len(rest)


def share_of_clock(nodes: int, own_ms: int, others_ms: int) -> tuple[float, float]:
    """What compaction leaves of a clock, in node 0's copies and in those of the others."""
    compact = metadata_of("compaction_multicast", nodes, own_ms, others_ms)
    clocks = metadata_of("vector_clock_broadcast", nodes, own_ms, others_ms)
    return compact[0] / clocks[0], compact[1] / clocks[1]


def test_who_publishes_often_compacts_most() -> None:
    often, seldom = share_of_clock(nodes=16, own_ms=4, others_ms=100)
    assert often < 0.75 * seldom


def test_compaction_leaves_less_where_others_are_silent_and_more_where_they_talk() -> None:
    quiet, busy = (metadata_of("compaction_multicast", 16, 10, others)[0] for others in (100, 10))
    assert quiet < 0.75 * busy


def test_what_compaction_leaves_depends_on_the_rate_and_on_the_number_of_processes() -> None:
    by_rate = [share_of_clock(16, own, 100)[0] for own in (4, 100)]
    by_number = [share_of_clock(nodes, 4, 100)[0] for nodes in (4, 16)]
    assert by_rate[0] < 0.75 * by_rate[1] and by_number[1] < 0.9 * by_number[0]


def test_a_node_of_cbcast_keeps_counts_of_groups_that_it_is_not_in() -> None:
    groups = {"first": [0, 1], "second": [1, 2], "third": [2, 3]}
    publish = [
        {"at_ms": 10 * place, "node": place, "group": group, "count": 1}
        for place, group in enumerate(groups)
    ]
    running = run_of("cbcast", {"kind": "full_mesh", "nodes": 4}, publish, groups=groups)
    names = running.scenario.blueprint.groups.names
    past = running.simulation.nodes[3].stack.multicast.past  # type: ignore[attr-defined]
    assert {names[group] for group, counts in past.items() if counts} >= set(groups)


# The report on multicast over datagrams


def test_concurrent_messages_may_be_delivered_in_any_order() -> None:
    draft = DraftRun()
    draft.found(0, 0, 1, 2, 3)
    for node in (0, 1):
        draft.add(node, "publish", message_id(node, 1), 0)
    for node in range(4):
        for origin in (0, 1) if node in (0, 2) else (1, 0):
            draft.add(node, "deliver", message_id(origin, 1), 0)
    assert not any(judge(draft.run()).violations.values())


def test_a_datagram_of_1500_bytes_is_too_long_for_a_link_of_1500() -> None:
    assert 1500 + IP_AND_UDP > 1500
    assert LARGEST + IP_AND_UDP == 1500


def test_where_receipts_count_two_members_wait_for_ever() -> None:
    """The rule that counts in the own slot on receipt too: the first answer is never next."""

    def answered(counts_receipts: bool) -> int:
        ada, bob = MemberMulticast(0, 2), MemberMulticast(1, 2)
        _, (asked,) = ada.multicast(b"question", [0, 1])
        bob.receive(0, asked.stamped)
        _, (answer,) = bob.multicast(b"answer", [0, 1])
        if counts_receipts:
            answer.stamped.vector[1] += 1  # the receipt of the question
        return len(ada.receive(1, answer.stamped))

    assert answered(counts_receipts=False) == 1
    assert answered(counts_receipts=True) == 0


def test_the_vector_keeps_its_size_when_a_member_failed() -> None:
    ada = MemberMulticast(0, 4)
    _, before = ada.multicast(b"four of us", [0, 1, 2, 3])
    ada.drop(2)
    _, after = ada.multicast(b"three of us", [0, 1, 3])
    lengths = {len(copy.stamped.vector) for copy in [*before, *after]}
    assert lengths == {4}


def test_nobody_waits_for_a_member_that_is_down() -> None:
    """From the crash of one of three on, the others get each other's messages after one hop."""
    publish = [{"node": [0, 1], "count": 20, "interval_ms": 20, "at_ms": 5}]
    crash = [{"at_ms": 100, "kind": "crash", "node": 2}]
    running = run_of("member_multicast", {"kind": "full_mesh", "nodes": 3}, publish, crash)
    published = {row["message"]: row["at_us"] for row in rows_of(running, "publish")}
    took = [
        row["at_us"] - published[row["message"]]
        for row in rows_of(running, "deliver")
        if row["node"] in (0, 1)
    ]
    assert len(took) == 2 * 40 and max(took) < 2000
