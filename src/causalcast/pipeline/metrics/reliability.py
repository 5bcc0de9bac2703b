"""Reliability: the share of active members that delivered a broadcast, its origin left out.

Active are founding members that are up at the end and never left; what a late member is owed is a
matter for `verify`.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.tables import BY_RUN, Keys, Tables


def reliability(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Deliveries at active members for each one that was to be, over all publications."""
    active = _active(tables)
    sizes = active.groupBy("run", "group").agg(F.count("*").alias("members"))
    origin = F.shiftright("message", 32).cast("int").alias("origin")
    is_member = active.select("run", "group", F.col("node").alias("origin"), F.lit(1).alias("one"))
    wanted = (
        tables.publishes.select("run", "group", origin)
        .join(F.broadcast(sizes), ["run", "group"])
        .join(F.broadcast(is_member), ["run", "group", "origin"], "left")
        .groupBy(*keys)
        .agg(F.sum(F.col("members") - F.coalesce("one", F.lit(0))).alias("wanted"))
    )
    got = (
        tables.deliveries.where(~F.col("own"))
        .join(F.broadcast(active), ["run", "group", "node"])
        .groupBy(*keys)
        .agg(F.count("*").alias("got"))
    )
    share = F.least(F.coalesce("got", F.lit(0)) / F.col("wanted"), F.lit(1.0))
    return wanted.join(got, list(keys), "left").select(
        *keys, F.when(F.col("wanted") > 0, share).alias("reliability")
    )


def _active(tables: Tables) -> Any:
    """`run, group, node` of founding members that are there, and up, at the end."""
    changes = tables.changes
    down = (
        changes.where(F.col("kind").isin("crash", "recover"))
        .groupBy("run", "node")
        .agg(F.max_by("kind", "pos").alias("last"))
        .where(F.col("last") == "crash")
    )
    joined = changes.where((F.col("kind") == "join") & (F.col("pos") == 0)).select("run", "node")
    founding = tables.members.where("from_pos = 0 and to_pos is null").select(
        "run", "group", "node"
    )
    return founding.join(down, ["run", "node"], "left_anti").join(
        joined, ["run", "node"], "left_anti"
    )
