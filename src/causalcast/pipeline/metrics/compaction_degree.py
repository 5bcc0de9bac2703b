"""Compaction degree: the share of a vector clock that a message carries.

Entries sent over the slots that a whole vector has: one per member of the group but the publisher,
whose slot travels as the number of its publication. Compaction is worth it while the share is below
b / (m + b), with b bits per counter and m bits per id (de Juan-Marín et al., survey, 2016, section
3.3, where the bound is printed for the number of entries, n b / (m + b)): half, if both are as
long. Needs `send` rows; null where messages carry no clock. Above 1 a message carries the clocks of
several groups.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import BY_RUN, Keys, Tables


def compaction_degree(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean and largest share of the vector that payload messages carried, and mean entries."""
    members = tables.members.select("run", "group", "node").distinct()
    slots = members.groupBy("run", "group").agg((F.count("*") - 1).alias("slots"))
    carries_payload = F.col("payload_bytes") > 0
    with_clock = tables.sends.where(carries_payload & F.col("value").isNotNull())
    share = F.when(F.col("slots") > 0, F.col("value") / F.col("slots"))
    return (
        with_clock.join(F.broadcast(slots), ["run", "group"])
        .groupBy(*keys)
        .agg(
            F.avg("value").alias("clock_entries_mean"),
            F.avg(share).alias("compaction_degree"),
            F.max(share).alias("compaction_degree_max"),
        )
    )
