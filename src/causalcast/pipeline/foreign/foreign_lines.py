"""Foreign logs as a DataFrame of checked lines: JSON text in, typed columns out."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.trace.foreign_line import (
    BELONGS_TO,
    HEADER,
    ONLY_GROUP,
    WRONG_ATTEMPT,
    WRONG_CAUSES,
    misplaced,
)
from causalcast.trace.kinds import KINDS
from causalcast.trace.run_header import REDELIVERY

LINE = (
    "node string, kind string, message string, group string, pos double, time double,"
    " at_us double, at_ns long, tied boolean, late boolean, peer double, payload_bytes double,"
    " metadata_bytes double, value double, note string, key string, causes array<string>,"
    " share string, attempt double, whole boolean, redelivery string, broken string"
)
FIGURES = {
    "peer": "int", "payload_bytes": "int", "metadata_bytes": "int", "value": "long",
}  # fmt: skip


TOLD = 100  # torn ends that are told one by one


def parse_lines(lines: Any) -> tuple[Any, list[str]]:
    """One row per event or header line, or a `TraceError` that names the first that is none.

    A torn last line is no event and no error; those are told.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"}
    parsed = (
        lines.where(F.trim("text") != "")
        .withColumn("event", F.from_json("text", LINE, options))
        .withColumn("node_is_text", F.col("text").rlike(r'"node"\s*:\s*"'))
        .withColumn("group_is_text", ~F.col("text").rlike(r'"group"\s*:\s*\d'))
        .select("order", "torn", "node_is_text", "group_is_text", "event.*")
    )
    wrong = parsed.withColumn("complaint", _complaint()).where("complaint is not null or torn")
    found = wrong.select("order", "torn", "complaint").orderBy("torn", "order").limit(TOLD)
    left_out = []
    for row in found.collect():
        if not row["torn"]:
            raise line_error(lines, row["order"], row["complaint"])
        left_out.append(f"{_name(row['order'])}: the last line is torn: no JSON, and no end")
    return _typed(parsed.where("not torn").drop("torn")), left_out


def parse_table(frame: Any, name: str) -> Any:
    """The same of a table that has some of the columns of a line; `name` is what it is called."""
    types = {field.split()[0]: " ".join(field.split()[1:]) for field in LINE.split(", ")}
    there = dict(frame.dtypes)
    columns = [
        F.col(key).cast(kind).alias(key) if key in there else F.lit(None).cast(kind).alias(key)
        for key, kind in types.items()
    ]
    place = F.struct(
        F.lit(name).alias("path"), F.lit(0).cast("long").alias("block"),
        F.monotonically_increasing_id().alias("line"),
    )  # fmt: skip
    parsed = frame.select(
        place.alias("order"),
        F.lit(there.get("node") == "string").alias("node_is_text"),
        F.lit(there.get("group", "string") == "string").alias("group_is_text"),
        *columns,
    ).cache()
    wrong = parsed.withColumn("complaint", _complaint()).where("complaint is not null")
    for row in wrong.limit(1).collect():
        raise line_error(None, row["order"], row["complaint"])
    return _typed(parsed)


def _typed(parsed: Any) -> Any:
    """Checked rows with a group where one is meant, and times in one unit."""
    has_group = F.col("kind").isin("publish", "deliver", "join")
    in_us = F.floor(F.col("at_ns") / 1000)
    at_us = F.coalesce(in_us, "at_us", F.round(F.col("time") * 1e6), "pos").cast("long")
    micros, seconds = F.floor("at_us").cast("long") * 1000, F.round(F.col("time") * 1e9)
    return (
        parsed.withColumn("group", F.when(has_group, F.coalesce("group", F.lit(ONLY_GROUP)))
                          .otherwise(F.col("group")))
        .withColumn("instant", F.coalesce("at_ns", micros, seconds.cast("long")))
        .withColumn("is_timed", F.col("instant").isNotNull())
        .withColumn("at_us", at_us)
        .drop("broken", "time", "at_ns")
    )  # fmt: skip


def _complaint() -> Any:
    about_messages = F.col("kind").isin("publish", "deliver")
    no_order = F.coalesce("pos", "time", "at_us", "at_ns").isNull()
    wrong_attempt = (F.col("attempt") < 1) | (F.col("attempt") != F.floor("attempt"))
    complaint = (
        F.when(F.col("broken").isNotNull(), F.lit("not JSON, or a value of the wrong type"))
        .when(
            (F.col("kind") == HEADER) & ~F.col("redelivery").isin(*REDELIVERY),
            F.lit(f"'redelivery' must be one of {', '.join(REDELIVERY)}"),
        )
        .when(F.col("kind") == HEADER, F.lit(None))
        .when(F.col("node").isNull(), F.lit("'node' is missing"))
        .when(F.col("kind").isNull(), F.lit("'kind' is missing"))
        .when(~F.col("kind").isin(*KINDS), F.concat(F.lit("unknown kind '"), "kind", F.lit("'")))
        .when(
            about_messages & F.col("message").isNull(),
            F.concat(F.lit("a "), "kind", F.lit(" without 'message'")),
        )
        .when(no_order, F.lit("neither 'pos' nor 'time'"))
        .when(wrong_attempt, F.lit(WRONG_ATTEMPT))
        .when(F.exists("causes", lambda cause: cause.isNull()), F.lit(WRONG_CAUSES))
    )
    for key, kinds in BELONGS_TO.items():
        of_kinds = F.col("kind").isin(*kinds)
        words = F.concat(F.lit(misplaced(key, "")), "kind")
        complaint = complaint.when(F.col(key).isNotNull() & ~of_kinds, words)
    return complaint


def line_error(lines: Any, order: Any, what: str) -> TraceError:
    """A complaint about the line at `order`; lines are counted only now that one is wrong."""
    if lines is None:  # rows of a table have no numbers
        return TraceError(f"{_name(order)}: {what}")
    here = F.col("order")
    before = lines.where(
        (here["path"] == order["path"])
        & ((here["block"] < order["block"])
           | ((here["block"] == order["block"]) & (here["line"] < order["line"])))
    )  # fmt: skip
    return TraceError(f"{_name(order)}: line {before.count() + 1}: {what}")


def _name(order: Any) -> str:
    path: str = order["path"]
    return path.removeprefix("file://")
