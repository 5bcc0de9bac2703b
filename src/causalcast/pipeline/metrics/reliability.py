"""Reliability: the share of active members that delivered a broadcast, its origin left out.

Of a node: the share of what it should have got. Of a second: of what was published in it.
Active are founding members that are up at the end and never left; what a late member is owed is a
matter for `verify`.
"""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.spark.tables import BY_RUN, Keys, Tables


def reliability(tables: Tables, keys: Keys = BY_RUN) -> Any:
    """Deliveries at active members for each one that was to be, over all publications."""
    active = _active(tables)
    wanted = _wanted_by_node(tables, active) if "node" in keys else _wanted(tables, active, keys)
    elsewhere = tables.deliveries.where(~F.col("own"))
    got = (
        tables.at_publication(elsewhere)
        .join(F.broadcast(active), ["run", "group", "node"])
        .groupBy(*keys)
        .agg(F.count("*").alias("got"))
    )
    share = F.least(F.coalesce("got", F.lit(0)) / F.col("wanted"), F.lit(1.0))
    return wanted.join(got, list(keys), "left").select(
        *keys, F.when(F.col("wanted") > 0, share).alias("reliability")
    )


def _wanted(tables: Tables, active: Any, keys: Keys) -> Any:
    """How many deliveries there should have been."""
    sizes = active.groupBy("run", "group").agg(F.count("*").alias("members"))
    is_member = active.select("run", "group", "node", F.lit(1).alias("one"))
    return (
        tables.publishes.select("run", "group", "node", "second")
        .join(F.broadcast(sizes), ["run", "group"])
        .join(F.broadcast(is_member), ["run", "group", "node"], "left")
        .groupBy(*keys)
        .agg(F.sum(F.col("members") - F.coalesce("one", F.lit(0))).alias("wanted"))
    )


def _wanted_by_node(tables: Tables, active: Any) -> Any:
    """All that others published to the groups of a node."""
    published = tables.publishes.groupBy("run", "group").agg(F.count("*").alias("all"))
    own = tables.publishes.groupBy("run", "group", "node").agg(F.count("*").alias("own"))
    others = F.col("all") - F.coalesce("own", F.lit(0))
    return (
        active.join(published, ["run", "group"])
        .join(own, ["run", "group", "node"], "left")
        .groupBy("run", "node")
        .agg(F.sum(others).alias("wanted"))
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
