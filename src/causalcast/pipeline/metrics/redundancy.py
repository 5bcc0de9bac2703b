"""Relative message redundancy: payload messages per delivery at another node, minus one.

RMR = m / (n − 1) − 1 with m payload messages and n nodes that got the broadcast (Leitão et al.,
Plumtree, 2007): 0 is perfect, 1 means that every message arrives twice. Of a node: the copies that
were sent to it. Of a second: of what was published in it. Needs a trace that has `send` rows (level
`messages` or `full`); null otherwise.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def redundancy(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Redundancy of all broadcasts together."""
    carries_payload = F.col("message").isNotNull() & (F.col("payload_bytes") > 0)
    elsewhere, copies = tables.deliveries.where(~F.col("own")), tables.sends.where(carries_payload)
    if "second" in keys:
        elsewhere, copies = tables.at_publication(elsewhere), tables.at_publication(copies)
    copies = copies.withColumn("node", F.col("peer"))
    received = elsewhere.groupBy(*keys).agg(F.count("*").alias("got"))
    sent = copies.groupBy(*keys).agg(F.count("*").alias("sent"))
    return received.join(sent, list(keys), "left").select(
        *keys, (F.col("sent") / F.col("got") - 1).alias("redundancy")
    )
