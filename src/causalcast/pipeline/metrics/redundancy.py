"""Relative message redundancy: payload messages per delivery at another node, minus one.

RMR = m / (n − 1) − 1 with m payload messages and n nodes that got the broadcast (Leitão et al.,
Plumtree, 2007): 0 is perfect, 1 means that every message arrives twice. Needs a trace that has
`send` rows (level `messages` or `full`); null otherwise.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import Tables


def redundancy(tables: Tables) -> Any:
    """Redundancy of all broadcasts of a run together."""
    received = tables.deliveries.where(~F.col("own")).groupBy("run").agg(F.count("*").alias("got"))
    carries_payload = F.col("message").isNotNull() & (F.col("payload_bytes") > 0)
    sent = tables.sends.where(carries_payload).groupBy("run").agg(F.count("*").alias("sent"))
    return received.join(sent, "run", "left").select(
        "run", (F.col("sent") / F.col("got") - 1).alias("redundancy")
    )
