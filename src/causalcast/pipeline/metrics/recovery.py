"""Recovery time: how long after a restart a node is still delivering what it had missed.

From a `recover` row to the node's last delivery, in that life, of a message that was published
before the row; 0 where it had missed nothing.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.metrics.latency import delays
from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def recovery(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """How often nodes came back, and mean and longest time until they had caught up."""
    changes = tables.of_kind("crash", "recover")
    lives = (
        changes.where(F.col("kind") == "recover")
        .select("run", "node", "second", F.col("pos").alias("since"), "at_us")
        .withColumnRenamed("at_us", "back_us")
    )
    ends = changes.where(F.col("kind") == "crash").select("run", "node", "at_us")
    ends = ends.withColumnRenamed("at_us", "crash_us")
    # Restarts are few: all of this is small, but for the one scan of deliveries.
    lives = (
        lives.join(ends, ["run", "node"], "left")
        .groupBy("run", "node", "second", "since", "back_us")
        .agg(F.min(F.when(F.col("crash_us") > F.col("back_us"), F.col("crash_us"))).alias("until"))
    )
    late = delays(tables).select("run", "node", "at_us", "published_us")
    same_life = (F.col("at_us") >= F.col("back_us")) & (
        F.col("until").isNull() | (F.col("at_us") <= F.col("until"))
    )
    missed = (
        late.join(F.broadcast(lives), ["run", "node"])
        .where(same_life & (F.col("published_us") < F.col("back_us")))
        .groupBy("run", "node", "since")
        .agg(F.max("at_us").alias("caught_up_us"))
    )
    took = F.coalesce(F.col("caught_up_us") - F.col("back_us"), F.lit(0)) / 1000
    return (
        lives.join(missed, ["run", "node", "since"], "left")
        .groupBy(*keys)
        .agg(
            F.count("*").alias("recoveries"),
            F.avg(took).alias("recovery_mean_ms"),
            F.max(took).alias("recovery_max_ms"),
        )
    )
