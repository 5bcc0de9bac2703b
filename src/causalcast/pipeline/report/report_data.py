"""The figures of a report, aggregated by Spark into tables small enough to draw."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.metrics.latency import delays
from causalcast.pipeline.metrics.waiting import waited_for
from causalcast.pipeline.report.report_figures import (
    BUCKETS_PER_OCTAVE,
    TIME_BUCKETS,
    Change,
    Figures,
    NodeRow,
)
from causalcast.pipeline.spark.tables import Tables


def figures(tables: Tables, runs: int) -> list[Figures]:
    """The figures of each run."""
    result = [Figures() for _ in range(runs)]
    bounds = tables.events.groupBy("run").agg(F.min("at_us").alias("a"), F.max("at_us").alias("b"))
    bounds = bounds.cache()
    for row in bounds.collect():
        result[row["run"]].first_us, result[row["run"]].last_us = row["a"], row["b"]
    for row in _latency(tables).collect():
        result[row["run"]].latency.append((row["bucket"], row["count"]))
    for row in _over_time(tables, bounds).collect():
        counts = (row["bucket"], row["published"], row["delivered"])
        result[row["run"]].over_time.append(counts)
    for row in _nodes(tables).collect():
        result[row["run"]].nodes.append(NodeRow(*row[1:]))
    changes = tables.changes.select("run", "node", "pos", "at_us", "kind").collect()
    for row in sorted(changes):  # in the order of each log: two may have the same time
        result[row["run"]].changes.append(Change(row["node"], row["at_us"], row["kind"]))
    for row in waited_for(tables).collect():
        result[row["run"]].waited_for.append((row["origin"], row["times"]))
    for one in result:
        one.sort()
    return result


def _latency(tables: Tables) -> Any:
    octave = F.log2(F.greatest(F.col("delay_us"), F.lit(1)))
    bucket = F.floor(octave * BUCKETS_PER_OCTAVE).cast("int").alias("bucket")
    return delays(tables).groupBy("run", bucket).count()


def _over_time(tables: Tables, bounds: Any) -> Any:
    length = F.greatest(F.col("b") - F.col("a"), F.lit(1))
    place = F.floor((F.col("at_us") - F.col("a")) * TIME_BUCKETS / length)
    bucket = F.least(place, F.lit(TIME_BUCKETS - 1)).cast("int").alias("bucket")
    return (
        tables.of_kind("publish", "deliver")
        .join(F.broadcast(bounds), "run")
        .groupBy("run", bucket)
        .agg(_count("publish").alias("published"), _count("deliver").alias("delivered"))
    )


def _nodes(tables: Tables) -> Any:
    counted = tables.events.groupBy("run", "node").agg(
        *(_count(kind).alias(kind) for kind in ("publish", "deliver", "duplicate")),
        # A message may be held again after a restart; people ask how many messages waited.
        F.count_distinct(F.when(F.col("kind") == "hold", F.col("message"))).alias("hold"),
    )
    middle = (F.percentile_approx("delay_us", 0.5, 1000) / 1000).alias("p50")
    return counted.join(
        delays(tables).groupBy("run", "node").agg(middle), ["run", "node"], "left"
    ).select("run", "node", "publish", "deliver", "duplicate", "hold", "p50")


def _count(kind: str) -> Any:
    return F.count(F.when(F.col("kind") == kind, 1))
