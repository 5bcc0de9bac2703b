"""Hops: how many links a message crossed before it was delivered, where the trace says so."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def hops(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean and largest number of hops of deliveries at other nodes."""
    elsewhere = tables.deliveries.where(~F.col("own"))
    return elsewhere.groupBy(*keys).agg(
        F.avg("value").alias("hops_mean"), F.max("value").alias("hops_max")
    )
