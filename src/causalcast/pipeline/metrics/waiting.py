"""Waiting: how many deliveries were held back for a cause, how long, and for whose messages."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def _held(tables: Tables, keys: Keys) -> Any:
    """One row per message that a node held: when it was first held, and last released.

    Only rows of holding are shuffled; deliveries, which are many more, are not.
    """
    rows = tables.of_kind("hold", "release")
    if "group" in keys:  # which a hold does not name
        rows = tables.at_publication(rows)
    return (
        rows.groupBy(
            *dict.fromkeys((*(k for k in keys if k != "second"), "run", "node", "message"))
        )
        .agg(
            F.min(F.when(F.col("kind") == "hold", F.col("at_us"))).alias("held_us"),
            F.max(F.when(F.col("kind") == "release", F.col("at_us"))).alias("freed_us"),
            F.min("second").alias("second"),
        )
        .where(F.col("held_us").isNotNull())
    )


def waiting(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Held messages for each delivery, and mean and longest wait in milliseconds."""
    wait = F.col("freed_us") - F.col("held_us")
    held = (
        _held(tables, keys)
        .groupBy(*keys)
        .agg(
            F.count("freed_us").alias("held"),
            (F.avg(wait) / 1000).alias("wait_mean_ms"),
            (F.max(wait) / 1000).alias("wait_max_ms"),
        )
    )
    delivered = tables.deliveries.groupBy(*keys).agg(F.count("*").alias("delivered"))
    share = F.coalesce("held", F.lit(0)) / F.col("delivered")
    return delivered.join(held, list(keys), "left").select(
        *keys, share.alias("held_share"), "wait_mean_ms", "wait_max_ms"
    )


def waited_for(tables: Tables) -> Any:
    """Whose messages others waited for: `run, origin, times`, a row per origin."""
    origin = F.shiftright("value", 32).cast("int").alias("origin")
    holds = tables.of_kind("hold").where(F.col("value").isNotNull())
    return holds.groupBy("run", origin).agg(F.count("*").alias("times"))
