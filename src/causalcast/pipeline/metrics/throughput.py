"""Throughput: how many publications and deliveries there were, and how many per second."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import Tables


def throughput(tables: Tables) -> Any:
    """Counts per run, and deliveries per second from the first publication to the last delivery."""
    of_messages = tables.of_kind("publish", "deliver")
    is_delivery = F.col("kind") == "deliver"
    first = F.min(F.when(~is_delivery, F.col("at_us")))
    last = F.max(F.when(is_delivery, F.col("at_us")))
    seconds = F.when(last > first, (last - first) / 1e6)
    return of_messages.groupBy("run").agg(
        F.count(F.when(~is_delivery, 1)).alias("publications"),
        F.count(F.when(is_delivery, 1)).alias("deliveries"),
        (F.count(F.when(is_delivery, 1)) / seconds).alias("deliveries_per_second"),
    )
