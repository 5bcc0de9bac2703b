"""Spans in columns say what spans say one by one, and rows come out of packs as they went in."""

from collections import defaultdict
from dataclasses import astuple
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.row_packs import packed, part_by, unpacked
from causalcast.pipeline.foreign.span_columns import ROLE_BITS, ROLES, Operations, parts_of
from causalcast.pipeline.foreign.span_logs import LOGGED, put_in_order
from causalcast.pipeline.foreign.span_slices import Slices
from causalcast.pipeline.foreign.span_traces import moments_in
from causalcast.trace.spans.moments import Moment, moments_of, spans_in_circles
from causalcast.trace.spans.operations import PUBLISH, Operation
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_log import ties_of

ROLE_CHOICES = ("publish", "publish", "process", "process", "receive", "")


def random_operations(random: Random) -> list[Operation]:
    """Traces of every shape: spans that came twice, links to anything, unseen parents."""
    traces = [f"{n:032x}" for n in range(1, 4)]
    keys = [trace + f"{n:016x}" for trace in traces for n in range(1, random.randrange(2, 9))]
    found = []
    for key in random.choices(keys, k=random.randrange(1, 2 * len(keys))):
        same_trace = [other for other in keys if other[:32] == key[:32]]  # in circles, too
        start = random.randrange(20)
        found.append(Operation(
            key[:32], key, random.choice([*same_trace, "", key[:32] + "f" * 16]),
            random.choice(ROLE_CHOICES), start, start + random.randrange(9),
            random.random() < 0.2, random.choices(keys, k=random.choice((0, 0, 1, 1, 2, 3))),
            "shop", random.choice("pq"), random.choice(("a", "b", "")),
            random.choice(("", "m1", "m2")), random.choice(("", "w")), random.choice(("", "k")),
            random.choice((0, 0, 2)), random.random() < 0.2,
        ))  # fmt: skip
    return found


def by_trace(operations: list[Operation]) -> list[list[Operation]]:
    traces: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        traces[operation.trace].append(operation)
    return list(traces.values())


def one_by_one(operations: list[Operation], rules: SpanRules) -> list[tuple[Any, ...]]:
    found = []
    for trace in by_trace(operations):
        for moment in moments_of(trace, rules):
            moment.causes = tuple(cause for cause in moment.causes if cause)
            found.append(astuple(moment))
    return sorted(found)


def in_columns(operations: list[Operation], rules: SpanRules) -> list[tuple[Any, ...]]:
    read = Operations(rules)
    read.read(operations, "a file")
    found = moments_in(pa.table(read.batch()), rules)
    assert found.spans == len(operations)
    assert len(found.circular) == sum(map(spans_in_circles, by_trace(operations)))
    named = bytes.decode if rules.message == "id" else bytes.hex
    rows = pa.table(found.publications).to_pylist() + pa.table(found.deliveries).to_pylist()
    moments = []
    for row in rows:
        service, process, topic, share = parts_of(row["place"])
        role = ROLES[row["what"] & ROLE_BITS]
        publishes = role == PUBLISH
        message, handling = named(row["message"]), row["handling"].hex()
        name = row["name"] or row["message"].hex()[-16:]
        moments.append(Moment(
            service, process, role, row["at_ns"], row["rank"], message, name if publishes else "",
            topic, "" if publishes else share, row["order_key"] or "", row["attempt"],
            not publishes and row["what"] > ROLE_BITS,
            tuple(named(cause) for cause in row["causes"] or ()), handling,
        ))  # fmt: skip
    return sorted(astuple(moment) for moment in moments)


@pytest.mark.parametrize(
    "rules",
    [SpanRules(), SpanRules(delivered="start"), SpanRules(message="id")],
    ids=["by span", "by start", "by id"],
)
def test_in_columns_it_is_the_same(rules: SpanRules) -> None:
    compared = 0
    for seed in range(300):
        operations = random_operations(Random(seed))
        expected, found = one_by_one(operations, rules), in_columns(operations, rules)
        if rules.message == "id":  # what has no name is not told later on
            expected, found = ([row for row in rows if row[5]] for rows in (expected, found))
        assert found == expected
        compared += len(expected)
    assert compared > 500


