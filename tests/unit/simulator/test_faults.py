"""Every kind of fault fires, is counted, and does what it says."""

import random

import pytest

from causalcast.core.ids import NodeId
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.faults import KINDS, random_crashes
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.testing import Cluster

HEAD = """
protocol = "vector_clock_broadcast"
until_ms = 1000
[overlay]
kind = "ring"
nodes = 4
[network]
latency_ms = 20
[groups]
all = "*"
some = [0, 1]
[[publish]]
node = "random"
count = 100
interval_ms = 9
"""

FAULTS = {
    "crash": "node = 1",
    "hang": "node = 1",
    "recover": "node = 1",
    "compact": "node = 2",
    "suspect": "node = 2\nby = 3",
    "trust": "node = 2\nby = 3",
    "join": 'node = 2\ngroup = "some"',
    "leave": 'node = 1\ngroup = "some"',
    "pause": "node = 3",
    "resume": "node = 3",
    "cut": "link = [0, 1]",
    "delay": "link = [2, 3]\nextra_ms = 50",
    "heal": "",
    "partition": "sides = [[0, 1], [2, 3]]",
}
FIRED = {
    "crash": "crash",
    "hang": "hang",
    "compact": "compact",
    "suspect": "suspect",
    "join": "join_group",
    "leave": "leave_group",
    "pause": "pause",
    "cut": "cut",
    "delay": "delay",
    "partition": "partition",
}


def run_with(*faults: str) -> ScenarioRun:
    text = HEAD
    for number, kind in enumerate(faults):
        text += f'\n[[fault]]\nat_ms = {100 + 150 * number}\nkind = "{kind}"\n{FAULTS[kind]}\n'
    running = ScenarioRun(Scenario(text, "test"), "full")
    running.run()
    return running


def test_every_kind_is_tried_here() -> None:
    # Few protocols can give a node up: tests/simulation/test_locamu_gone.py does. Orders are words
    # of a protocol: tests/papers/test_zones_at_run_time.py.
    assert {*FAULTS, "gone", "order"} == set(KINDS)


@pytest.mark.parametrize("kind", FIRED)
def test_it_fires_and_is_counted(kind: str) -> None:
    assert run_with(kind).result().header.faults[FIRED[kind]] == 1


def beliefs(running: ScenarioRun) -> list[tuple[str, int, int]]:
    rows = running.result().events.to_pylist()
    return [(r["kind"], r["node"], r["peer"]) for r in rows if r["kind"] in ("suspect", "trust")]


def test_a_suspicion_by_fault_is_one_row_and_so_is_its_end() -> None:
    assert beliefs(run_with("suspect", "trust")) == [("suspect", 3, 2), ("trust", 3, 2)]


def test_the_trace_tells_what_the_detector_itself_says() -> None:
    """Both neighbours of node 1 suspect it while it is away."""
    told = beliefs(run_with("crash", "recover"))
    assert [row for row in told if row[2] == 1] == [
        (kind, watcher, 1) for watcher in (0, 2) for kind in ("suspect", "trust")
    ]


def test_a_node_that_hangs_is_suspected_until_it_is_back_and_its_links_stay() -> None:
    """Neither the end of a suspicion by fault nor the calm ends these."""
    cluster = Cluster(nodes=4, overlay="ring", detection_ms=50)
    cluster.world.doubts.hang(NodeId(1), 1.0)
    cluster.pause(2)
    cluster.run_ms(100)
    cluster.world.calm_down()
    cluster.run_ms(100)
    rows = cluster.trace().events.to_pylist()
    rows = [row for row in rows if row["kind"] in ("suspect", "trust")]
    assert all(NodeId(1) in cluster.world.nodes[node].channels for node in (0, 2))
    assert [(row["kind"], row["node"], row["peer"]) for row in rows] == [
        ("suspect", 0, 1),
        ("suspect", 2, 1),
    ]
    cluster.recover(1)
    cluster.run_ms(1000)
    rows = [row for row in cluster.trace().events.to_pylist() if row["kind"] == "trust"]
    assert {row["node"] for row in rows if row["peer"] == 1} == {0, 2}


def test_what_towards_a_crashed_node_is_lost_and_it_catches_up() -> None:
    cluster = Cluster(nodes=3, overlay="line", latency_ms=10)
    cluster.publish(0, b"before")
    cluster.run_ms(100)
    cluster.crash(1)
    cluster.publish(0, b"while away")
    cluster.run_ms(500)
    assert cluster.delivered(1) == [b"before"] and cluster.delivered(2) == [b"before"]
    cluster.recover(1)
    cluster.settle()
    assert cluster.delivered(2) == [b"before", b"while away"]
    cluster.check()


@pytest.mark.parametrize(("keep", "arrived"), [(0.0, 0), (0.5, 2), (1.0, 4)])
def test_of_what_a_crashed_node_had_sent_a_prefix_arrives(keep: float, arrived: int) -> None:
    cluster = Cluster(nodes=2, protocol="naive_flood", latency_ms=10, fifo=True)
    for number in range(4):
        cluster.publish(0, b"%d" % number)
    cluster.crash(0, keep=keep)
    cluster.run_ms(100)
    assert cluster.delivered(1) == [b"0", b"1", b"2", b"3"][:arrived]


