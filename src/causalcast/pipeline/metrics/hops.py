"""Hops: how many links a message crossed before it was delivered, where the trace says so."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import Tables


def hops(tables: Tables) -> Any:
    """Mean and largest number of hops of deliveries at other nodes, per run."""
    elsewhere = tables.deliveries.where(~F.col("own"))
    return elsewhere.groupBy("run").agg(
        F.avg("value").alias("hops_mean"), F.max("value").alias("hops_max")
    )
