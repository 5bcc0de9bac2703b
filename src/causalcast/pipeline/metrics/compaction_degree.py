"""Compaction degree: the share of a vector clock that a message carries.

Entries sent over the slots that a whole vector has: one per node of the run but the publisher,
whose slot travels as the number of its publication. Members of the group alone would not do: causes
come from everybody, and the clock of a broadcast has a slot for each. Compaction is worth it while
the share is below b / (m + b), with b bits per counter and m bits per id (de Juan-Marín et al.,
survey, 2016, section 3.3, where the bound is printed for the number of entries, n b / (m + b)):
half, if both are as long. Needs `send` rows; null where messages carry no clock. Above 1 a message
carries several clocks: of several groups (`cbcast`), or for several nodes (`causal_barriers`).
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def compaction_degree(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean and largest share of the vector that payload messages carried, and mean entries."""
    slots = tables.sizes.select("run", (F.col("nodes") - 1).alias("slots"))
    carries_payload = F.col("payload_bytes") > 0
    with_clock = tables.sends.where(carries_payload & F.col("value").isNotNull())
    share = F.when(F.col("slots") > 0, F.col("value") / F.col("slots"))
    return (
        with_clock.join(F.broadcast(slots), "run")
        .groupBy(*keys)
        .agg(
            F.avg("value").alias("clock_entries_mean"),
            F.avg(share).alias("compaction_degree"),
            F.max(share).alias("compaction_degree_max"),
        )
    )
