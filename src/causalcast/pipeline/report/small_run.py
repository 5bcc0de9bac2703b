"""Metrics and figures of a run that fits into memory, without Spark: plain Python, by definition.

What each quantity means stands in `metrics/`, one file each; here the same numbers are counted row
by row. A test compares both on random runs, so that neither can be wrong alone.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from causalcast.pipeline.report.report_figures import (
    BUCKETS_PER_OCTAVE,
    TIME_BUCKETS,
    Change,
    Figures,
    NodeRow,
)
from causalcast.trace.run_folder import Run, read_run
from causalcast.trace.schema import EVENTS

Values = dict[str, Any]
ByKey = dict[Any, Values]
ALL = 0  # the key where nothing is told apart
PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}


class Event(NamedTuple):
    """One row of a trace."""

    node: int
    pos: int
    at_us: int
    kind: str
    message: int | None
    group: int | None
    peer: int | None
    payload_bytes: int | None
    metadata_bytes: int | None
    value: int | None
    note: str | None
    second: int

    @property
    def is_own(self) -> bool:
        """Whether it is about a message that the node itself published."""
        return self.message is not None and self.message >> 32 == self.node


class Delay(NamedTuple):
    """A delivery at another node, and when its message was published."""

    event: Event
    published_us: int
    delay_us: int


@dataclass
class SmallRun:
    """The rows of one run by their kind, and who took part."""

    events: list[Event]
    founders: set[tuple[int, int]]
    """(group, node) of members from the start who never left."""
    nodes: int

    def __post_init__(self) -> None:
        self.of_kind: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            self.of_kind[event.kind].append(event)
        self.published = {event.message: event for event in self.of_kind["publish"]}
        self.delays = [
            Delay(event, published.at_us, event.at_us - published.at_us)
            for event in self.of_kind["deliver"]
            if not event.is_own and (published := self.published.get(event.message)) is not None
        ]

    def elsewhere(self) -> list[Event]:
        """Deliveries at nodes other than the origin."""
        return [event for event in self.of_kind["deliver"] if not event.is_own]

    def at_publication(self, events: Iterable[Event]) -> list[Event]:
        """Rows about messages, with the group and the second of their publication as their own."""
        return [
            event._replace(group=published.group, second=published.second)
            for event in events
            if (published := self.published.get(event.message)) is not None
        ]


def read_small_run(folder: Path) -> SmallRun:
    """Read a whole run into memory."""
    return small_run(read_run(folder))


def small_run(run: Run) -> SmallRun:
    """The rows of a run that was read already."""
    columns = [run.events.column(name).to_pylist() for name in EVENTS.names]
    seconds = [at // 1_000_000 for at in columns[EVENTS.names.index("at_us")]]
    founders = {
        (row["group"], row["node"])
        for row in run.members.to_pylist()
        if row["from_pos"] == 0 and row["to_pos"] is None
    }
    events = [Event(*row) for row in zip(*columns, seconds, strict=True)]
    return SmallRun(events, founders, run.nodes.num_rows)


def measure(run: SmallRun) -> Values:
    """From metric to value; what a trace cannot tell is none."""
    values: Values = {}
    for metric, names in METRICS.items():
        values.update(dict.fromkeys(names))
        values.update(metric(run, None).get(ALL, {}))
    return values


def measure_by(run: SmallRun, key: str) -> list[Values]:
    """The same for each group, node or second, in that order."""
    found: ByKey = defaultdict(dict)
    names: dict[str, None] = {}
    for metric, of_metric in METRICS.items():
        if key == "group" and metric in (_memory, _recovery):
            continue  # the state of a node and its recoveries belong to no group
        names.update(dict.fromkeys(of_metric))
        for value, values in metric(run, key).items():
            if value is not None:
                found[value].update(values)
    return [{key: value, **names, **found[value]} for value in sorted(found)]


def figures_of(run: SmallRun) -> Figures:
    """What a report draws."""
    figures = Figures()
    if run.events:
        figures.first_us = min(event.at_us for event in run.events)
        figures.last_us = max(event.at_us for event in run.events)
    octaves = (math.log2(max(delay.delay_us, 1)) for delay in run.delays)
    figures.latency = list(Counter(int(o * BUCKETS_PER_OCTAVE) for o in octaves).items())
    figures.over_time = _over_time(run, figures.first_us, figures.last_us)
    figures.nodes = _node_rows(run)
    kinds = ("crash", "recover", "join", "leave")
    changes = sorted(event for event in run.events if event.kind in kinds)
    figures.changes = [Change(event.node, event.at_us, event.kind) for event in changes]
    holds = (event.value >> 32 for event in run.of_kind["hold"] if event.value is not None)
    figures.waited_for = list(Counter(holds).items())
    figures.sort()
    return figures


def _over_time(run: SmallRun, first: int, last: int) -> list[tuple[int, int, int]]:
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for which, kind in enumerate(("publish", "deliver")):
        for event in run.of_kind[kind]:
            bucket = (event.at_us - first) * TIME_BUCKETS // max(last - first, 1)
            counts[min(bucket, TIME_BUCKETS - 1)][which] += 1
    return [(bucket, published, delivered) for bucket, (published, delivered) in counts.items()]


def _node_rows(run: SmallRun) -> list[NodeRow]:
    counts = Counter((event.node, event.kind) for event in run.events)
    # A message may be held again after a restart; people ask how many messages waited.
    held = Counter(node for node, _ in {(e.node, e.message) for e in run.of_kind["hold"]})
    delays = _grouped(run.delays, lambda delay: delay.event.node)
    return [
        NodeRow(
            node,
            counts[node, "publish"],
            counts[node, "deliver"],
            counts[node, "duplicate"],
            held[node],
            _percentile(sorted(d.delay_us for d in delays[node]), 0.5) if node in delays else None,
        )
        for node in {event.node for event in run.events}
    ]


# One function per file of metrics/, by the same name.


def _throughput(run: SmallRun, key: str | None) -> ByKey:
    found: ByKey = {}
    events = run.of_kind["publish"] + run.of_kind["deliver"]
    for value, rows in _by(events, key):
        published = [row.at_us for row in rows if row.kind == "publish"]
        delivered = [row.at_us for row in rows if row.kind == "deliver"]
        seconds: float | None = 1.0
        if key != "second":
            took = max(delivered) - min(published) if published and delivered else 0
            seconds = took / 1e6 if took > 0 else None
        useful = _present(r.payload_bytes for r in rows if r.kind == "deliver" and not r.is_own)
        found[value] = {
            "publications": len(published),
            "deliveries": len(delivered),
            "deliveries_per_second": _ratio(len(delivered), seconds),
            "goodput_bytes_per_second": _ratio(sum(useful) if useful else None, seconds),
        }
    return found


def _fastest_origin(run: SmallRun, key: str | None) -> ByKey:
    found: ByKey = {}
    for value, rows in _by(run.of_kind["publish"], key):
        rates = []
        for times in _grouped(rows, lambda row: row.node).values():
            took = max(row.at_us for row in times) - min(row.at_us for row in times)
            if took > 0:
                rates.append((len(times) - 1) * 1e6 / took)
        found[value] = {"fastest_origin_per_second": max(rates, default=None)}
    return found


def _latency(run: SmallRun, key: str | None) -> ByKey:
    found: ByKey = {}
    for value, delays in _grouped(run.delays, lambda delay: _key(delay.event, key)).items():
        ordered = sorted(delay.delay_us for delay in delays)
        found[value] = {
            "latency_mean_ms": sum(ordered) / len(ordered) / 1000,
            **{name: _percentile(ordered, share) for name, share in PERCENTILES.items()},
            "latency_max_ms": ordered[-1] / 1000,
        }
    return found


def _reliability(run: SmallRun, key: str | None) -> ByKey:
    active = _active(run)
    wanted: dict[Any, int] = defaultdict(int)
    if key == "node":
        published = Counter(event.group for event in run.of_kind["publish"])
        own = Counter((event.group, event.node) for event in run.of_kind["publish"])
        for group, node in active:
            if published[group]:
                wanted[node] += published[group] - own[group, node]
    else:
        members: Counter[int | None] = Counter(group for group, _ in active)
        for event in run.of_kind["publish"]:
            if event.group in members:
                is_member = (event.group, event.node) in active
                wanted[_key(event, key)] += members[event.group] - is_member
    got = Counter(
        _key(event, key)
        for event in run.at_publication(run.elsewhere())
        if (event.group, event.node) in active
    )
    return {
        value: {"reliability": min(got[value] / count, 1.0) if count > 0 else None}
        for value, count in wanted.items()
    }


def _active(run: SmallRun) -> set[tuple[int, int]]:
    """(group, node) of founding members that are there, and up, at the end."""
    last = {}
    for event in sorted(run.of_kind["crash"] + run.of_kind["recover"]):
        last[event.node] = event.kind
    away = {node for node, kind in last.items() if kind == "crash"}
    away.update(event.node for event in run.of_kind["join"] if event.pos == 0)
    return {(group, node) for group, node in run.founders if node not in away}


def _redundancy(run: SmallRun, key: str | None) -> ByKey:
    elsewhere = run.elsewhere()
    sends = run.of_kind["send"]
    copies = [e for e in sends if e.message is not None and (e.payload_bytes or 0) > 0]
    if key == "second":
        elsewhere, copies = run.at_publication(elsewhere), run.at_publication(copies)
    sent = Counter(event.peer if key == "node" else _key(event, key) for event in copies)
    return {
        value: {"redundancy": sent[value] / len(rows) - 1 if value in sent else None}
        for value, rows in _by(elsewhere, key)
    }


def _waiting(run: SmallRun, key: str | None) -> ByKey:
    rows = run.of_kind["hold"] + run.of_kind["release"]
    if key == "group":  # which a hold does not name
        rows = run.at_publication(rows)
    waits: dict[Any, list[int | None]] = defaultdict(list)
    for events in _grouped(rows, lambda row: (row.node, row.message)).values():
        held = min((e.at_us for e in events if e.kind == "hold"), default=None)
        freed = max((e.at_us for e in events if e.kind == "release"), default=None)
        if held is not None:
            value = min(e.second for e in events) if key == "second" else _key(events[0], key)
            waits[value].append(None if freed is None else freed - held)
    found: ByKey = {}
    for value, delivered in _by(run.of_kind["deliver"], key):
        took = _present(waits.get(value, ()))
        found[value] = {
            "held_share": len(took) / len(delivered),
            "wait_mean_ms": sum(took) / len(took) / 1000 if took else None,
            "wait_max_ms": max(took) / 1000 if took else None,
        }
    return found


def _metadata_size(run: SmallRun, key: str | None) -> ByKey:
    found: ByKey = {}
    for value, rows in _by(run.of_kind["send"], key):
        sizes = _present(row.metadata_bytes for row in rows if (row.payload_bytes or 0) > 0)
        found[value] = {
            "metadata_mean_bytes": _mean(sizes),
            "metadata_max_bytes": max(sizes, default=None),
            "payload_sent_bytes": sum(row.payload_bytes or 0 for row in rows),
            "metadata_sent_bytes": sum(row.metadata_bytes or 0 for row in rows),
        }
    return found


def _memory(run: SmallRun, key: str | None) -> ByKey:
    state = [event for event in run.of_kind["note"] if event.note == "state"]
    return {
        value: _mean_and_max("state", _present(row.value for row in rows))
        for value, rows in _by(state, key)
    }


def _recovery(run: SmallRun, key: str | None) -> ByKey:
    crashes = _grouped(run.of_kind["crash"], lambda event: event.node)
    delays = _grouped(run.delays, lambda delay: delay.event.node)
    took: dict[Any, list[float]] = defaultdict(list)
    for back in run.of_kind["recover"]:
        later = [c.at_us for c in crashes.get(back.node, ()) if c.at_us > back.at_us]
        until = min(later, default=math.inf)
        missed = [
            delay.event.at_us
            for delay in delays.get(back.node, ())
            if back.at_us <= delay.event.at_us <= until and delay.published_us < back.at_us
        ]
        took[_key(back, key)].append((max(missed, default=back.at_us) - back.at_us) / 1000)
    return {
        value: {
            "recoveries": len(times),
            "recovery_mean_ms": _mean(times),
            "recovery_max_ms": max(times),
        }
        for value, times in took.items()
    }


def _hops(run: SmallRun, key: str | None) -> ByKey:
    return {
        value: _mean_and_max("hops", _present(row.value for row in rows))
        for value, rows in _by(run.elsewhere(), key)
    }


def _compaction_degree(run: SmallRun, key: str | None) -> ByKey:
    slots = run.nodes - 1
    with_clock = [
        event
        for event in run.of_kind["send"]
        if (event.payload_bytes or 0) > 0 and event.value is not None
    ]
    found: ByKey = {}
    for value, rows in _by(with_clock, key):
        entries = _present(row.value for row in rows)
        shares = [entry / slots for entry in entries] if slots > 0 else []
        found[value] = {
            "clock_entries_mean": _mean(entries),
            "compaction_degree": _mean(shares),
            "compaction_degree_max": max(shares, default=None),
        }
    return found


METRICS: dict[Callable[[SmallRun, str | None], ByKey], tuple[str, ...]] = {
    _throughput: (
        "publications",
        "deliveries",
        "deliveries_per_second",
        "goodput_bytes_per_second",
    ),
    _fastest_origin: ("fastest_origin_per_second",),
    _latency: ("latency_mean_ms", *PERCENTILES, "latency_max_ms"),
    _reliability: ("reliability",),
    _redundancy: ("redundancy",),
    _waiting: ("held_share", "wait_mean_ms", "wait_max_ms"),
    _metadata_size: (
        "metadata_mean_bytes",
        "metadata_max_bytes",
        "payload_sent_bytes",
        "metadata_sent_bytes",
    ),
    _memory: ("state_mean", "state_max"),
    _recovery: ("recoveries", "recovery_mean_ms", "recovery_max_ms"),
    _hops: ("hops_mean", "hops_max"),
    _compaction_degree: ("clock_entries_mean", "compaction_degree", "compaction_degree_max"),
}


def _key(event: Event, key: str | None) -> Any:
    return ALL if key is None else getattr(event, key)


def _by(events: Iterable[Event], key: str | None) -> Iterator[tuple[Any, list[Event]]]:
    """The events of each group, node or second."""
    yield from _grouped(events, lambda event: _key(event, key)).items()


def _grouped(things: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for thing in things:
        found[key(thing)].append(thing)
    return found


def _present(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def _mean_and_max(name: str, values: list[Any]) -> Values:
    return {f"{name}_mean": _mean(values), f"{name}_max": max(values, default=None)}


def _ratio(count: float | None, seconds: float | None) -> float | None:
    return None if count is None or seconds is None else count / seconds


def _percentile(ordered: list[int], share: float) -> float:
    """In milliseconds: the smallest value that this share of all does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] / 1000
