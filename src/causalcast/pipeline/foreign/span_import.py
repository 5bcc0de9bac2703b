"""Makes a run of spans of any number on Spark, as `trace.spans.span_log` does of few.

Spans are parsed once and travel three times, in packs that Spark does not look into: by trace
(`span_rows`), where each becomes narrow rows or nothing; by message (`span_messages`), where
deliveries get the numbers of publications; and by node and time (`span_logs`), into the order in
which they are written. In between they are kept on disk. Keys are compared as bytes and replaced by
numbers. Publications alone are rows for Spark, which numbers them (`span_publications`). Only what
is small is collected: places, and figures.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.pipeline.foreign import span_messages, span_rows
from causalcast.pipeline.foreign.imported_run import (
    ForeignLog,
    Members,
    Names,
    refuse_existing,
    shares_of,
    small_tables,
    write_events,
)
from causalcast.pipeline.foreign.span_columns import ERROR
from causalcast.pipeline.foreign.span_logs import (
    SLICES,
    event_columns,
    events_reader,
    put_in_order,
)
from causalcast.pipeline.foreign.span_messages import (
    FIRST_UNKNOWN,
    PUBLISHED,
    SLICE,
    SPOKEN,
    SPOKEN_NAMES,
    UNKNOWN_TOPIC,
    messages_reader,
)
from causalcast.pipeline.foreign.span_places import Places
from causalcast.pipeline.foreign.span_publications import (
    LOG,
    kept,
    number_publications,
    places_frame,
)
from causalcast.pipeline.foreign.span_rows import (
    DELIVERIES,
    PUBLICATION,
    REMARKS_TOLD,
    parts_for,
    read_moments,
    sent_to,
)
from causalcast.pipeline.foreign.span_slices import Slices
from causalcast.pipeline.logs.places import Place
from causalcast.trace.foreign_line import ONLY_GROUP
from causalcast.trace.foreign_log import (
    CIRCULAR_SPANS,
    ORIGIN_SHIFT,
    PUBLISHED_AGAIN,
    REPEATS,
    RETRIES,
    UNKNOWN_FROM,
)
from causalcast.trace.log_files import title_of
from causalcast.trace.spans.operations import PROCESS, PUBLISH, RECEIVE
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_log import SpanCounts

# Rows that Spark hands to a worker at once: packs are large.
ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
PACKS_AT_ONCE = "16"


def import_spans(
    spark: Any, paths: Sequence[Place], form: str, out: Place, rules: SpanRules,
    redelivery: str | None, whole: bool | None,
) -> dict[str, Any]:  # fmt: skip
    """Write the run that the spans describe; what `import_logs` says of it, and the counts."""
    refuse_existing(spark, out)
    parts = parts_for(paths)
    try:
        moments = kept(read_moments(spark, paths, form, rules, parts))
        found = _Import(spark, moments, rules, bool(whole), parts)
        return found.write(title_of(paths[0].name), redelivery, out)
    finally:
        spark.catalog.clearCache()


@contextmanager
def _few_at_once(spark: Any) -> Iterator[None]:
    before = spark.conf.get(ROWS_AT_ONCE)
    spark.conf.set(ROWS_AT_ONCE, PACKS_AT_ONCE)
    try:
        yield
    finally:
        spark.conf.set(ROWS_AT_ONCE, before)


@dataclass
class _Moments:
    """What all parts of the traces say together."""

    spans: int = 0
    circular: int = 0
    """Spans that are their own ancestors."""
    circles: list[str] = field(default_factory=list)
    """Traces that have such, the first of each part."""
    remarks: list[tuple[str, str]] = field(default_factory=list)
    moments: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Place, role, whether a message is named, how many."""
    times: list[tuple[str, str, list[int]]] = field(default_factory=list)
    """Service, process, some of the times there."""


