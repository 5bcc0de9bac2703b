"""Makes a run of foreign logs of any size on Spark, as `trace.foreign_log` does of small ones.

Names become numbers: nodes and groups, which are few, on the driver; messages, which are many, by a
join. Only what is small is collected: names, joins and leaves, and messages that nobody published.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.pipeline.foreign.foreign_ids import LOG, Numbered, number_messages
from causalcast.pipeline.foreign.foreign_lines import FIGURES, line_error, parse_lines
from causalcast.pipeline.foreign.imported_run import (
    ForeignLog,
    Members,
    Names,
    Shares,
    refuse_existing,
    shares_of,
    small_tables,
    write_events,
)
from causalcast.pipeline.foreign.log_lines import read_lines
from causalcast.pipeline.logs.places import Place
from causalcast.trace.foreign_line import HEADER
from causalcast.trace.foreign_log import (
    NAMES_TOLD,
    ORIGIN_SHIFT,
    PUBLISHED_AGAIN,
    REPEATS,
    RETRIES,
    signs_in_words,
)
from causalcast.trace.log_files import title_of
from causalcast.trace.run_folder import ROWS_PER_FILE
from causalcast.trace.schema import EVENTS, FOREIGN_EVENTS

ORDER = "struct<path: string, block: long, line: long>"


def import_logs(
    spark: Any,
    paths: Sequence[Place],
    out: Place,
    redelivery: str | None = None,
    whole: bool | None = None,
) -> dict[str, Any]:
    """Write the run that the logs describe; how many events, nodes and groups it has, and what was
    found out about it."""
    refuse_existing(spark, out)
    lines = read_lines(spark, paths)
    try:
        rows, left_out = parse_lines(lines)
        title = title_of(paths[0].name)
        found = import_parsed(spark, lines, rows.cache(), out, title, redelivery, whole)
        return {**found, "left_out": left_out}
    finally:
        spark.catalog.clearCache()


def import_parsed(
    spark: Any, lines: Any, parsed: Any, out: Place, title: str, redelivery: str | None,
    whole: bool | None,
) -> dict[str, Any]:  # fmt: skip
    """The same of checked rows, as `parse_lines` gives them."""
    said = parsed.where(F.col("kind") == HEADER).select("whole", "redelivery", "order").collect()
    if whole is None and any(row["whole"] is not None for row in said):
        whole = all(row["whole"] for row in said if row["whole"] is not None)
    if redelivery is None:
        each = [row["redelivery"] for row in sorted(said, key=lambda row: tuple(row["order"]))]
        redelivery = next((one for one in each if one is not None), None)
    if said:
        parsed = parsed.where(F.col("kind") != HEADER)
    nodes = _numbered(parsed, "node")
    groups = _numbered(parsed.where("group is not null"), "group")
    if not nodes:
        raise TraceError(f"{title}: no events")
    ordered = _in_log_order(spark, lines, parsed, nodes, groups)
    found_out = [] if whole is not None else _signs_of_missing_rows(ordered)
    whole = not found_out if whole is None else whole
    shares = _shares(ordered, nodes, groups)
    kept, founders = _without_founding_joins(spark, ordered)
    numbered = number_messages(lines, kept, whole)
    if redelivery is None:
        redelivery = _redelivery(numbered, whole, found_out)
    events = _with_what_is_said(_in_columns(numbered).cache())
    members = _memberships(events, founders, groups, nodes, shares, whole)
    by_time = bool(ordered.where("not by_pos").limit(1).collect())
    timed = not ordered.where("not is_timed").limit(1).collect()
    options = {"order": "time"} if by_time else {}
    log = ForeignLog(title, whole, redelivery, found_out, options, timed)
    small = small_tables(log, nodes, groups, members, shares, events.columns)
    rows = events.count()
    files = max(1, -(-rows // ROWS_PER_FILE))
    # By ranges of nodes: whole logs per file, and no node in two of them.
    ordered_rows = events.repartitionByRange(files, "node").sortWithinPartitions("node", "pos")
    write_events(spark, ordered_rows, small, out)
    return small.told(rows)


def _numbered(parsed: Any, key: str) -> Names:
    """Small numbers stay; if there is any other name, all are counted as they appear."""
    rows = parsed.groupBy(key).agg(
        F.min("order").alias("first"), F.max(f"{key}_is_text").alias("t")
    )
    found = sorted(rows.collect(), key=lambda row: tuple(row["first"]))
    if all(not row["t"] and row[key].isdecimal() and int(row[key]) < 1 << 31 for row in found):
        return {int(row[key]): int(row[key]) for row in found}
    return {row[key]: number for number, row in enumerate(found)}


def _in_log_order(spark: Any, lines: Any, parsed: Any, nodes: Names, groups: Names) -> Any:
    """Rows with numbers for nodes and groups, and `place`: what a node's log is sorted by."""
    told = parsed.groupBy("node").agg(
        F.count("*").alias("rows"), F.count("pos").alias("with_pos"),
        F.count(F.when(F.col("is_timed"), 1)).alias("timed"),
    )  # fmt: skip
    neither = told.where("with_pos < rows and timed < rows").limit(1).collect()
    if neither:
        name = neither[0]["node"]
        first = (
            parsed.where((F.col("node") == name) & F.col("pos").isNull()).orderBy("order").first()
        )
        what = f"some lines of {name!r} have 'pos', this has none"
        raise line_error(lines, first["order"], what)
    by_pos = told.select("node", (F.col("with_pos") == F.col("rows")).alias("by_pos"))
    number_of = _names_frame(spark, nodes, "node")
    group_of = _names_frame(spark, groups, "group")
    rows = (
        parsed.join(F.broadcast(by_pos), "node")
        .join(F.broadcast(number_of), "node")
        .join(F.broadcast(group_of), "group", "left")
        .withColumn(
            "place",
            F.when(F.col("by_pos"), F.col("pos").cast("decimal(38,9)")).otherwise(
                F.col("instant").cast("decimal(38,9)")
            ),
        )
    )
    before = Window.partitionBy("node_number").orderBy("place", "order")
    repeated = rows.where("by_pos").withColumn("earlier", F.lag("pos").over(before))
    twice = repeated.where("pos = earlier").orderBy("order").limit(1).collect()
    if twice:
        row = twice[0]
        raise line_error(lines, row["order"], f"pos {row['pos']:g} of {row['node']!r} repeated")
    return rows


