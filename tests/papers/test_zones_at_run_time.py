"""Zones that are joined and parted while the system runs: nothing is lost, doubled or reordered."""

import random
from typing import Any

import pytest
from zone_runs import Rows, all_is_well, rows_of, run_of

from causalcast.errors import ConfigError
from causalcast.judge import judge
from causalcast.testing import Cluster
from causalcast.trace.run_folder import Run

MESH = [[a, b] for a in range(8) for b in range(a + 1, 8)]
ZONES = {"zones": "0-3; 4-7"}
APART = {"left": [0, 1, 2, 3], "right": [4, 5, 6, 7]}
FAR = range(4, 8)


def order(at_ms: float, node: int, words: str) -> dict[str, Any]:
    return {"at_ms": at_ms, "kind": "order", "node": node, "order": words}


def change(at_ms: float, kind: str, node: int, group: str) -> dict[str, Any]:
    return {"at_ms": at_ms, "kind": kind, "node": node, "group": group}


def delivered_at(run: Run, node: int, group: int) -> Rows:
    return [r for r in rows_of(run, "deliver") if r["node"] == node and r["group"] == group]


def test_a_zone_that_is_joined_gets_what_comes_from_then_on() -> None:
    """Before, each side lives by itself, and whoever wants to reach the other is told why not."""
    publish = [
        {"node": [1, 2], "group": "left", "count": 40, "interval_ms": 20},
        {"node": [5, 6], "group": "right", "count": 40, "interval_ms": 20},
        {"node": 7, "group": "left", "count": 40, "interval_ms": 20},
    ]
    faults = [order(300, 5, "join 0 1"), change(500, "join", 6, "left")]
    run = run_of(MESH, {**ZONES, "apart": "1"}, publish, faults, groups=APART)
    all_is_well(run)
    assert len(delivered_at(run, 3, 0)) > 80  # what zone 0 said, and node 7 since it can
    refused = run.header.faults["publication_refused"]
    assert refused + len([r for r in rows_of(run, "publish") if r["node"] == 7]) == 40
    assert 10 < refused < 20
    assert len(delivered_at(run, 5, 1)) == 80  # all of its own zone, as ever
    late = delivered_at(run, 6, 0)
    assert late and min(row["at_us"] for row in late) > 500_000
    assert len(late) == len([r for r in delivered_at(run, 3, 0) if r["message"] in ids(late)])


def ids(rows: Rows) -> set[int]:
    return {row["message"] for row in rows}


def test_a_zone_is_parted_when_its_members_have_left_and_nothing_is_lost() -> None:
    """Everybody goes on publishing all the while; what was accepted arrives."""
    publish = [{"node": list(range(8)), "group": "all", "count": 45, "interval_ms": 20}]
    leaves = [change(500 + 20 * node, "leave", node, "all") for node in FAR]
    faults = [order(300, 7, "part 0 1"), *leaves]
    run = run_of(MESH, ZONES, publish, faults)
    all_is_well(run)
    accepted = rows_of(run, "publish")
    assert len(delivered_at(run, 0, 0)) == len(accepted)
    from_far = [row for row in accepted if row["node"] in FAR]
    assert len(accepted) - len(from_far) == 4 * 45  # the others are refused nothing
    assert 40 < len(from_far) < 4 * 25  # they are refused from the order on, not from the start
    parted = [row for row in rows_of(run, "note") if row["note"] == "causal_separators.parted"]
    assert [row["node"] for row in parted] == [0, 1, 4, 5]
    assert min(row["at_us"] for row in parted) > 640_000  # when the last had left
    crossed = [
        row
        for row in rows_of(run, "send")
        if row["message"] is not None and row["node"] < 4 <= row["peer"]
    ]
    assert max(row["at_us"] for row in crossed) < 850_000  # nothing is brought to the parted zone


