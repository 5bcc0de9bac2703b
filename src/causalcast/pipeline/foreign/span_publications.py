"""Publications of spans on Spark: their numbers, and the numbers of what they declare to follow."""

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from causalcast.pipeline.foreign.span_places import Places
from causalcast.trace.foreign_log import ORIGIN_SHIFT

LOG = ("at_ns", "rank", "handling", "message")  # what a node's log is sorted by


def number_publications(rows: Any, places: Any, by_id: bool) -> Any:
    """Publications with `node, topic, id, first_node, again, declared`.

    `places` are `place, node, topic`. Spans are published once. An id of a message may be published
    again: the first of them has the number then, and all of them the same topic.
    """
    rows = rows.join(F.broadcast(places), "place")
    if not by_id:
        said = {"first_node": F.col("node"), "again": F.lit(False), "id": _number()}
        return _with_causes(rows.withColumns(said))
    of_message = Window.partitionBy("message")
    in_time = of_message.orderBy(F.expr("at_ns div 1000"), "node", *LOG)
    rows = (
        rows.withColumn("topic", F.min("topic").over(of_message))
        .withColumn("again", F.row_number().over(in_time) > 1)
        .withColumn("first_node", F.first("node").over(in_time))
    )
    ids = rows.where("not again").select("message", "node", *LOG[:3]).withColumn("id", _number())
    return _with_causes(rows.join(ids.select("message", "id"), "message"))


def _number() -> Any:
    """As our own nodes number their messages: the node, and how many it has published."""
    count = F.row_number().over(Window.partitionBy("node").orderBy(*LOG)).cast("long")
    return F.shiftleft(F.col("node").cast("long"), ORIGIN_SHIFT).bitwiseOR(count)


def _with_causes(rows: Any) -> Any:
    rows = kept(rows)
    named = rows.where("causes is not null and not again").select(
        F.col("id").alias("effect"), F.posexplode("causes").alias("nth", "message")
    )
    ids = rows.where("not again").select("message", F.col("id").alias("cause"))
    in_order = F.sort_array(F.collect_list(F.struct("nth", "cause")))
    declared = (
        named.join(ids, "message")
        .where("cause != effect")
        .groupBy("effect")
        .agg(F.array_distinct(F.transform(in_order, lambda one: one["cause"])).alias("declared"))
    )
    joined = rows.join(declared, (F.col("effect") == F.col("id")) & ~F.col("again"), "left")
    return joined.drop("effect", "causes")


def kept(frame: Any) -> Any:
    """Made once; on disk, so that memory does not grow with it."""
    return frame.persist(StorageLevel.DISK_ONLY)


def places_frame(spark: Any, places: Places) -> Any:
    """`place, node, topic` of those that count."""
    rows = [(place, fact.node, fact.topic) for place, fact in places.facts.items()]
    return spark.createDataFrame(rows, "place string, node int, topic int")
