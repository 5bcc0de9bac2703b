"""Waiting: how many deliveries were held back for a cause, and for how long."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import Tables


def waiting(tables: Tables) -> Any:
    """Share of deliveries that waited, and mean and longest wait in milliseconds, per run."""
    held = (
        tables.of_kind("hold", "release", "deliver")
        .groupBy("run", "node", "message")
        .agg(
            F.min(F.when(F.col("kind") == "hold", F.col("at_us"))).alias("held_us"),
            F.max(F.when(F.col("kind") != "hold", F.col("at_us"))).alias("freed_us"),
            F.max(F.when(F.col("kind") == "deliver", 1)).alias("delivered"),
        )
    )
    wait = F.when(F.col("held_us").isNotNull(), F.col("freed_us") - F.col("held_us"))
    return held.groupBy("run").agg(
        (F.count("held_us") / F.count("delivered")).alias("held_share"),
        (F.avg(wait) / 1000).alias("wait_mean_ms"),
        (F.max(wait) / 1000).alias("wait_max_ms"),
    )
