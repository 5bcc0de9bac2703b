"""R. de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", section 3.4.

Two and more zones with servers between them: what crosses, what waits, and what may be missing.
"""

import random
from typing import Any

import pytest
from zone_runs import TWO_ZONES, Rows, all_is_well, mesh, rows_of, run_of

from causalcast.errors import ConfigError
from causalcast.judge import judge
from causalcast.trace.run_folder import Run


def crossings(run: Run, last_of_first_zone: int) -> Rows:
    """Copies of publications that went from one zone to the other."""
    return [
        row
        for row in rows_of(run, "send")
        if row["message"] is not None
        and (row["node"] <= last_of_first_zone) != (row["peer"] <= last_of_first_zone)
    ]


def test_one_copy_of_each_publication_crosses_and_no_history() -> None:
    """Without zones every receiver on the other side would get its own copy, or a longer way."""
    publish = [{"node": list(range(8)), "count": 5, "interval_ms": 20, "payload_bytes": 32}]
    run = run_of(TWO_ZONES, {"zones": "0-3; 4-7"}, publish)
    all_is_well(run)
    crossed = crossings(run, 3)
    assert sorted(row["message"] for row in crossed) == sorted(
        row["message"] for row in rows_of(run, "publish")
    )
    assert max(row["metadata_bytes"] for row in crossed) <= 30  # framing, numbers, group


def test_servers_side_by_side_share_the_load() -> None:
    """Both links are used alike, and still one copy of each publication crosses.

    (A lead leaves its own publications to others, so here others publish.)
    """
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [{"node": [2, 7], "count": 32, "interval_ms": 20}]
    run = run_of(edges, {"zones": "0-3; 4-7", "servers": 2}, publish)
    all_is_well(run)
    crossed = crossings(run, 3)
    assert len({row["message"] for row in crossed}) == len(crossed) == 64
    by_link = [(row["node"], row["peer"]) for row in crossed]
    assert {link: by_link.count(link) for link in set(by_link)} == {
        (0, 4): 16,
        (1, 5): 16,
        (4, 0): 16,
        (5, 1): 16,
    }


def test_zones_with_different_protocols_in_a_row() -> None:
    edges = [*mesh(range(3), range(3, 6), range(6, 9)), [2, 3], [5, 6]]
    inside = "first_generation, cbcast, causal_barriers"
    publish = [{"node": list(range(9)), "count": 4, "interval_ms": 7}]
    run = run_of(edges, {"zones": "0-2; 3-5; 6-8", "inside": inside}, publish, nodes=9)
    all_is_well(run)
    assert len(rows_of(run, "deliver")) == 9 * 9 * 4


def test_a_daisy_joins_zones_by_a_zone_of_servers() -> None:
    edges = [*mesh(range(3), range(3, 6), range(6, 9)), [0, 3], [0, 6], [3, 6]]
    options = {"zones": "0-2; 3-5; 6-8", "form": "daisy", "between": "psync"}
    publish = [{"node": list(range(9)), "count": 4, "interval_ms": 7}]
    run = run_of(edges, options, publish, nodes=9)
    all_is_well(run)
    assert len(rows_of(run, "deliver")) == 9 * 9 * 4


def test_what_is_for_one_zone_stays_there_until_somebody_else_joins() -> None:
    """Local or global publishing, decided by who is in the group."""
    groups = {"all": "*", "here": [0, 1, 2]}
    publish = [
        {"at_ms": 0, "node": 0, "group": "here", "count": 10, "interval_ms": 10},
        {"at_ms": 500, "node": 1, "group": "here", "count": 5, "interval_ms": 10},
    ]
    joins = [{"at_ms": 300, "kind": "join", "node": 6, "group": "here"}]
    run = run_of(TWO_ZONES, {"zones": "0-3; 4-7"}, publish, joins, groups=groups)
    all_is_well(run)
    crossed = crossings(run, 3)
    assert [row["message"] >> 32 for row in crossed] == [1] * 5
    assert [row["message"] >> 32 for row in rows_of(run, "deliver") if row["node"] == 6] == [1] * 5


def test_a_cut_between_zones_heals_to_agreement() -> None:
    publish = [{"node": [1, 6], "count": 20, "interval_ms": 30}]
    faults = [
        {"at_ms": 100, "kind": "partition", "sides": [[0, 1, 2, 3], [4, 5, 6, 7]]},
        {"at_ms": 900, "kind": "heal"},
    ]
    run = run_of(TWO_ZONES, {"zones": "0-3; 4-7"}, publish, faults)
    all_is_well(run)
    foreign = [
        row["at_us"]
        for row in rows_of(run, "deliver")
        if row["node"] == 6 and row["message"] >> 32 == 1
    ]
    assert not [at for at in foreign if 110_000 < at < 900_000]
    assert len(foreign) == 20


