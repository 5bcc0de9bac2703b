"""Numbers for the messages of foreign logs on Spark, as `trace.foreign_log` gives them.

A publication is a message in a group. The same id again in the same group is a retry, in another
group another publication. What nobody published gets a number that nobody has.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from causalcast.pipeline.foreign.foreign_lines import line_error
from causalcast.trace.foreign_log import ORIGIN_SHIFT, UNKNOWN_FROM

LOG = ("place", "order")  # what a node's log is sorted by


@dataclass
class Numbered:
    """Rows with `id` (a publication's), `other` (else), `again`, `declared` causes, `new_pos`."""

    rows: Any
    has_retries: bool
    has_causes: bool


def number_messages(lines: Any, rows: Any, whole: bool) -> Numbered:
    """Positions counted, messages numbered, causes found; a message published twice is refused."""
    log = Window.partitionBy("node_number").orderBy(*LOG)
    rows = rows.withColumn("new_pos", (F.row_number().over(log) - 1).cast("long"))
    of_message = Window.partitionBy("message", "group_number").orderBy("at_us", "order")
    published = (
        rows.where("kind = 'publish'")
        .withColumn("nth", F.row_number().over(of_message))
        .withColumn("first_node", F.first("node_number").over(of_message))
    )
    again = published.where("nth > 1")
    has_retries = bool(again.limit(1).collect())
    if has_retries:
        _refuse_strangers(lines, rows, again, whole)
        repeats = again.select("order", F.lit(True).alias("again"))
        rows = rows.join(repeats, "order", "left")
    else:
        rows = rows.withColumn("again", F.lit(None).cast("boolean"))
    count = F.row_number().over(log).cast("long")
    number = F.shiftleft(F.col("node_number").cast("long"), ORIGIN_SHIFT).bitwiseOR(count)
    ids = published.where("nth = 1").withColumn("id", number)
    known = rows.join(
        ids.select("message", "group_number", "id"), ["message", "group_number"], "left"
    )
    known = known.join(_others(known, ids), "message", "left")
    causes = _declared(known, ids)
    if causes is None:
        known = known.withColumn("declared", F.lit(None).cast("array<long>"))
    else:
        known = known.join(causes, "order", "left")
    return Numbered(known, has_retries, causes is not None)


def _refuse_strangers(lines: Any, rows: Any, again: Any, whole: bool) -> None:
    """Who publishes another's message again must have delivered it, in a log that is whole."""
    if not whole:
        return
    strange = again.where("node_number != first_node").alias("a")
    delivered = rows.where("kind = 'deliver'").alias("d")
    before = (
        (F.col("d.node_number") == F.col("a.node_number"))
        & (F.col("d.message") == F.col("a.message"))
        & (F.struct("d.place", "d.order") < F.struct("a.place", "a.order"))
    )
    wrong = strange.join(delivered, before, "left_anti").orderBy("order").limit(1).collect()
    if wrong:
        what = f"message {wrong[0]['message']!r} is published twice"
        raise line_error(lines, wrong[0]["order"], what)


def _others(known: Any, ids: Any) -> Any:
    """Messages that were not published to the group they are spoken of in: `message, other`.

    Published elsewhere: that publication. By nobody: a number that nobody has; a name that looks
    like the number of a node's message keeps it, if there is none of that number.
    """
    first = F.min(F.struct("node_number", "new_pos")).alias("first")
    unresolved = known.where("message is not null and id is null").groupBy("message").agg(first)
    elsewhere = ids.groupBy("message").agg(F.min("id").alias("other"))
    of_another_group = unresolved.join(elsewhere, "message").select(
        "message", "other", F.lit(False).alias("ghost")
    )
    counts = known.groupBy("node_number").agg(
        F.count(F.when(F.col("id").isNotNull() & (F.col("kind") == "publish"), 1)).alias("count")
    )
    counts = counts.withColumnRenamed("node_number", "origin")
    part = "try_cast(regexp_extract(message, '^([0-9]+)[.]([0-9]+)$', {}) as bigint)"
    ghosts = (
        unresolved.join(elsewhere, "message", "left_anti")
        .withColumn("origin", F.expr(part.format(1)))
        .withColumn("number", F.expr(part.format(2)))
        .join(F.broadcast(counts), "origin", "left")
        .withColumn("plain", (F.col("number") > F.col("count")) & (F.col("number") < UNKNOWN_FROM))
        .withColumn("plain", F.coalesce("plain", F.lit(False)))
    )
    counted = F.row_number().over(Window.partitionBy("plain").orderBy("first")).cast("long")
    node = F.shiftleft(F.col("first.node_number").cast("long"), ORIGIN_SHIFT)
    named = F.shiftleft(F.col("origin"), ORIGIN_SHIFT).bitwiseOR(F.col("number"))
    other = F.when(F.col("plain"), named).otherwise(node.bitwiseOR(counted + UNKNOWN_FROM))
    return of_another_group.union(
        ghosts.select("message", other.alias("other"), F.lit(True).alias("ghost"))
    )


def _declared(known: Any, ids: Any) -> Any | None:
    """`order, declared`: what publications declare to follow; none if none declares anything."""
    named = F.posexplode("causes").alias("nth", "name")
    declared = ids.where("causes is not null").select("order", "place", "node_number", "id", named)
    several = ids.groupBy("message").agg(F.sort_array(F.collect_list("id")).alias("ids"))
    dead_letters = several.where("size(ids) > 1")
    has_letters = bool(dead_letters.limit(1).collect())
    if not has_letters and not declared.limit(1).collect():
        return None
    found = declared.join(several.withColumnRenamed("message", "name"), "name")
    if has_letters:
        found = _with_letters(known, ids, found, dead_letters)
    else:
        found = found.withColumn("cause", F.col("ids")[0])
    in_order = F.sort_array(F.collect_list(F.struct("nth", "cause")))
    return (
        found.where("cause is not null and cause != id")
        .groupBy("order")
        .agg(F.array_distinct(F.transform(in_order, lambda one: one["cause"])).alias("declared"))
    )


def _with_letters(known: Any, ids: Any, declared: Any, dead_letters: Any) -> Any:
    """Where several publications have a name, the one that came here last is meant; and who passes
    on what it delivered under the same name declares that."""
    letters = ids.join(dead_letters, "message").select(
        F.col("message").alias("name"), "order", "place", "node_number", "id",
        F.lit(-1).alias("nth"), "ids",
    )  # fmt: skip
    wanted = declared.unionByName(letters)
    came = known.where("kind = 'deliver'").join(dead_letters.select("message"), "message").select(
        F.col("message").alias("name"), "node_number", F.coalesce("id", "other").alias("came"),
        F.struct("place", "order").alias("at"),
    )  # fmt: skip
    earlier = wanted.select("order", "name", "nth", "node_number", "place").join(
        came, ["name", "node_number"]
    )
    earlier = earlier.where(F.col("at") < F.struct("place", "order"))
    last = earlier.groupBy("order", "name", "nth").agg(F.max_by("came", "at").alias("came"))
    joined = wanted.join(last, ["order", "name", "nth"], "left")
    others = F.filter("ids", lambda one: one != F.col("id"))
    came_here = F.when(F.col("came") != F.col("id"), F.col("came"))
    if_none_came = F.when((F.col("nth") >= 0) & (F.size(others) > 0), F.get(others, F.lit(0)))
    return joined.withColumn("cause", F.coalesce(came_here, if_none_came))
