"""Throughput: how many publications and deliveries there were, and how many per second.

Rates run from the first publication to the last delivery of whatever is measured. Goodput is the
payload that reached other nodes, per second.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def throughput(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Counts, deliveries per second and goodput."""
    is_delivery = F.col("kind") == "deliver"
    first = F.min(F.when(~is_delivery, F.col("at_us")))
    last = F.max(F.when(is_delivery, F.col("at_us")))
    elsewhere = is_delivery & (F.shiftright("message", 32) != F.col("node"))
    useful = F.sum(F.when(elsewhere, F.col("payload_bytes").cast("long")))
    seconds = F.lit(1.0) if "second" in keys else F.when(last > first, (last - first) / 1e6)
    return (
        tables.of_kind("publish", "deliver")
        .groupBy(*keys)
        .agg(
            F.count(F.when(~is_delivery, 1)).alias("publications"),
            F.count(F.when(is_delivery, 1)).alias("deliveries"),
            (F.count(F.when(is_delivery, 1)) / seconds).alias("deliveries_per_second"),
            (useful / seconds).alias("goodput_bytes_per_second"),
        )
    )


def fastest_origin(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Publications per second of the node that published fastest, from its first to its last."""
    of_origin = tables.publishes.groupBy(*dict.fromkeys((*keys, "node"))).agg(
        (F.count("*") - 1).alias("steps"), (F.max("at_us") - F.min("at_us")).alias("took_us")
    )
    rate = F.when(F.col("took_us") > 0, F.col("steps") * 1e6 / F.col("took_us"))
    return of_origin.groupBy(*keys).agg(F.max(rate).alias("fastest_origin_per_second"))
