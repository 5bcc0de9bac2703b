"""Foreign logs as a DataFrame of checked lines: JSON text in, typed columns out."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.trace.foreign_log import ONLY_GROUP
from causalcast.trace.schema import KINDS

LINE = (
    "node string, kind string, message string, group string, pos double, time double,"
    " at_us double, late boolean, peer double, payload_bytes double, metadata_bytes double,"
    " value double, note string, broken string"
)
FIGURES = {
    "peer": "int", "payload_bytes": "int", "metadata_bytes": "int", "value": "long",
}  # fmt: skip


TOLD = 100  # torn ends that are told one by one


def parse_lines(lines: Any) -> tuple[Any, list[str]]:
    """One row per event, or a `TraceError` that names the first line that is none.

    A torn last line is no event and no error; those are told.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"}
    parsed = (
        lines.where(F.trim("text") != "")
        .withColumn("event", F.from_json("text", LINE, options))
        .select("text", "order", "torn", "event.*")
    )
    wrong = parsed.withColumn("complaint", _complaint()).where("complaint is not null or torn")
    found = wrong.select("order", "torn", "complaint").orderBy("torn", "order").limit(TOLD)
    left_out = []
    for row in found.collect():
        if not row["torn"]:
            raise line_error(lines, row["order"], row["complaint"])
        left_out.append(f"{_name(row['order'])}: the last line is torn: no JSON, and no end")
    has_group = F.col("kind").isin("publish", "deliver", "join")
    at_us = F.coalesce("at_us", F.round(F.col("time") * 1e6), "pos").cast("long")
    rows = (
        parsed.where("not torn")
        .withColumn("group", F.when(has_group, F.coalesce("group", F.lit(ONLY_GROUP)))
                          .otherwise(F.col("group")))
        .withColumn("is_timed", F.coalesce("at_us", "time").isNotNull())
        .withColumn("at_us", at_us)
        .withColumn("node_is_text", F.col("text").rlike(r'"node"\s*:\s*"'))
        .withColumn("group_is_text", ~F.col("text").rlike(r'"group"\s*:\s*\d'))
        .drop("text", "torn", "broken", "time")
    )  # fmt: skip
    return rows, left_out


def _complaint() -> Any:
    about_messages = F.col("kind").isin("publish", "deliver")
    no_order = F.coalesce("pos", "time", "at_us").isNull()
    return (
        F.when(F.col("broken").isNotNull(), F.lit("not JSON, or a value of the wrong type"))
        .when(F.col("node").isNull(), F.lit("'node' is missing"))
        .when(F.col("kind").isNull(), F.lit("'kind' is missing"))
        .when(~F.col("kind").isin(*KINDS), F.concat(F.lit("unknown kind '"), "kind", F.lit("'")))
        .when(
            about_messages & F.col("message").isNull(),
            F.concat(F.lit("a "), "kind", F.lit(" without 'message'")),
        )
        .when(no_order, F.lit("neither 'pos' nor 'time'"))
    )


def line_error(lines: Any, order: Any, what: str) -> TraceError:
    """A complaint about the line at `order`; lines are counted only now that one is wrong."""
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