def test_nothing_passes_a_cut_until_it_heals() -> None:
    cluster = Cluster(nodes=2, latency_ms=1)
    cluster.cut(0, 1)
    cluster.publish(0, b"hello")
    cluster.run_ms(2000)
    assert cluster.delivered(1) == []
    cluster.heal()
    cluster.run_ms(1000)
    assert cluster.delivered(1) == [b"hello"]


def test_a_node_that_stands_still_goes_on_with_what_waited() -> None:
    cluster = Cluster(nodes=2, latency_ms=1)
    cluster.pause(1)
    cluster.publish(0, b"one")
    cluster.publish(0, b"two")
    cluster.run_ms(50)
    assert cluster.delivered(1) == []
    cluster.resume(1)
    cluster.run_ms(1)
    assert cluster.delivered(1) == [b"one", b"two"]


def test_a_delayed_link_delays() -> None:
    cluster = Cluster(nodes=2, latency_ms=1)
    cluster.delay(0, 1, extra_ms=30)
    cluster.publish(0, b"late")
    cluster.run_ms(30)
    assert cluster.delivered(1) == []
    cluster.run_ms(2)
    assert cluster.delivered(1) == [b"late"]


def test_what_waited_for_the_disk_is_lost_in_a_crash_and_its_number_is_used_again() -> None:
    cluster = Cluster(nodes=2, latency_ms=1, sync_ms=10)
    lost = cluster.publish(0, b"never durable")
    cluster.run_ms(5)
    cluster.crash(0)
    cluster.run_ms(200)
    cluster.recover(0)
    again = cluster.publish(0, b"durable")
    cluster.settle()
    assert lost == again
    assert cluster.delivered(0) == cluster.delivered(1) == [b"durable"]
    cluster.check()


@pytest.mark.parametrize("effects", range(5))
def test_a_crash_in_the_middle_of_a_step_leaves_a_whole_entry_or_none(effects: int) -> None:
    """Publishing at a node that crashes after so many effects: all members get it, or nobody."""
    cluster = Cluster(nodes=3, latency_ms=1, overlay="line")
    cluster._world.lives.crash_in_next_step(1, effects)  # type: ignore[arg-type]
    cluster.publish(1, b"half way")
    assert cluster._world.fired["crash_in_step"] == 1
    cluster.settle()
    expected = [b"half way"] if effects else []
    assert [cluster.delivered(node) for node in range(3)] == [expected] * 3
    cluster.check()


def test_a_protocol_that_keeps_nothing_is_reborn_under_a_new_id() -> None:
    cluster = Cluster(nodes=3, protocol="naive_flood", overlay="full_mesh")
    cluster.publish(0, b"old")
    cluster.run_ms(10)
    cluster.crash(1)
    cluster.run_ms(100)
    cluster.recover(1)
    cluster.run_ms(100)
    cluster.publish(0, b"new")
    cluster.run_ms(10)
    assert cluster.delivered(1) == [b"old"] and cluster.delivered(3) == [b"new"]
    rows = cluster.trace().events.to_pylist()
    assert [r["kind"] for r in rows if r["node"] == 3][:1] == ["join"]


def test_faults_at_nodes_that_are_down_are_skipped_and_counted() -> None:
    assert run_with("crash", "crash").result().header.faults["fault_skipped"] == 1


def test_random_crashes_never_take_away_more_at_once_than_is_allowed() -> None:
    rng = random.Random(1)
    most = 0
    for _ in range(50):
        faults = random_crashes(8, (20, 200), 6, 1000, lambda away: len(away) <= 2, rng)
        down: set[NodeId] = set()
        for fault in sorted(faults, key=lambda fault: (fault.at_us, fault.kind == "recover")):
            (down.add if fault.kind == "crash" else down.remove)(fault.node)
            most = max(most, len(down))
        assert down == set()
    assert most == 2


def half_open(dialler: int, other: int) -> Cluster:
    """Three nodes; of a link that one dials to another, only the other end knows as yet."""
    cluster = Cluster(nodes=3, protocol="naive_flood", overlay="line", latency_ms=10)
    cluster.world.links.dial(cluster.world.nodes[dialler], NodeId(other))
    cluster.run_ms(15)
    assert NodeId(dialler) in cluster.world.nodes[other].channels
    assert NodeId(other) not in cluster.world.nodes[dialler].channels
    return cluster


@pytest.mark.parametrize(("dialler", "other"), [(0, 2), (2, 0)])
@pytest.mark.parametrize("ends", [(0, 2), (2, 0), ()])
def test_a_link_that_one_end_knows_only_is_cut_loudly_too(
    dialler: int, other: int, ends: tuple[int, ...]
) -> None:
    """Something may be lost on it already, so it must not be used when the cut has ended."""
    cluster = half_open(dialler, other)
    if ends:
        cluster.cut(ends[0], ends[1])
    else:
        cluster.partition([0], [2])
    cluster.heal()
    cluster.run_ms(3000)
    nodes = cluster.world.nodes
    assert NodeId(2) not in nodes[0].channels and NodeId(0) not in nodes[2].channels


def test_nothing_passes_a_link_that_was_cut_while_it_came_up() -> None:
    cluster = half_open(0, 2)
    cluster.world.link_faults.cut(NodeId(0), NodeId(2), False)
    cluster.run_ms(100)
    ways = [cluster.world.nodes[a].channels[NodeId(b)] for a, b in ((0, 2), (2, 0))]
    assert all(way.cut and not way.smooth for way in ways)