def _names_frame(spark: Any, names: Names, key: str) -> Any:
    rows = [(str(name), number) for name, number in names.items()]
    return spark.createDataFrame(rows, f"{key} string, {key}_number int")


def _without_founding_joins(spark: Any, rows: Any) -> tuple[Any, list[tuple[int, int]]]:
    """A first join before its node's first publish or deliver makes a founder and leaves no row."""
    spoke = rows.where(F.col("kind").isin("publish", "deliver")).groupBy("node_number").agg(
        F.min(F.struct("place", "order")).alias("first")
    )  # fmt: skip
    joins = rows.where((F.col("kind") == "join") & ~F.coalesce("late", F.lit(False)))
    first_join = Window.partitionBy("node_number", "group_number").orderBy("place", "order")
    founding = (
        joins.withColumn("nth", F.row_number().over(first_join))
        .join(F.broadcast(spoke), "node_number", "left")
        .where("nth = 1 and (first is null or struct(place, order) < first)")
        .select("node_number", "group_number", "order")
        .collect()
    )
    founders = [(row["group_number"], row["node_number"]) for row in founding]
    if not founding:
        return rows, founders
    places = [(tuple(row["order"]),) for row in founding]
    dropped = spark.createDataFrame(places, f"order {ORDER}")
    return rows.join(F.broadcast(dropped), "order", "left_anti"), founders


def _in_columns(numbered: Numbered) -> Any:
    """Events in the columns of a trace, and those of other systems' facts that say anything."""
    message = F.coalesce("id", "other")
    plain = F.concat_ws(".", F.shiftright(message, ORIGIN_SHIFT),
                        message.bitwiseAND(F.lit(0xFFFFFFFF)))  # fmt: skip
    publishes = F.col("kind") == "publish"
    names_it = publishes | ((F.col("kind") == "deliver") & F.coalesce("ghost", F.lit(False)))
    kept_name = F.when(names_it & (F.col("message") != plain), F.col("message"))
    note = F.when(F.col("again"), F.lit(PUBLISHED_AGAIN)).otherwise(F.coalesce("note", kept_name))
    whole_number = F.col("by_pos") & (F.col("pos") == F.floor("pos"))
    columns = {
        "node": F.col("node_number"), "pos": F.col("new_pos"), "at_us": F.col("at_us"),
        "kind": F.when(F.col("again"), F.lit("note")).otherwise(F.col("kind")),
        "message": message, "group": F.col("group_number"),
        **{name: F.col(name).cast(kind) for name, kind in FIGURES.items()},
        "note": note,
        "source": F.when(whole_number, F.col("pos").cast("long")),
        "key": F.when(F.col("again").isNull(), F.col("key")),
        "causes": F.col("declared"), "attempt": F.col("attempt").cast("int"),
        "tied": F.when(_is_tied(), F.lit(True)),
    }  # fmt: skip
    return numbered.rows.select(*(column.alias(name) for name, column in columns.items()))


