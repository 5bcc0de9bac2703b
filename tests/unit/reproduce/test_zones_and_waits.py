"""How evenly messages come, and what they wait for: by hand, and in small runs."""

import pytest

from causalcast.pipeline.report.small_run import Event, SmallRun
from causalcast.reproduce.families import FAMILIES
from causalcast.reproduce.families.waits import accuracy
from causalcast.reproduce.families.zones import gaps_between


def test_gaps_of_even_and_uneven_times() -> None:
    even = gaps_between([1000 * at for at in range(20)])
    assert even == {"gap_variance": 0.0, "gap_spread": 0.0, "gap_most_ms": 1.0}
    paused = gaps_between([1000 * at + (4000 if at > 9 else 0) for at in range(20)])
    assert paused["gap_most_ms"] == 5.0 and paused["gap_variance"] > 0


def message(origin: int, number: int) -> int:
    return origin << 32 | number


def event(node: int, pos: int, kind: str, of: int, missing: int | None = None) -> Event:
    return Event(node, pos, 0, kind, of, 0, None, None, None, missing, None, 0)


def test_a_true_cause_is_what_the_publisher_had() -> None:
    first, answer, other = message(0, 1), message(1, 1), message(2, 1)
    rows = [
        event(0, 0, "publish", first),
        event(1, 0, "deliver", first),
        event(1, 1, "publish", answer),
        event(1, 2, "deliver", other),  # too late to be a cause of the answer
        event(2, 0, "publish", other),
        event(3, 0, "hold", answer, first),
        event(4, 0, "hold", answer, other),
        event(4, 1, "hold", answer, first),  # of a message held twice the first time counts
        event(5, 0, "hold", answer),  # for something that has no name
        event(3, 1, "deliver", answer),
    ]
    found = accuracy(SmallRun(rows, set(), 6))
    assert (found["held"], found["named"], found["true_share"]) == (3, 2, 0.5)


def test_clocks_wait_for_true_causes_only() -> None:
    values = {"nodes": 12, "senders": 6, "messages": 60, "interval_ms": 4, "seed": 1}
    row = FAMILIES["waits"]({"protocol": "cbcast", "overlay": "full_mesh", **values})
    assert row["verdict"] == "ok" and row["named"] > 10 and row["true_share"] == 1.0
    tree = FAMILIES["waits"]({"protocol": "locamu", "overlay": "tree", "falls": 1, **values})
    assert tree["verdict"] == "ok" and tree["held"] > 0


LINE = {"nodes": 8, "zones": 2, "interval_ms": 4, "count": 10, "line_mbps": 1, "seed": 1}


def test_a_slow_line_is_full_without_zones_and_not_with_them() -> None:
    inside = {"options.inside": "vector_clock_broadcast spread=direct"}
    joined = FAMILIES["zones"]({"protocol": "causal_separators", **inside, **LINE})
    flat = FAMILIES["zones"](
        {"protocol": "vector_clock_broadcast", "options.spread": "direct", **LINE}
    )
    assert joined["verdict"] == flat["verdict"] == "ok"
    assert joined["rate"] == flat["rate"] == 250
    assert joined["latency_ms"] < 5 < flat["latency_ms"]


@pytest.mark.parametrize(("layer", "paused"), [(0, False), (1, True), (2, True)])
def test_a_pause_of_a_server_is_seen_behind_it(layer: int, paused: bool) -> None:
    values = {
        "protocol": "causal_separators",
        "options.inside": "vector_clock_broadcast spread=direct",
        "from": "first zone",
        "nodes": 9,
        "zones": 3,
        "interval_ms": 5,
        "count": 40,
        "pause_ms": 60,
    }
    row = FAMILIES["zones"]({**values, "layer": layer})
    assert row["verdict"] == "ok"
    assert (row["gap_most_ms"] > 50) == paused
