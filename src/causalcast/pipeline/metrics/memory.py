"""Memory: how much a node keeps, as far as the trace says (`note state`, level `full`)."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def memory(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Mean and largest state of a node; the unit is the trace's: entries in simulations."""
    state = tables.of_kind("note").where(F.col("note") == "state")
    return state.groupBy(*keys).agg(
        F.avg("value").alias("state_mean"), F.max("value").alias("state_max")
    )
