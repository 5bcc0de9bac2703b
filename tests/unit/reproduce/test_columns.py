"""What is counted in columns is what plain Python counts, row by row, on the same runs."""

import heapq
from collections import Counter, defaultdict
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from causalcast.pipeline.report.small_run import Event, SmallRun, measure, small_run
from causalcast.reproduce.families.broadcast import (
    LEARNING,
    changes_when_learnt,
    direct_causes,
    latency_of_shortest,
    scenario_of,
)
from causalcast.reproduce.families.columns import column_run, delivered_at
from causalcast.simulator.runner import simulate
from causalcast.testing.random_traces import good_run
from causalcast.trace.run_folder import Run

LEFT_OUT = 3
NETWORK = {"nodes_per_host": 5, "host_bandwidth_mbps": 40, "payload_bytes": 2000, "views_of": 100}
SIMULATED: list[dict[str, Any]] = [
    {"protocol": "cptcast", "options.order": "queue", "senders": 3, "interval_ms": 20},
    {"protocol": "cptcast", "senders": 1, "interval_ms": 50, "crash_share": 0.3},
    {"protocol": "plumtree", "senders": 4, "interval_ms": 20, "churn_per_s": 8},
    {"protocol": "prc_broadcast", "senders": 2, "interval_ms": 40},
    {"protocol": "naive_flood", "senders": 2, "interval_ms": 100, "overlay": "tree"},
]


def runs() -> list[Run]:
    """Broadcasts of every kind, and drawn runs in which nodes come and go."""
    fixed = {"nodes": 15, "broadcasts": 16, "calm_ms": 1000, **NETWORK}
    texts = [scenario_of({**fixed, **values}) for values in SIMULATED]
    drawn = [good_run(Random(seed)).run() for seed in range(6)]
    return [*(simulate(text, "messages") for text in texts), *drawn]


@pytest.fixture(scope="module")
def both() -> list[tuple[SmallRun, Run]]:
    return [(small_run(run), run) for run in runs()]


def test_metrics(both: list[tuple[SmallRun, Run]]) -> None:
    for plain, run in both:
        columns = column_run(run)
        for mine, theirs in ((columns, plain), (columns.after(LEFT_OUT), after(plain, LEFT_OUT))):
            expected = measure(theirs)
            assert mine.latency_mean_ms() == expected["latency_mean_ms"]
            for name, share in (("50", 0.5), ("95", 0.95), ("99", 0.99)):
                assert mine.latency_ms(share) == expected[f"latency_p{name}_ms"]
            assert mine.redundancy() == expected["redundancy"]
            assert mine.reliability() == expected["reliability"]
            assert mine.metadata_mean_bytes() == expected["metadata_mean_bytes"]
            assert len(mine.elsewhere) == len(theirs.elsewhere())


def test_what_broadcasts_are_measured_by(both: list[tuple[SmallRun, Run]]) -> None:
    for plain, run in both:
        columns = column_run(run)
        steady, plain_steady = columns.after(LEFT_OUT), after(plain, LEFT_OUT)
        delivered, sent = delivered_at(columns), columns.of_kind["send"]
        logs = [(event.node, event.message) for event in plain.of_kind["deliver"]]
        assert delivered.doubled() == len(logs) - len(set(logs))
        assert delivered.before(direct_causes(columns)) == inversions(plain)
        assert sent.bytes == sum(map(size, plain.of_kind["send"]))
        used = {(row.node, row.peer) for row in copies(plain_steady)}
        beside = [row for row in plain.of_kind["send"] if (row.node, row.peer) not in used]
        assert sent.off_links_of(steady.copies).bytes == sum(map(size, beside))
        for place in (0, 1, 500):
            assert columns.redundancy_of(place) == redundancy_of(plain, place)
        for word in ("graft", "prune"):
            told = [word in (row.note or "") for row in plain.of_kind["send"]]
            assert sent.with_notes(word) == sum(told)
        assert changes_when_learnt(steady) == changes(plain_steady)
        took = on_links(plain_steady)
        transits = steady.transits()
        every = [one for times in took.values() for one in times]
        assert transits.mean_ms() == (sum(every) / len(every) / 1000 if every else None)
        expected = mean_of_shortest(plain_steady, took)
        assert latency_of_shortest(steady, transits) == expected