def test_a_zone_comes_and_goes_and_comes() -> None:
    publish = [
        {"node": [1, 2], "group": "left", "count": 90, "interval_ms": 10},
        {"node": [5, 6], "group": "left", "count": 90, "interval_ms": 10},
    ]
    faults = [
        order(100, 2, "join 0 1"),
        change(200, "join", 5, "left"),
        order(300, 6, "part 0 1"),
        change(320, "leave", 5, "left"),
        order(500, 6, "join 0 1"),
        change(600, "join", 5, "left"),
        change(600, "join", 6, "left"),
    ]
    groups = {"left": [0, 1, 2, 3]}
    run = run_of(MESH, {**ZONES, "apart": "1"}, publish, faults, groups=groups)
    all_is_well(run)
    times = [row["at_us"] // 1000 for row in delivered_at(run, 5, 0)]
    assert [time for time in times if time < 320] and [time for time in times if time > 600]
    assert not [time for time in times if 330 < time < 590]
    assert run.header.faults["order"] == 3


def test_who_joined_a_group_while_a_zone_was_away_is_known_there_when_it_is_back() -> None:
    """The cut tells it: nobody repeats what was said before."""
    groups = {"all": "*", "theirs": [4, 5, 6, 7]}
    leaves = [change(100, "leave", node, group) for node in FAR for group in groups]
    faults = [
        order(90, 7, "part 0 1"),
        *leaves,
        change(300, "join", 1, "theirs"),
        order(400, 7, "join 0 1"),
        change(500, "join", 5, "all"),
    ]
    publish = [
        {"at_ms": 600, "node": 1, "group": "all", "count": 1},
        {"at_ms": 700, "node": 5, "group": "theirs", "count": 1},  # it has heard node 1
    ]
    run = run_of(MESH, ZONES, publish, faults, groups=groups)
    all_is_well(run)
    assert [row["message"] >> 32 for row in delivered_at(run, 1, 1)] == [5]


def three_in_a_row(
    faults: list[dict[str, Any]],
    groups: dict[str, Any],
    group: str = "all",
    apart: str = "",
    count: int = 40,
) -> Run:
    """Zones 0, 1 and 2, the last behind the second."""
    pace = {"count": count, "interval_ms": 600 / count}
    publish = [{"node": list(range(9)), "group": group, **pace}]
    options = {"zones": "0-2; 3-5; 6-8", "joints": "0-1 1-2", "apart": apart}
    edges = [[a, b] for a in range(9) for b in range(a + 1, 9)]
    return run_of(edges, options, publish, faults, nodes=9, groups=groups)


def test_a_zone_that_comes_behind_one_that_goes_hears_of_it() -> None:
    """Else what its nodes publish would be accepted, and end where the joint was."""
    faults = [
        order(100, 4, "part 0 1"),
        order(200, 7, "join 1 2"),
        change(350, "leave", 3, "first"),
    ]
    run = three_in_a_row(faults, {"first": [0, 1, 2, 3]}, "first", "2")
    all_is_well(run)
    assert {row["node"] for row in rows_of(run, "publish") if row["at_us"] > 200_000} == {0, 1, 2}
    joined = [row for row in rows_of(run, "note") if row["note"] == "causal_separators.joining"]
    assert {row["node"] for row in joined} == {3, 4, 6, 7}


@pytest.mark.slow
def test_a_zone_is_parted_while_it_goes_on_talking_to_those_behind_it() -> None:
    """What comes when all have said that they are done need not cross, and keeps nothing open."""
    leaves = [change(200, "leave", node, "theirs") for node in range(3, 9)]
    run = three_in_a_row(
        [order(100, 4, "part 0 1"), *leaves], {"theirs": [*range(3, 9)]}, "theirs", count=300
    )
    all_is_well(run)
    parted = [row for row in rows_of(run, "note") if row["note"] == "causal_separators.parted"]
    assert {row["node"] for row in parted} == {0, 1, 3, 4}
    assert max(row["at_us"] for row in parted) < 300_000
    assert {row["node"] for row in rows_of(run, "publish") if row["at_us"] > 590_000} == {*range(9)}


def test_with_a_zone_go_those_behind_it() -> None:
    """Zone 2 hears that zone 1 is being parted: all of both must have left."""
    leaves = [change(300 + 10 * node, "leave", node, "all") for node in range(3, 9)]
    run = three_in_a_row([order(200, 4, "part 0 1"), *leaves], {"all": "*"})
    all_is_well(run)
    parted = [row for row in rows_of(run, "note") if row["note"] == "causal_separators.parted"]
    assert {row["node"] for row in parted} == {0, 1, 3, 4}
    assert min(row["at_us"] for row in parted) > 380_000
    assert {row["node"] for row in rows_of(run, "publish") if row["at_us"] > 400_000} == {0, 1, 2}


def test_a_zone_that_died_is_dropped_and_nothing_is_kept_for_it() -> None:
    """The others of its groups go on as if it had never been."""
    publish = [{"node": [1, 2], "group": "all", "count": 80, "interval_ms": 10}]
    dead = [{"at_ms": 200, "kind": "crash", "node": node, "keep": 0.0} for node in FAR]
    run = run_of(MESH, ZONES, publish, [*dead, order(400, 2, "drop 0 1")], recover_all=False)
    found = judge(run)
    assert not any(found.violations.values())
    for node in range(4):
        assert len(delivered_at(run, node, 0)) == 160
    sizes = [
        row["value"] for row in rows_of(run, "note") if row["note"] == "state" and row["node"] == 0
    ]
    assert max(sizes) > 100 and sizes[-1] < 60  # it kept much for it, and keeps it no longer


def test_a_dropped_zone_that_comes_back_is_apart_and_can_be_joined() -> None:
    """It hears that it was dropped; its nodes have to leave their groups and join them anew."""
    publish = [
        {"node": [1, 2], "group": "all", "count": 90, "interval_ms": 10},
        {"at_ms": 850, "node": [5, 6], "group": "all", "count": 5, "interval_ms": 10},
    ]
    faults: list[dict[str, Any]] = [
        {"at_ms": 200, "kind": "crash", "node": node, "keep": 0.0} for node in FAR
    ]
    faults += [order(300, 3, "drop 0 1")]
    faults += [{"at_ms": 400, "kind": "recover", "node": node} for node in FAR]
    faults += [change(500, "leave", node, "all") for node in FAR]
    faults += [order(600, 4, "join 0 1")]
    faults += [change(750, "join", node, "all") for node in FAR]
    run = run_of(MESH, ZONES, publish, faults)
    all_is_well(run)
    assert run.header.faults["order"] == 2
    assert len(delivered_at(run, 0, 0)) == 190
    assert [row for row in delivered_at(run, 7, 0) if row["at_us"] > 800_000]
    assert not [row for row in delivered_at(run, 7, 0) if 410_000 < row["at_us"] < 740_000]


def test_what_is_dropped_before_its_servers_heard_of_it_does_not_open() -> None:
    """Those that began at the other side are told, when they can be."""
    cluster = Cluster(8, "causal_separators", options={**ZONES, "apart": "1"}, groups=APART)
    cluster.run_ms(50)
    for server in (0, 1):
        cluster.crash(server)
    cluster.command(5, "join 0 1")
    cluster.command(2, "join 0 1")
    cluster.run_ms(50)
    assert levels(cluster) == {2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0}  # it is being joined
    cluster.command(3, "drop 0 1")
    for server in (0, 1):
        cluster.recover(server)
    cluster.settle()
    cluster.check()
    assert levels(cluster) == dict.fromkeys(range(8), 3)


def levels(cluster: Cluster) -> dict[int, int]:
    """What the nodes that are up know of the joint."""
    nodes = [node for node in cluster.world.nodes if node.up]
    return {node.me: node.stack.multicast.conditions()["joint_0_1"] for node in nodes}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_servers_may_die_for_good_when_a_zone_has_just_been_joined(seed: int) -> None:
    """The other server brings neither less nor more than the one that died had begun to."""
    dice = random.Random(seed)
    publish = [
        {"node": [2, 3], "group": "left", "count": 80, "interval_ms": 8},
        {"node": [6, 7], "group": "left", "count": 80, "interval_ms": 8},
    ]
    joins = [change(340 + dice.randrange(60), "join", node, "left") for node in (6, 7)]
    died = dice.randrange(380, 520)
    faults = [
        order(300, dice.choice([2, 7]), "join 0 1"),
        *joins,
        {"at_ms": died, "kind": "crash", "node": 0, "keep": dice.choice([0.0, 0.5])},
        {"at_ms": died, "kind": "crash", "node": dice.choice([4, 5]), "keep": 0.0},
    ]
    run = run_of(
        *(MESH, {**ZONES, "apart": "1"}, publish, faults),
        groups={"left": [0, 1, 2, 3]},
        recover_all=False,
    )
    found = judge(run)
    wrong = {name: rows for name, rows in found.violations.items() if rows}
    assert not [rows for name, rows in wrong.items() if name != "agreement"]
    assert not [row for row in wrong.get("agreement", []) if row.node not in (0, 4, 5)]
    assert delivered_at(run, 7, 0)[-1]["at_us"] > 600_000


def refusal(options: dict[str, Any], groups: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        run_of(MESH, options, [], groups=groups)
    return str(error.value)


def test_what_cannot_be_apart_is_refused() -> None:
    shared = refusal({**ZONES, "apart": "1"}, {"all": "*"})
    assert "group 'all' has members in zones 0 and 1, which are apart at the start" in shared
    assert "zone 0 is not one of 1 to 1" in refusal({**ZONES, "apart": "0"}, APART)
    assert "'x' is no number of a zone" in refusal({**ZONES, "apart": "x"}, APART)
    assert "zones of a daisy" in refusal({**ZONES, "form": "daisy", "apart": "1"}, APART)
