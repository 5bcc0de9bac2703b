"""Makes a run of spans of any number on Spark, as `trace.spans.span_log` does of few.

A trace is looked at as a whole (`span_rows`). What is left needs messages across traces (which
topic, which attempt) and processes as a whole (their names, the order in them): joins and windows.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.foreign_import import import_parsed, refuse_existing
from causalcast.pipeline.foreign.span_rows import ERROR, TORN, read_moments
from causalcast.pipeline.logs.places import Place
from causalcast.trace.foreign_line import ONLY_GROUP
from causalcast.trace.log_files import title_of
from causalcast.trace.spans.moments import CHILD, PARENT
from causalcast.trace.spans.operations import PROCESS, PUBLISH, RECEIVE
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_log import NO_MESSAGES, SpanCounts, process_names

TOLD = 100  # torn ends that are told one by one
READER = ("message", "reader")


def import_spans(
    spark: Any, paths: Sequence[Place], form: str, out: Place, rules: SpanRules,
    redelivery: str | None, whole: bool | None,
) -> dict[str, Any]:  # fmt: skip
    """Write the run that the spans describe; what `import_logs` says of it, and the counts."""
    refuse_existing(spark, out)
    try:
        moments = read_moments(spark, paths, form, rules).cache()
        left_out = _complaints(moments)
        named = _counted(moments.where(F.col("role").isin(PUBLISH, PROCESS, RECEIVE)))
        counts = _counts(moments, named)
        parsed = _as_lines(spark, named, rules, counts).cache()
        title = title_of(paths[0].name)
        found = import_parsed(spark, parsed, parsed, out, title, redelivery, whole)
        return {**found, "left_out": left_out, "spans": counts.told()}
    finally:
        spark.catalog.clearCache()


def _complaints(moments: Any) -> list[str]:
    """What is torn is told; what is wrong ends it."""
    said = moments.where(F.col("role").isin(ERROR, TORN)).select("role", "name").distinct()
    found = sorted(tuple(row) for row in said.limit(TOLD).collect())
    for role, what in found:
        if role == ERROR:
            raise TraceError(what)
    return [what for _, what in found]


def _counted(moments: Any) -> Any:
    """Without what names no message, and without receiving where processing is told."""
    named = moments.where("message != ''")
    if not named.where(F.col("role") == RECEIVE).limit(1).collect():
        return named
    told = named.where(F.col("role") == PROCESS).select(
        "service", "process", "topic", F.lit(True).alias("processed")
    )
    both = named.join(F.broadcast(told.distinct()), ["service", "process", "topic"], "left")
    keep = (F.col("role") != RECEIVE) | F.col("processed").isNull()
    return both.where(keep).drop("processed")


def _counts(moments: Any, named: Any) -> SpanCounts:
    unnamed = F.col("role").isin(PROCESS, RECEIVE) & (F.col("message") == "")
    counts = SpanCounts(unnamed=moments.where(unnamed).count())
    by_role = {row["role"]: row["count"] for row in named.groupBy("role").count().collect()}
    counts.publications = by_role.pop(PUBLISH, 0)
    counts.deliveries = sum(by_role.values())
    if not counts.publications + counts.deliveries:
        raise TraceError(NO_MESSAGES)
    return counts


def _as_lines(spark: Any, named: Any, rules: SpanRules, counts: SpanCounts) -> Any:
    """The rows as `parse_lines` gives them."""
    processes = named.select("service", "process").distinct().collect()
    names = process_names({(row["service"], row["process"]) for row in processes})
    counts.processes = len(names)
    nodes = spark.createDataFrame(
        [(*process, name) for process, name in names.items()],
        "service string, process string, node string",
    )
    rows = named.join(F.broadcast(nodes), ["service", "process"])
    rows = _with_attempts(_with_topics(rows), rules)
    delivered = F.col("role") != PUBLISH
    log = Window.partitionBy("node").orderBy("at_ns", "rank", "handling", "message")
    rows = rows.withColumn("place", (F.row_number().over(log) - 1).cast("long"))
    rows = rows.withColumn("tied", _is_tied(log)).cache()
    counts.equal_times = rows.where("tied").count()
    lines = rows.select(
        F.struct(F.col("node").alias("path"), F.lit(0).cast("long").alias("block"),
                 F.col("place").alias("line")).alias("order"),
        "node",
        F.when(delivered, "deliver").otherwise("publish").alias("kind"),
        "message",
        F.when(F.col("topic") == "", ONLY_GROUP).otherwise(F.col("topic")).alias("group"),
        F.col("place").cast("double").alias("pos"),
        (F.col("at_ns") / 1000).cast("long").alias("at_us"),
        F.when(~delivered, F.col("name")).alias("note"),
        _unless("key", "").alias("key"),
        F.when(F.size("causes") > 0, F.col("causes")).alias("causes"),
        _unless("share", "").alias("share"),
        _unless("attempt", 0).cast("double").alias("attempt"),
        F.when(F.col("tied"), F.lit(True)).alias("tied"),
    )  # fmt: skip
    if rules.subscriptions:
        lines = lines.unionByName(_joins(spark, rules), allowMissingColumns=True)
    return _with_the_rest(lines)


def _is_tied(log: Any) -> Any:
    """As `ties_of` does: equal times are not ordered, but answers follow what they answer."""
    together = Window.partitionBy("node", "at_ns")
    kinds = F.array_sort(F.collect_set("rank").over(together))
    of_one = F.min("handling").over(together) == F.max("handling").over(together)
    answers = of_one & (kinds == F.array(F.lit(PARENT).cast("long"), F.lit(CHILD).cast("long")))
    equal = F.lag("at_ns").over(log) == F.col("at_ns")
    same_rank = F.lag("rank").over(log) == F.col("rank")
    return F.coalesce(equal & (~answers | same_rank), F.lit(False))


def _unless(column: str, nothing: Any) -> Any:
    return F.when(F.col(column) != nothing, F.col(column))


def _with_topics(rows: Any) -> Any:
    """Deliveries have the topic of the publication: a queue may have another name."""
    published = rows.where(F.col("role") == PUBLISH).groupBy("message").agg(
        F.min("topic").alias("published_topic")
    )  # fmt: skip
    joined = rows.join(published, "message", "left")
    return joined.withColumn("topic", F.coalesce("published_topic", "topic"))


def _with_attempts(rows: Any, rules: SpanRules) -> Any:
    """As `number_attempts` does: those of one reader, a process or all that share."""
    alone = F.concat_ws("/", "service", "process")
    by_itself = (F.col("role") != PUBLISH) & (F.col("attempt") == 0)
    rows = rows.withColumn("reader", F.when(by_itself, F.when(F.col("share") != "", F.col("share"))
                                            .otherwise(alone)))  # fmt: skip
    if rules.retries == "none":
        return rows
    together = Window.partitionBy(*READER)
    in_time = together.orderBy("at_ns", "node")
    again = F.lit(1) if rules.retries == "all" else F.col("failed").cast("int")
    before = F.sum(again).over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    numbered = by_itself & (F.count("*").over(together) > 1)
    attempt = F.when(numbered, F.coalesce(before, F.lit(0)) + 1).otherwise(F.col("attempt"))
    return rows.withColumn("attempt", attempt)


def _joins(spark: Any, rules: SpanRules) -> Any:
    rows = [
        ((node, 0, place - len(topics)), node, "join", topic, float(place - len(topics)), 0)
        for node, topics in rules.subscriptions.items()
        for place, topic in enumerate(topics)
    ]
    order = "order struct<path: string, block: long, line: long>"
    return spark.createDataFrame(
        rows, f"{order}, node string, kind string, group string, pos double, at_us long"
    )


def _with_the_rest(lines: Any) -> Any:
    """The columns that spans say nothing of."""
    figures = dict.fromkeys(("peer", "payload_bytes", "metadata_bytes", "value"), "double")
    nothing = {"late": "boolean", "whole": "boolean", "redelivery": "string", **figures}
    for name, kind in nothing.items():
        lines = lines.withColumn(name, F.lit(None).cast(kind))
    lines = lines.withColumn("instant", F.col("at_us") * 1000)
    for name in ("is_timed", "node_is_text", "group_is_text"):
        lines = lines.withColumn(name, F.lit(True))
    return lines