def test_disorder_and_repetition_are_counted() -> None:
    """The runs above hardly have any: the same run, with the log of a node turned round."""
    run = simulate(scenario_of({"nodes": 8, "broadcasts": 16, **NETWORK, **SIMULATED[0]}))
    messages = run.events.column("message").to_pylist()
    kinds = run.events.column("kind").to_pylist()
    nodes = run.events.column("node").to_pylist()
    places = [at for at, kind in enumerate(kinds) if kind == "deliver" and nodes[at] == 5]
    told = [messages[at] for at in places]
    for at, message in zip(places, [*reversed(told[1:]), told[-1]], strict=True):
        messages[at] = message
    place = run.events.column_names.index("message")
    run.events = run.events.set_column(place, run.events.schema.field(place), pa.array(messages))
    plain, columns = small_run(run), column_run(run)
    delivered = delivered_at(columns)
    assert delivered.before(direct_causes(columns)) == inversions(plain) > 0
    assert delivered.doubled() == 1


def test_a_run_in_which_nothing_happened() -> None:
    run = good_run(Random(1)).run()
    run.events = run.events.slice(0, 0)
    columns = column_run(run)
    assert columns.latency_mean_ms() is columns.redundancy() is columns.reliability() is None
    assert columns.transits().mean_ms() is None and delivered_at(columns).doubled() == 0


# The same in plain Python, by definition.


def after(rows: SmallRun, publications: int) -> SmallRun:
    ordered = sorted(rows.of_kind["publish"], key=lambda event: event.at_us)
    left_out = {event.message for event in ordered[:publications]}
    kept = [event for event in rows.events if event.message not in left_out]
    return SmallRun(kept, rows.founders, rows.nodes)


def copies(rows: SmallRun) -> list[Event]:
    return [event for event in rows.of_kind["send"] if (event.payload_bytes or 0) > 0]


def size(row: Event) -> int:
    return (row.payload_bytes or 0) + (row.metadata_bytes or 0)


def redundancy_of(rows: SmallRun, place: int) -> float | None:
    ordered = sorted(rows.of_kind["publish"], key=lambda event: event.at_us)
    if len(ordered) <= place:
        return None
    message = ordered[place].message
    sent = sum(row.message == message for row in copies(rows))
    got = sum(row.message == message for row in rows.elsewhere())
    return sent / got - 1 if got else None


def changes(steady: SmallRun) -> int:
    begin = min((event.at_us for event in steady.of_kind["publish"]), default=0)
    sent = [row for row in steady.of_kind["send"] if row.at_us >= begin]
    return sum("graft" in (row.note or "") or "prune" in (row.note or "") for row in sent)


def on_links(rows: SmallRun) -> dict[tuple[int, int], list[int]]:
    sent = {(row.node, row.peer, row.message): row.at_us for row in copies(rows)}
    took: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows.of_kind["receive"]:
        at = sent.get((row.peer or 0, row.node, row.message))
        if at is not None and row.payload_bytes:
            took[row.peer or 0, row.node].append(row.at_us - at)
    return took


def mean_of_shortest(rows: SmallRun, took: dict[tuple[int, int], list[int]]) -> float | None:
    links: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (one, other), times in took.items():
        links[one].append((other, min(times)))
    taken = whole = 0
    for delay in rows.delays:
        assert delay.event.message is not None
        least = shortest(links, delay.event.message >> 32).get(delay.event.node)
        if least:
            taken += delay.delay_us
            whole += least
    return taken / whole if whole else None


def shortest(links: dict[int, list[tuple[int, int]]], origin: int) -> dict[int, int]:
    found: dict[int, int] = {}
    ahead = [(0, origin)]
    while ahead:
        at, node = heapq.heappop(ahead)
        if node not in found:
            found[node] = at
            for other, least in links.get(node, ()):
                heapq.heappush(ahead, (at + least, other))
    return found


def inversions(rows: SmallRun) -> int:
    had: dict[int, list[int]] = defaultdict(list)
    causes: dict[int, list[int]] = {}
    for event in sorted(rows.events, key=lambda event: (event.node, event.pos)):
        if event.kind == "deliver" and event.message is not None:
            had[event.node].append(event.message)
        elif event.kind == "publish" and event.message is not None:
            causes[event.message] = had[event.node][-LEARNING:]
    found = 0
    for log in had.values():
        place = {message: number for number, message in enumerate(log)}
        for message, times in Counter(log).items():
            late = [place.get(cause, -1) > place[message] for cause in causes.get(message, ())]
            found += times * any(late)
    return found