def test_a_zone_that_starts_late_gets_everything() -> None:
    """Its nodes are known from the beginning, but nobody of it is there."""
    publish = [{"node": [1, 2], "count": 20, "interval_ms": 20}]
    faults = [{"at_ms": 0, "kind": "crash", "node": node, "keep": 0.0} for node in range(4, 8)]
    faults += [{"at_ms": 800, "kind": "recover", "node": node} for node in range(4, 8)]
    run = run_of(TWO_ZONES, {"zones": "0-3; 4-7"}, publish, faults)
    all_is_well(run)
    late = [row for row in rows_of(run, "deliver") if row["node"] >= 4]
    assert len(late) == 4 * 40 and min(row["at_us"] for row in late) > 800_000


@pytest.mark.parametrize("dead", [[0], [4], [0, 4], [0, 5]], ids=str)
def test_a_server_that_dies_for_good_is_replaced(dead: list[int]) -> None:
    """The others of both zones get everything that any of them has."""
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [{"node": [2, 7], "count": 20, "interval_ms": 30}]
    faults = [{"at_ms": 200, "kind": "crash", "node": node, "keep": 0.0} for node in dead]
    run = run_of(edges, {"zones": "0-3; 4-7"}, publish, faults, recover_all=False)
    alive = [node for node in range(8) if node not in dead]
    delivered = rows_of(run, "deliver")
    for node in alive:
        assert len([row for row in delivered if row["node"] == node]) == 40
    found = judge(run)
    assert not found.violations["causal_order"] and not found.violations["no_duplication"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_servers_may_die_for_good_at_any_moment_while_others_restart(seed: int) -> None:
    """One server of each side dies, in the middle of a step or not; one of the rest restarts."""
    dice = random.Random(seed)
    dead = [dice.choice([0, 1]), dice.choice([4, 5])]
    faults: list[dict[str, Any]] = [
        {
            "at_ms": dice.randrange(50, 700),
            "kind": "crash",
            "node": node,
            **dice.choice([{"keep": 0.0}, {"keep": 0.5}, {"after_effects": dice.randrange(1, 6)}]),
        }
        for node in dead
    ]
    back = dice.choice([node for node in (0, 1, 4, 5) if node not in dead])
    faults.append({"at_ms": dice.randrange(50, 400), "kind": "crash", "node": back})
    faults.append({"at_ms": dice.randrange(450, 900), "kind": "recover", "node": back})
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [{"node": [2, 3, 6, 7], "count": 20, "interval_ms": 36}]
    run = run_of(edges, {"zones": "0-3; 4-7"}, publish, faults, recover_all=False)
    delivered = rows_of(run, "deliver")
    for node in range(8):
        if node not in dead:
            assert len([row for row in delivered if row["node"] == node]) == 80, node
    found = judge(run)
    assert [name for name, rows in found.violations.items() if rows] in ([], ["agreement"])
    assert not [v for v in found.violations["agreement"] if v.node not in dead]


@pytest.mark.parametrize(
    ("slow", "has_it"),
    [([1, 2, 3], []), ([2, 3], [1, 2, 3, 4, 5, 6, 7])],
    ids=["nobody else has it", "the other server has it"],
)
def test_a_server_that_dies_as_it_publishes_leaves_its_words_in_both_zones_or_in_none(
    slow: list[int], has_it: list[int]
) -> None:
    """Its words must not be in the other zone alone: its own zone would wait for them for ever."""
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [
        {"at_ms": 100, "node": 2, "count": 1},  # the first goes by the other server, in turn
        {"at_ms": 300, "node": 0, "count": 1},
        {"at_ms": 600, "node": [2, 7], "count": 3, "interval_ms": 20},
    ]
    faults: list[dict[str, Any]] = [
        {"at_ms": 290, "kind": "delay", "link": [0, node], "extra_ms": 200} for node in slow
    ]
    faults.append({"at_ms": 320, "kind": "crash", "node": 0, "keep": 0.0})
    run = run_of(edges, {"zones": "0-3; 4-7"}, publish, faults, recover_all=False)
    delivered = rows_of(run, "deliver")
    assert [row["node"] for row in delivered if row["message"] >> 32 == 0] == [0, *has_it]
    for node in range(1, 8):
        of_others = [row for row in delivered if row["node"] == node and row["message"] >> 32]
        assert len(of_others) == 7, node
    assert not judge(run).violations["causal_order"]


def convoy(inside: str) -> tuple[int, int]:
    """Held messages at the server, and how many cross in the busiest millisecond.

    The server hears node 0 late; node 1 answers what node 0 said, and the server hears that soon.
    """
    publish = [
        {"at_ms": 100, "node": 0, "count": 1},
        {"at_ms": 110, "node": 1, "count": 15, "interval_ms": 10},
    ]
    faults = [{"at_ms": 50, "kind": "delay", "link": [0, 3], "extra_ms": 200}]
    run = run_of(TWO_ZONES, {"zones": "0-3; 4-7", "inside": inside}, publish, faults)
    all_is_well(run)
    held = [row for row in rows_of(run, "hold") if row["node"] == 3]
    instants = [row["at_us"] // 1000 for row in crossings(run, 3)]
    return len(held), max(instants.count(instant) for instant in instants)


def test_the_convoy_effect_is_there_where_deliveries_block() -> None:
    """G8: one late message at the server, and all that follow it cross in a burst."""
    assert convoy("vector_clock_broadcast spread=direct") == (15, 16)


def test_the_convoy_effect_is_gone_where_packets_bring_their_causes() -> None:
    assert convoy("first_generation spread=direct") == (0, 2)


def refusal(edges: list[list[int]], options: dict[str, Any], nodes: int = 6) -> str:
    with pytest.raises(ConfigError) as error:
        run_of(edges, options, [], nodes=nodes)
    return str(error.value)


def test_what_cannot_work_is_refused() -> None:
    ring = [*mesh(range(2), range(2, 4), range(4, 6)), [1, 2], [3, 4], [5, 0]]
    zones = {"zones": "0-1; 2-3; 4-5"}
    assert "close a cycle of zones: interconnection needs a tree" in refusal(ring, zones)
    assert "zone 2 is not joined to zone 0" in refusal(ring, {**zones, "joints": "0-1"})
    assert "zones 0 and 7 have no link" in refusal(ring, {**zones, "joints": "0-7"})
    assert "node 2 is in two of them" in refusal(ring, {"zones": "0-2; 2-5"})
    assert "node 5 is in none of them" in refusal(ring, {"zones": "0-4"})
    assert "node 6 is not in the overlay" in refusal(ring, {"zones": "0-6"})
    assert "'x' is no node" in refusal(ring, {"zones": "x"})
    assert "'01' is no pair of zones" in refusal(ring, {**zones, "joints": "01"})
    assert "its nodes must be linked" in refusal(ring, {"zones": "0 3; 1 2; 4 5"})
    assert "promises no causal order" in refusal(ring, {"inside": "plumtree"})
    assert "forgets everything in a crash" in refusal(ring, {"inside": "prc_broadcast"})
    assert "needs a tree" in refusal(ring, {"inside": "locamu"})
    assert "contains protocols itself" in refusal(ring, {"inside": "causal_separators"})
    assert "needs links between all" in refusal(ring, {"zone_size": 6, "inside": "cbcast"})
    assert "window = '0'" in refusal(ring, {"inside": "psync window=0"})
    assert "no setting such as" in refusal(ring, {"inside": "psync fast"})
    assert "has no name" in refusal(ring, {"inside": "psync,"})
    assert "no protocol 'nonsense'" in refusal(ring, {"inside": "nonsense"})
    assert "a daisy has a hub" in refusal(ring, {"form": "daisy", "joints": "0-1"})


def test_a_chosen_tree_of_zones_on_links_that_would_allow_a_cycle() -> None:
    ring = [*mesh(range(2), range(2, 4), range(4, 6)), [1, 2], [3, 4], [5, 0]]
    publish = [{"node": list(range(6)), "count": 3, "interval_ms": 7}]
    run = run_of(ring, {"zones": "0-1; 2-3; 4-5", "joints": "0-1 1-2"}, publish, nodes=6)
    all_is_well(run)


def test_what_crossed_is_forgotten_while_more_is_coming() -> None:
    """Servers tell what they have every 10 ms, not when nothing has come for 10 ms."""
    edges = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publish = [{"node": [2, 7], "count": 200, "interval_ms": 4}]
    run = run_of(edges, {"zones": "0-3; 4-7"}, publish)
    all_is_well(run)
    sizes = [
        row["value"] for row in rows_of(run, "note") if row["note"] == "state" and row["node"] == 0
    ]
    assert max(sizes) < 100  # of 400 that crossed