def test_spans_in_circles_end() -> None:
    circle = [
        Operation("0" * 31 + "1", "ab" * 24, "cd" * 24, "process", 1, 2, False, []),
        Operation("0" * 31 + "1", "cd" * 24, "ab" * 24, "", 1, 2, False, []),
        Operation("0" * 31 + "1", "ef" * 24, "cd" * 24, "publish", 1, 2, False, []),
    ]
    alone = [circle[1], Operation("0" * 31 + "1", "ab" * 24, "cd" * 24, "", 1, 2, False, []),
             circle[2]]  # fmt: skip
    assert len(in_columns(circle, SpanRules())) == 2
    for spans in (circle, alone):
        assert in_columns(spans, SpanRules()) == one_by_one(spans, SpanRules())


def test_what_is_no_id_is_said() -> None:
    read = Operations(SpanRules())
    read.read([Operation("zz", "zz", "", "publish", 1, 2, False, [])], "a file")
    found = moments_in(pa.table(read.batch()), SpanRules())
    assert found.remarks == [("error", "ids of spans must be hexadecimal")]

    def broken() -> Any:
        raise TraceError("no such thing")
        yield

    read.read(broken(), "a file")
    assert moments_in(pa.table(read.batch()), SpanRules()).remarks == [
        ("error", "a file: no such thing")
    ]


def test_rows_come_out_of_packs_as_they_went_in() -> None:
    random = Random(3)
    names = [random.randbytes(random.choice((0, 3, 16, 24))) for _ in range(200)] * 2
    rows = pa.table({"name": pa.array(names), "lists": [[n] * (n % 3) for n in range(400)]})
    part = part_by(rows["name"].combine_chunks(), 7)
    assert len(set(part.tolist())) == 7
    found: dict[bytes, set[int]] = defaultdict(set)
    back = []
    for number, pack in packed(rows, part):
        there = unpacked([pack], rows.schema).to_pylist()
        back += there
        for row in there:
            found[row["name"]].add(number)
    assert all(len(parts) == 1 for parts in found.values())
    assert sorted(map(str, back)) == sorted(map(str, rows.to_pylist()))


def test_slices_are_whole_times_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causalcast.pipeline.foreign.span_slices.ROWS_PER_SLICE", 10)
    monkeypatch.setattr("causalcast.pipeline.foreign.span_slices.ROWS_PER_FILE", 60)
    times = [1, 1, 1, 2, 5, 5, 7, 9, 9, 9]
    slices = Slices({0: 100, 1: 5, 2: 5}, {0: times})
    assert slices.files[0] == 0 and slices.files[-1] == slices.files[-2] == 1
    at_ns = np.array([0, 1, 1, 2, 5, 9, 12])
    found = slices.of(np.zeros(7, int), at_ns)
    assert found[1] == found[2] and (np.diff(found) >= 0).all() and found[0] < found[-1]
    assert [slices.node_of(piece) for piece in slices.of(np.array([0, 1, 2]), at_ns[:3])] == [
        0, 1, 2
    ]  # fmt: skip


def test_a_slice_is_put_in_order_as_a_small_log_is() -> None:
    random = Random(5)
    for _ in range(200):
        log = [
            Moment("", "", "process", random.randrange(3), random.randrange(4),
                   f"{random.randrange(3)}", handling=random.choice(("aa", "bb")))
            for _ in range(random.randrange(1, 7))
        ]  # fmt: skip
        rows = [{"at_ns": m.at_ns, "rank": m.rank, "handling": bytes.fromhex(m.handling),
                 "message": m.message.encode(), "kind": 0} for m in log]  # fmt: skip
        half = len(rows) // 2
        packs = [pa.RecordBatch.from_pylist(some, schema=LOGGED).serialize().to_pybytes()
                 for some in (rows[:half], rows[half:])]  # fmt: skip
        batch = pa.RecordBatch.from_pydict({"slice": [0, 0], "pack": packs})
        [found] = put_in_order(iter([batch]))
        there = unpacked(found["pack"].to_pylist(), LOGGED.append(pa.field("tied", pa.bool_())))
        log.sort(key=lambda m: (m.at_ns, m.rank, m.handling, m.message))
        assert there["message"].to_pylist() == [m.message.encode() for m in log]
        assert [bool(tied) for tied in there["tied"].to_pylist()] == ties_of(log)
        assert found["ties"].to_pylist() == [sum(ties_of(log))]