def _is_tied() -> Any:
    """Whether a row is not ordered with the one before it: it is said, or their times are equal."""
    before = Window.partitionBy("node_number").orderBy("new_pos")
    said = F.col("tied") & (F.col("new_pos") > 0)
    equal = F.lag("instant").over(before) == F.col("instant")
    return F.when(F.col("by_pos"), said).otherwise(equal)


def _with_what_is_said(events: Any) -> Any:
    """Without the columns of other systems' facts in which nothing stands."""
    moved = F.max(F.coalesce(F.col("source") != F.col("pos"), F.lit(True)))
    there = {column.name: F.max(F.col(column.name).isNotNull()) for column in FOREIGN_EVENTS}
    there["source"] &= moved
    said = events.agg(*(flag.alias(name) for name, flag in there.items())).first()
    return events.select(*EVENTS.names, *(name for name in there if said[name]))


def _signs_of_missing_rows(rows: Any) -> list[str]:
    """Why the logs cannot be whole, in words; nothing if they may be."""
    positions = (
        rows.where("by_pos and pos >= 0").groupBy("node_number").agg(
            F.first("node").alias("node"), F.count("*").alias("rows"), F.max("pos").alias("last"),
            F.max(F.col("pos") != F.floor("pos")).alias("odd"),
        )
    )  # fmt: skip
    skipped = {}
    for row in sorted(positions.collect(), key=lambda row: row["node_number"]):
        missing = row["last"] + 1 - row["rows"]
        if missing > 0 and not row["odd"]:
            skipped[str(row["node"])] = int(missing)
    spoken_of = F.when(F.col("kind") == "deliver", F.array("message")).otherwise(F.col("causes"))
    names = rows.select("node_number", *LOG, F.explode(spoken_of).alias("name"))
    published = rows.where("kind = 'publish'").select(F.col("message").alias("name")).distinct()
    unseen = (
        names.join(published, "name", "left_anti")
        .groupBy("name").agg(F.min(F.struct("node_number", *LOG)).alias("first"))
    )  # fmt: skip
    count = unseen.count()
    first = [row["name"] for row in unseen.orderBy("first").limit(NAMES_TOLD).collect()]
    return signs_in_words(skipped, first, count)


def _redelivery(numbered: Numbered, whole: bool, found_out: list[str]) -> str:
    """`any` if attempts are numbered, messages published again, or (partial) repeated."""
    rows = numbered.rows
    if rows.where("attempt is not null").limit(1).collect():
        return "any"
    if numbered.has_retries:
        found_out.append(RETRIES)
        return "any"
    if not whole:
        delivered = rows.where("kind = 'deliver'").groupBy("node", "message", "group").count()
        if delivered.where("count > 1").limit(1).collect():
            found_out.append(REPEATS)
            return "any"
    return "none"


def _shares(rows: Any, nodes: Names, groups: Names) -> Shares:
    """By group and node: the name under which it shares the messages, none if it gets all."""
    tells = (F.col("kind") == "deliver") | ((F.col("kind") == "join") & F.col("share").isNotNull())
    told = rows.where(tells).select("group_number", "node_number", "share").distinct()
    return shares_of([tuple(row) for row in told.collect()], nodes, groups)


def _memberships(
    events: Any, founders: list[tuple[int, int]], groups: Names, nodes: Names, shares: Shares,
    whole: bool,
) -> Members:  # fmt: skip
    members = Members([[group, node, 0, None] for group, node in founders])
    members.groups_with_joins |= {group for group, _ in founders}
    group_names = {number: name for name, number in groups.items()}
    node_names = {number: name for name, number in nodes.items()}
    changes = events.where(F.col("kind").isin("join", "leave")).select(
        "node", "pos", "kind", "group"
    )
    for node, pos, kind, group in sorted(map(tuple, changes.collect())):
        here = [row for row in members.rows if row[1] == node and row[3] is None]
        current = [row for row in here if group is None or row[0] == group]
        who = node_names[node]
        if kind == "join":
            if current and whole:
                raise TraceError(f"{who!r} joins {group_names[group]!r} and is a member already")
            for row in current:
                row[3] = pos  # the row that left it is missing
            members.rows.append([group, node, pos, None])
            members.groups_with_joins.add(group)
            continue
        if not current and group is not None and whole:
            raise TraceError(f"{who!r} leaves {group_names[group]!r} and is no member")
        if not current and group is not None:
            members.rows.append([group, node, 0, pos])  # the row that joined is missing
        for row in current:
            row[3] = pos
    members.add_those_who_deliver(shares, whole)
    return members
