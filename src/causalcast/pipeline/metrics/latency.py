"""Latency: from publishing a message to delivering it at another node, in milliseconds."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables

PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}


def delays(tables: Tables) -> Any:
    """One row per delivery at another node: keys, `message, at_us, published_us, delay_us`."""
    published = tables.publishes.select("run", "message", F.col("at_us").alias("published_us"))
    return (
        tables.deliveries.where(~F.col("own"))
        # Publications are few beside deliveries: sent to every task, so nothing is shuffled.
        .join(F.broadcast(published), ["run", "message"])
        .withColumn("delay_us", F.col("at_us") - F.col("published_us"))
        .select("run", "group", "node", "second", "message", "at_us", "published_us", "delay_us")
    )


def latency(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean, percentiles and maximum."""
    percentiles = [
        (F.percentile_approx("delay_us", share, 10_000) / 1000).alias(name)
        for name, share in PERCENTILES.items()
    ]
    return (
        delays(tables)
        .groupBy(*keys)
        .agg(
            (F.avg("delay_us") / 1000).alias("latency_mean_ms"),
            *percentiles,
            (F.max("delay_us") / 1000).alias("latency_max_ms"),
        )
    )
