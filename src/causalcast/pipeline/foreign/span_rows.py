"""Spans on Spark: files in; publications as rows and deliveries as packs of rows out.

Spans are parsed by the readers of small files (`trace.spans`) in Python workers, and then brought
together by trace. What is small, and what a worker has to complain about, is told in one row per
part, so that people get a sentence.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.foreign.log_lines import read_lines, uri_of
from causalcast.pipeline.foreign.row_packs import packed, part_by, unpacked
from causalcast.pipeline.foreign.span_columns import (
    OPERATIONS,
    ROLE_BITS,
    ROLES,
    TORN,
    Operations,
    parts_of,
)
from causalcast.pipeline.foreign.span_traces import MOMENTS, Found, moments_in
from causalcast.pipeline.logs.places import Place
from causalcast.trace.many_objects import all_are_kept
from causalcast.trace.spans.operations import operation_of
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import TRACE_DIGITS
from causalcast.trace.spans.span_files import OTLP, spans_in

# A worker looks at one part of the traces at a time; this much text makes a part of some 200,000
# spans. Packed files and files elsewhere are taken for larger than they say.
BYTES_PER_PART = 128 << 20
PACKED = 8
PARTS_ELSEWHERE = 64
SPANS_TOGETHER = 30_000  # are packed at once
REMARKS_TOLD = 100
SAMPLE = 256  # of so many moments of a process the time of one is told
# A publication; deliveries; what is told of a part.
PUBLICATION, DELIVERIES, TOLD = range(3)
PACKS = "part int, pack binary"
ROWS = (
    "sort byte, part int, pack binary, at_ns long, rank byte, message binary, handling binary,"
    " place string, name string, order_key string, causes array<binary>"
)
_ROWS = pa.schema([
    ("sort", pa.int8()), ("part", pa.int32()), ("pack", pa.binary()),
    *(MOMENTS.field(name) for name in
      ("at_ns", "rank", "message", "handling", "place", "name", "order_key", "causes")),
])  # fmt: skip
_TRAVELS = pa.schema([field for field in OPERATIONS if field.name != "trace"])
_OF_DELIVERIES = ("what", "at_ns", "rank", "message", "handling", "place", "attempt")
DELIVERED = pa.schema([MOMENTS.field(name) for name in _OF_DELIVERIES])
Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_moments(
    spark: Any, paths: Sequence[Place], form: str, rules: SpanRules, parts: int
) -> Any:
    """The publications and deliveries of all spans, and what is told of each part."""
    if form == OTLP:
        lines = read_lines(spark, paths).where(F.length(F.trim("text")) > 0)
        operations = lines.mapInArrow(_lines_reader(rules, parts), PACKS)
    else:
        files = spark.read.format("binaryFile").load([uri_of(path) for path in paths])
        operations = files.select("path", "content").mapInArrow(
            _files_reader(form, rules, parts), PACKS
        )
    return sent_to(operations, parts, "part").mapInArrow(_trace_reader(rules, parts), ROWS)


def sent_to(rows: Any, parts: int, column: str) -> Any:
    """Each row to the part that a column names; no order within it."""
    if hasattr(rows, "repartitionById"):  # since Spark 4.1
        return rows.repartitionById(parts, F.col(column))
    return rows.repartitionByRange(parts, column)


def parts_for(paths: Sequence[Place]) -> int:
    """In how many parts the rows are looked at, so that each fits a worker's memory."""
    here = [path for path in paths if isinstance(path, Path)]
    if len(here) < len(paths):
        return PARTS_ELSEWHERE
    sizes = (path.stat().st_size * (PACKED if path.suffix in (".gz", ".zst") else 1)
             for path in here)  # fmt: skip
    return max(4, sum(sizes) // BYTES_PER_PART)


def _lines_reader(rules: SpanRules, parts: int) -> Reader:
    wanted = rules.wanted

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = Operations(rules)
        with all_are_kept():  # until they are packed; there are no circles among them
            for batch in batches:
                rows = zip(batch["text"], batch["order"], batch["torn"], strict=True)
                for text, order, torn in rows:
                    path = order["path"].as_py()
                    if torn.as_py():
                        found.remark(TORN, f"{path}: the last line is torn: no JSON, and no end")
                    else:
                        spans = read_otlp_json(text.as_buffer(), wanted)
                        found.read((operation_of(span, rules) for span in spans), path)
                    if len(found.rows) > SPANS_TOGETHER:
                        yield _by_trace(found, parts)
            yield _by_trace(found, parts)

    return read


def _files_reader(form: str, rules: SpanRules, parts: int) -> Reader:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"], batch["content"], strict=True):
                found, torn = Operations(rules), list[str]()
                name = path.as_py()
                spans = spans_in(content.as_py(), name, form, rules.wanted, torn)
                found.read((operation_of(span, rules) for span in spans), name)
                for what in torn:
                    found.remark(TORN, what)
                yield _by_trace(found, parts)

    return read


def _by_trace(found: Operations, parts: int) -> pa.RecordBatch:
    batch = found.batch()
    part = part_by(batch["trace"], parts)
    packs = list(packed(pa.table(batch.drop_columns(["trace"])), part))
    arrays = [
        pa.array([number for number, _ in packs], pa.int32()),
        pa.array([pack for _, pack in packs], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["part", "pack"])


def _trace_reader(rules: SpanRules, parts: int) -> Reader:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packs = [pack.as_buffer() for batch in batches for pack in batch["pack"]]
        if not packs:
            return
        found = moments_in(unpacked(packs, _TRAVELS), rules)
        yield _rows(_told(found))
        named = pa.table(found.deliveries).filter(pc.field("message") != b"")
        part = part_by(named["message"].combine_chunks(), parts)
        deliveries = packed(named.select(DELIVERED.names), part)
        yield _rows([(DELIVERIES, number, pack) for number, pack in deliveries])
        yield _publications(found.publications, parts)

    return read


def _told(found: Found) -> list[tuple[int, int, bytes]]:
    """Spans, remarks; how many moments of each role each place has; times of some of them."""
    both = pa.concat_tables([pa.table(found.publications), pa.table(found.deliveries)])
    places = both["place"].combine_chunks().dictionary_encode()
    names = places.dictionary.to_pylist()
    at = places.indices.to_numpy()
    role = both["what"].to_numpy() & ROLE_BITS
    named = pc.binary_length(both["message"]).to_numpy() > 0
    counted = Counter(dict(zip(*_counts(at.astype(np.int64) * 16 + role * 2 + named), strict=True)))
    told = {
        "spans": found.spans,
        "circular": len(found.circular),
        "circles": sorted({key.hex()[:TRACE_DIGITS] for key in found.circular})[:1],
        "remarks": found.remarks[:REMARKS_TOLD],
        "moments": [(names[key // 16], ROLES[key % 16 // 2], key % 2, rows)
                    for key, rows in counted.items()],
        "times": _times(names, at, both["at_ns"].to_numpy()),
    }  # fmt: skip
    return [(TOLD, 0, json.dumps(told).encode())]


def _counts(keys: Any) -> tuple[list[int], list[int]]:
    numbers, counts = np.unique(keys, return_counts=True)
    return numbers.tolist(), counts.tolist()


def _times(names: list[str], at: Any, at_ns: Any) -> list[tuple[str, str, list[int]]]:
    """Of each process, some times of its moments: enough to see where most of them are."""
    processes = [parts_of(name)[:2] for name in names]
    distinct = {process: number for number, process in enumerate(dict.fromkeys(processes))}
    of_row = np.array([distinct[process] for process in processes], np.int64)[at]
    order = np.lexsort((at_ns, of_row))
    ends = np.searchsorted(of_row[order], np.arange(len(distinct) + 1))
    return [
        (*process, at_ns[order][ends[n] : ends[n + 1]][SAMPLE // 2 :: SAMPLE].tolist())
        for process, n in distinct.items()
    ]


def _rows(packs: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    rows = [{"sort": sort, "part": part, "pack": pack} for sort, part, pack in packs]
    return pa.RecordBatch.from_pylist(rows, schema=_ROWS)


def _publications(found: pa.RecordBatch, parts: int) -> pa.RecordBatch:
    rows = pa.table(found).filter(pc.field("message") != b"").combine_chunks()
    part = part_by(rows["message"].combine_chunks(), parts)
    nothing = {"sort": pa.array(np.full(len(rows), PUBLICATION, np.int8)), "part": pa.array(part),
               "pack": pa.nulls(len(rows), pa.binary())}  # fmt: skip
    arrays = [nothing[name] if name in nothing else rows[name].combine_chunks()
              for name in _ROWS.names]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)
