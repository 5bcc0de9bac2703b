"""Metadata: everything on the wire that is not payload, per payload message and in all."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def metadata_size(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean and largest metadata of a payload message, and all bytes sent."""
    with_payload = F.when(F.col("payload_bytes") > 0, F.col("metadata_bytes"))
    payload = F.coalesce(F.col("payload_bytes"), F.lit(0)).cast("long")
    metadata = F.coalesce(F.col("metadata_bytes"), F.lit(0)).cast("long")
    return tables.sends.groupBy(*keys).agg(
        F.avg(with_payload).alias("metadata_mean_bytes"),
        F.max(with_payload).alias("metadata_max_bytes"),
        F.sum(payload).alias("payload_sent_bytes"),
        F.sum(metadata).alias("metadata_sent_bytes"),
    )