@dataclass
class _Told:
    """What all parts of the messages say together."""

    firsts: list[tuple[Any, ...]] = field(default_factory=list)
    """Node, topic, share and what a log is sorted by, of first rows."""
    slices: list[tuple[int, int]] = field(default_factory=list)
    """How many rows of a slice a part has."""
    unknown: int = 0
    """Messages that nobody published."""
    retries: int = 0
    attempts: bool = False
    readers: list[tuple[int, int]] = field(default_factory=list)
    """Nodes and as whom they read."""
    unsteady: list[int] = field(default_factory=list)
    """Readers that process something again, or might."""
    repeats: bool = False
    keys: bool = False
    causes: bool = False


def _together(told: Any, rows: Any, sort: int) -> Any:
    """What the rows of a sort say, added up."""
    for row in rows.where(F.col("sort") == sort).select("pack").collect():
        for name, value in json.loads(bytes(row["pack"])).items():
            setattr(told, name, getattr(told, name) + value)
    return told


class _Import:
    """One import: moments become publications and deliveries, and these events."""

    def __init__(self, spark: Any, moments: Any, rules: SpanRules, whole: bool, parts: int) -> None:
        self.spark, self.rules, self.whole, self.parts = spark, rules, whole, parts
        self.by_id = rules.message == "id"
        self.moments = moments
        self.counts = SpanCounts()

    def write(self, title: str, redelivery: str | None, out: Place) -> dict[str, Any]:
        """Write the run; what is told of it."""
        told = _together(_Moments(), self.moments, span_rows.TOLD)
        left_out = _complaints(told.remarks)
        self.places = Places((place, role) for place, role, named, _ in told.moments if named)
        self._count(told)
        publications = kept(number_publications(
            self.moments.where(F.col("sort") == PUBLICATION),
            places_frame(self.spark, self.places), self.by_id,
        ))  # fmt: skip
        logged, found = self._logged(publications)
        self.counts.retries = found.retries
        has_retries = self.by_id and bool(publications.where("again").limit(1).collect())
        if has_retries and self.whole:
            self._refuse_strangers(publications)
        found_out: list[str] = []
        if redelivery is None:
            redelivery = self._redelivery(found, has_retries, found_out)
        circles = {CIRCULAR_SPANS: self.counts.circular} if self.counts.circular else {}
        log = ForeignLog(title, self.whole, redelivery, found_out, circles)
        with _few_at_once(self.spark):
            small = self._write(log, logged, found, out)
        return {**small, "left_out": left_out, "spans": self.counts.told()}

    def _count(self, told: _Moments) -> None:
        counts, rows_of = self.counts, defaultdict[int, int](int)
        counts.spans, counts.circular = told.spans, told.circular
        counts.circle = min(told.circles, default="")
        for place, role, named, rows in told.moments:
            if not named:
                counts.unnamed += rows if role in (PROCESS, RECEIVE) else 0
            elif self.places.counts(place, role):
                rows_of[self.places.facts[place].node] += rows
                counts.publications += rows if role == PUBLISH else 0
                counts.deliveries += rows if role != PUBLISH else 0
        if not rows_of:
            raise counts.refusal()
        counts.processes = len(self.places.nodes)
        times_of = defaultdict[int, list[int]](list)
        for service, process, times in told.times:
            if (service, process) in self.places.names:
                times_of[self.places.process(service, process)] += times
        self.slices = Slices(rows_of, times_of)

    def _logged(self, publications: Any) -> tuple[Any, _Told]:
        """Packs of rows by slices. If there are messages that nobody published, they get numbers,
        and it is done again with them."""
        packs = self.moments.where(F.col("sort") == DELIVERIES).select("part", "pack")
        spoken = _with_nulls(packs).unionByName(_with_nulls(publications.select(*self._spoken())))
        logged, told = self._by_message(spoken)
        if told.unknown:
            unknown = self._numbered(logged.where(F.col("sort") == FIRST_UNKNOWN), publications)
            logged, told = self._by_message(spoken.unionByName(_with_nulls(unknown)))
        return logged, told

    def _by_message(self, spoken: Any) -> tuple[Any, _Told]:
        reader = messages_reader(self.places, self.slices, self.rules.retries)
        logged = kept(sent_to(spoken, self.parts, "part").mapInArrow(reader, span_messages.ROWS))
        return logged, _together(_Told(), logged, span_messages.TOLD)

    def _spoken(self) -> Iterator[Any]:
        """Publications as `messages_reader` wants them."""
        plain = F.lower(F.hex(F.expr("substring(message, -8)")))
        named = F.when(F.length("name") > 0, F.col("name")).otherwise(plain)
        columns = {
            "note": F.when(F.col("again"), PUBLISHED_AGAIN).otherwise(named),
            "key": F.when(~F.col("again"), F.col("order_key")),
        }
        there = (name for name in SPOKEN_NAMES if name != "pack")
        return (columns.get(name, F.col(name)).alias(name) for name in there)

    def _numbered(self, first: Any, publications: Any) -> Any:
        """Messages that nobody published get numbers that nobody has, and keep their names.

        A name that looks like the number of a node's message keeps it, if there is none of that.
        """
        text = F.decode("message", "utf-8") if self.by_id else F.lower(F.hex("message"))
        part = "try_cast(regexp_extract(text, '^([0-9]+)[.]([0-9]+)$', {}) as bigint)"
        counts = publications.where("not again").groupBy("node").count()
        published = {row["node"]: row["count"] for row in counts.collect()}
        counted = self.spark.createDataFrame(
            [(node, published.get(node, 0)) for node in range(len(self.places.nodes))],
            "origin long, published long",
        )
        numbered = (
            first.withColumn("text", text)
            .withColumn("origin", F.expr(part.format(1)))
            .withColumn("number", F.expr(part.format(2)))
            .join(F.broadcast(counted), "origin", "left")
            .withColumn("plain", F.coalesce(
                (F.col("number") > F.col("published")) & (F.col("number") < UNKNOWN_FROM),
                F.lit(False)))
        )  # fmt: skip
        nth = F.row_number().over(Window.partitionBy("plain").orderBy("node", *LOG)).cast("long")
        of_node = F.shiftleft(F.col("node").cast("long"), ORIGIN_SHIFT)
        of_name = F.shiftleft(F.col("origin"), ORIGIN_SHIFT).bitwiseOR(F.col("number"))
        other = F.when(F.col("plain"), of_name).otherwise(of_node.bitwiseOR(nth + UNKNOWN_FROM))
        return numbered.select(
            "part", "message", other.alias("id"), F.lit(UNKNOWN_TOPIC).alias("topic"),
            F.when(~F.col("plain"), F.col("text")).alias("note"), F.lit(0).alias("node"),
            F.lit(False).alias("again"), F.lit(0).cast("long").alias("at_ns"),
        )  # fmt: skip

    def _refuse_strangers(self, publications: Any) -> None:
        """Who publishes another's message again must have delivered it, in a log that is whole."""
        strange = publications.where("again and node != first_node")
        packs = self.moments.where(F.col("sort") == DELIVERIES).select("part", "pack")
        spoken = _with_nulls(packs).unionByName(_with_nulls(strange.select(*self._spoken())))
        reader = span_messages.strangers_reader(self.places)
        wrong = sent_to(spoken, self.parts, "part").mapInArrow(reader, span_messages.ROWS)
        for row in wrong.orderBy("node", *LOG).limit(1).collect():
            name = bytes(row["message"]).decode()
            where = f"process {self.places.nodes[row['node']]}"
            raise TraceError(f"{where}: message {name!r} is published twice")

    def _redelivery(self, told: _Told, has_retries: bool, found_out: list[str]) -> str:
        """`any` if attempts are numbered, messages published again, or (partial) repeated."""
        if told.attempts:
            return "any"
        if has_retries:
            found_out.append(RETRIES)
            return "any"
        if not self.whole and told.repeats:
            found_out.append(REPEATS)
            return "any"
        return "none"

    def _write(self, log: ForeignLog, logged: Any, told: _Told, out: Place) -> dict[str, Any]:
        places = self.places
        nodes: Names = {name: number for number, name in enumerate(places.nodes)}
        groups = self._groups(told)
        shares = shares_of(
            [(groups[places.topics[topic] or ONLY_GROUP], node, places.shares[share] or None)
             for node, topic, share, *_ in told.firsts if share != PUBLISHED], nodes, groups,
        )  # fmt: skip
        members = self._members(nodes, groups)
        members.add_those_who_deliver(shares, self.whole)
        slices = logged.where(F.col("sort") == SLICE).select("file", "slice", "pack")
        sorted_slices = sent_to(slices, self.slices.file_count, "file")
        ordered = kept(sorted_slices.sortWithinPartitions("slice").mapInArrow(put_in_order, SLICES))
        self.counts.equal_times = ordered.agg(F.sum("ties")).first()[0]
        columns = event_columns({"key": told.keys, "causes": told.causes,
                                 "attempt": told.attempts,
                                 "tied": self.counts.equal_times > 0})  # fmt: skip
        small = small_tables(log, nodes, groups, members, shares, list(columns))
        group_of = [groups.get(topic or ONLY_GROUP, 0) for topic in places.topics]
        node_of = [self.slices.node_of(piece) for piece in range(len(self.slices.files))]
        steady = self._steady_nodes(told)
        reader = events_reader(columns, node_of, self._first_pos(told, node_of), group_of, steady)
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        write_events(self.spark, ordered.mapInArrow(reader, schema), small, out)
        return small.told(sum(rows for _, rows in told.slices))

    def _steady_nodes(self, told: _Told) -> set[int]:
        """Those whose deliveries are all first ones, as in `number_attempts`."""
        if self.rules.retries == "none" or not told.attempts:
            return set()
        unsteady = set(told.unsteady)
        again = {node for node, reader in told.readers if reader in unsteady}
        return {node for node, _ in told.readers} - again

    def _first_pos(self, told: _Told, node_of: list[int]) -> list[int]:
        """Of each slice, the position of its first row in the log of its node."""
        rows = [0] * len(node_of)
        for piece, count in told.slices:
            rows[piece] += count
        before = [0, *accumulate(rows)]
        return [before[piece] - before[self.slices.first[node]]
                for piece, node in enumerate(node_of)]  # fmt: skip

    def _groups(self, told: _Told) -> Names:
        """Topics in the order in which they appear, node by node."""
        firsts = sorted((node, *moment, topic) for node, topic, _, *moment in told.firsts)
        appear: list[list[str]] = [self._subscribed(name) for name in self.places.nodes]
        for node, *_, topic in firsts:
            appear[node].append(self.places.topics[topic] or ONLY_GROUP)
        names = dict.fromkeys(name for of_node in appear for name in of_node)
        return {name: number for number, name in enumerate(names)}

    def _subscribed(self, node: str) -> list[str]:
        return list(dict.fromkeys(self.rules.subscriptions.get(node, [])))

    def _members(self, nodes: Names, groups: Names) -> Members:
        declared = [(groups[topic], number) for name, number in nodes.items()
                    for topic in self._subscribed(str(name))]  # fmt: skip
        rows: list[list[int | None]] = [[group, node, 0, None] for group, node in declared]
        return Members(rows, {group for group, _ in declared})


def _complaints(remarks: list[tuple[str, str]]) -> list[str]:
    """What is torn is told; what is wrong ends it."""
    for role, what in sorted(map(tuple, remarks)):
        if role == ERROR:
            raise TraceError(what)
    return sorted(what for _, what in remarks)[:REMARKS_TOLD]


def _with_nulls(rows: Any) -> Any:
    """Rows with all columns that `messages_reader` wants."""
    kinds = dict(column.split(" ", 1) for column in SPOKEN.split(", "))
    return rows.select(*(
        F.col(name) if name in rows.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in kinds.items()
    ))  # fmt: skip
