"""Spans on Spark: files in, one row per publication and delivery out, trace by trace.

Parsing and the rules that look at one trace are the ones of small files (`trace.spans`), in Python
workers. What a worker has to complain about travels as a row, so that people get a sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.log_lines import read_lines, uri_of
from causalcast.pipeline.logs.places import Place
from causalcast.trace.spans.moments import Moment, moments_of
from causalcast.trace.spans.operations import Operation, operation_of
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import Span
from causalcast.trace.spans.span_files import OTLP, spans_in

ERROR, TORN = "error", "torn"
BATCH = 5_000
KINDS = {"int": "long", "bool": "boolean", "str": "string"}
LISTS = ("links", "causes")


def _schema(of: type) -> str:
    """A dataclass as Spark's columns."""
    named = {field.name: str(getattr(field.type, "__name__", field.type)) for field in fields(of)}
    kinds = {name: "array<string>" if name in LISTS else KINDS[kind]
             for name, kind in named.items()}  # fmt: skip
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def _arrow(of: type) -> pa.Schema:
    """A dataclass as Arrow's columns."""
    plain = {"int": pa.int64(), "bool": pa.bool_(), "str": pa.string()}
    return pa.schema([
        (field.name, pa.list_(pa.string()) if field.name in LISTS
         else plain[str(getattr(field.type, "__name__", field.type))])
        for field in fields(of)
    ])  # fmt: skip


OPERATIONS, MOMENTS = _schema(Operation), _schema(Moment)


def read_moments(spark: Any, paths: Sequence[Place], form: str, rules: SpanRules) -> Any:
    """The rows of all spans: publications, deliveries, complaints; and how many spans there are."""
    if form == OTLP:
        lines = read_lines(spark, paths).where(F.trim("text") != "")
        operations = lines.mapInArrow(_lines_reader(rules), OPERATIONS)
    else:
        files = spark.read.format("binaryFile").load([uri_of(path) for path in paths])
        operations = files.select("path", "content").mapInArrow(
            _files_reader(form, rules), OPERATIONS
        )
    together = operations.repartition("trace").sortWithinPartitions("trace")
    return together.mapInArrow(_trace_reader(rules), MOMENTS)


def _lines_reader(rules: SpanRules) -> Callable[[Iterator[Any]], Iterator[Any]]:
    wanted = rules.wanted

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(batch["text"], batch["order"], batch["torn"], strict=True)
            texts = ((t.as_py(), o.as_py()["path"], torn.as_py()) for t, o, torn in rows)
            found = chain.from_iterable(
                [_remark(TORN, f"{path}: the last line is torn: no JSON, and no end")] if torn
                else _operations(read_otlp_json(text, wanted), path, rules)
                for text, path, torn in texts
            )  # fmt: skip
            yield from _batches(found, Operation)

    return read


def _files_reader(form: str, rules: SpanRules) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"], batch["content"], strict=True):
                yield from _batches(_of_file(path.as_py(), content.as_py(), form, rules), Operation)

    return read


def _of_file(path: str, content: bytes, form: str, rules: SpanRules) -> Iterator[Operation]:
    torn: list[str] = []
    spans = spans_in(content, path, form, rules.wanted, torn)
    yield from _operations(spans, path, rules)
    yield from (_remark(TORN, what) for what in torn)


def _operations(spans: Iterable[Span], path: str, rules: SpanRules) -> Iterator[Operation]:
    try:
        for span in spans:
            yield operation_of(span, rules)
    except TraceError as error:
        said = str(error)
        yield _remark(ERROR, said if path in said else f"{path}: {said}")


def _remark(role: str, what: str) -> Operation:
    return Operation("", "", "", role, 0, 0, False, [], name=what.replace("file://", ""))


def _trace_reader(rules: SpanRules) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = chain.from_iterable(_rows(batch) for batch in batches)
        found = chain.from_iterable(
            _moments(trace, group, rules) for trace, group in groupby(rows, lambda row: row.trace)
        )
        yield from _batches(found, Moment)

    return read


def _moments(trace: str, group: Iterable[Operation], rules: SpanRules) -> Iterator[Moment]:
    if trace:
        yield from moments_of(group, rules)
    else:
        yield from (Moment("", "", row.role, 0, 0, "", row.name) for row in group)


def _rows(batch: pa.RecordBatch) -> Iterator[Operation]:
    columns = [column.to_pylist() for column in batch.columns]
    return (Operation(*row) for row in zip(*columns, strict=True))


def _batches(rows: Iterable[Any], of: type) -> Iterator[pa.RecordBatch]:
    schema = _arrow(of)
    values = attrgetter(*schema.names)
    kept: list[tuple[Any, ...]] = []
    for row in rows:
        kept.append(values(row))
        if len(kept) == BATCH:
            yield _batch(kept, schema)
            kept = []
    if kept:
        yield _batch(kept, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
