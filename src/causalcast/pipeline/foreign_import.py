"""Makes a run of foreign logs of any size on Spark, as `trace.foreign_log` does of small ones.

Names become numbers: nodes and groups, which are few, on the driver; messages, which are many, by a
join. Only what is small is collected: names, joins and leaves, and messages that nobody published.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from causalcast.errors import TraceError
from causalcast.pipeline.foreign_lines import FIGURES, line_error, parse_lines
from causalcast.pipeline.log_lines import read_lines
from causalcast.pipeline.places import Place
from causalcast.pipeline.remote_files import exists, remove, rename, upload
from causalcast.trace.foreign_log import ORIGIN_SHIFT, SAFETY, UNKNOWN_FROM, names_table
from causalcast.trace.log_files import title_of
from causalcast.trace.run_folder import ROWS_PER_FILE
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import EVENTS, GROUPS, GUARANTEES, MEMBERS, NODES
from causalcast.version import VERSION

Names = dict[str | int, int]
ORDER = "struct<path: string, block: long, line: long>"


@dataclass
class _Members:
    """Memberships as they are read off joins and leaves: (group, node, from_pos, to_pos)."""

    rows: list[list[int | None]] = field(default_factory=list)
    groups_with_joins: set[int] = field(default_factory=set)


def import_logs(
    spark: Any, paths: Sequence[Place], out: Place, redelivery: str = "none"
) -> dict[str, Any]:
    """Write the run that the logs describe; how many events, nodes and groups it has."""
    if out.exists() if isinstance(out, Path) else exists(spark, out):
        raise TraceError(f"{out}: already exists; remove it or choose another --out")
    lines = read_lines(spark, paths)
    rows, left_out = parse_lines(lines)
    parsed = rows.cache()
    try:
        nodes = _numbered(parsed, "node")
        groups = _numbered(parsed.where("group is not null"), "group")
        if not nodes:
            raise TraceError(f"{paths[0]}: no events")
        ordered = _in_log_order(spark, lines, parsed, nodes, groups)
        kept, founders = _without_founding_joins(spark, ordered)
        events = _with_ids(spark, lines, kept).cache()
        members = _memberships(events, founders, groups, nodes)
        found = _write(
            spark, events, nodes, groups, members, out, title_of(paths[0].name), redelivery
        )
        return {**found, "left_out": left_out}
    finally:
        spark.catalog.clearCache()


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
        .withColumn("place", F.when(F.col("by_pos"), F.col("pos")).otherwise(F.col("at_us")))
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


def _with_ids(spark: Any, lines: Any, rows: Any) -> Any:
    """Events in the columns of a trace: positions counted, messages numbered."""
    log = Window.partitionBy("node_number").orderBy("place", "order")
    rows = rows.withColumn("new_pos", (F.row_number().over(log) - 1).cast("long"))
    published = rows.where("kind = 'publish'")
    count = F.row_number().over(log).cast("long")
    ids = published.select(
        "message",
        F.shiftleft(F.col("node_number").cast("long"), ORIGIN_SHIFT).bitwiseOR(count).alias("id"),
        "order",
    )
    twice = ids.groupBy("message").agg(F.count("*").alias("n"), F.max("order").alias("last"))
    wrong = twice.where("n > 1").orderBy("last").limit(1).collect()
    if wrong:
        what = f"message {wrong[0]['message']!r} is published twice"
        raise line_error(lines, wrong[0]["last"], what)
    known = rows.join(ids.drop("order"), "message", "left")
    ghosts = _ghosts(spark, known, published)
    known = known.join(F.broadcast(ghosts), "message", "left")
    message = F.coalesce("id", "ghost")
    plain = F.concat_ws(".", F.shiftright(message, ORIGIN_SHIFT),
                        message.bitwiseAND(F.lit(0xFFFFFFFF)))  # fmt: skip
    names_it = (F.col("kind") == "publish") | ((F.col("kind") == "deliver") & F.col("id").isNull())
    kept_name = F.when(names_it & (F.col("message") != plain), F.col("message"))
    columns = {
        "node": F.col("node_number"), "pos": F.col("new_pos"), "at_us": F.col("at_us"),
        "kind": F.col("kind"), "message": message, "group": F.col("group_number"),
        **{name: F.col(name).cast(kind) for name, kind in FIGURES.items()},
        "note": F.coalesce("note", kept_name),
    }  # fmt: skip
    return known.select(*(columns[name].alias(name) for name in EVENTS.names))


def _ghosts(spark: Any, known: Any, published: Any) -> Any:
    """Messages that nobody published, with numbers that nobody has."""
    first = (
        known.where("message is not null and id is null")
        .groupBy("message")
        .agg(F.min(F.struct("node_number", "new_pos")).alias("first"))
        .collect()
    )
    counts = {row["node_number"]: row["count"]
              for row in published.groupBy("node_number").count().collect()}  # fmt: skip
    ids, last = [], UNKNOWN_FROM
    for row in sorted(first, key=lambda row: tuple(row["first"])):
        origin, _, number = row["message"].partition(".")
        if origin.isdecimal() and number.isdecimal() and int(number) < UNKNOWN_FROM and (
            int(number) > counts.get(int(origin), 1 << 62)
        ):  # fmt: skip
            ids.append((row["message"], int(origin) << ORIGIN_SHIFT | int(number)))
        else:
            last += 1
            ids.append((row["message"], row["first"]["node_number"] << ORIGIN_SHIFT | last))
    return spark.createDataFrame(ids, "message string, ghost long")


def _memberships(
    events: Any, founders: list[tuple[int, int]], groups: Names, nodes: Names
) -> _Members:
    members = _Members([[group, node, 0, None] for group, node in founders])
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
            if current:
                raise TraceError(f"{who!r} joins {group_names[group]!r} and is a member already")
            members.rows.append([group, node, pos, None])
            members.groups_with_joins.add(group)
            continue
        if not current and group is not None:
            raise TraceError(f"{who!r} leaves {group_names[group]!r} and is no member")
        for row in current:
            row[3] = pos
    spoke = (
        events.where(F.col("kind").isin("publish", "deliver")).select("group", "node").distinct()
    )
    for group, node in sorted(map(tuple, spoke.collect())):
        if group not in members.groups_with_joins:
            members.rows.append([group, node, 0, None])
    return members


def _write(
    spark: Any, events: Any, nodes: Names, groups: Names, members: _Members, out: Place,
    run_id: str, redelivery: str,
) -> dict[str, int]:  # fmt: skip
    rows = events.count()
    files = max(1, -(-rows // ROWS_PER_FILE))
    # By ranges of nodes: whole logs per file, and no node in two of them.
    sorted_rows = events.repartitionByRange(files, "node").sortWithinPartitions("node", "pos")
    writer = sorted_rows.write.option("compression", "zstd")
    logged = members.groups_with_joins >= set(groups.values())
    header = RunHeader(
        run_id,
        "imported",
        version=VERSION,
        guarantees=[g for g in GUARANTEES if logged or g in SAFETY],
        redelivery=redelivery,
    )
    if isinstance(out, Path):
        half_done = out.with_name(f".{out.name}.{os.getpid()}.partial").resolve()
        shutil.rmtree(half_done, ignore_errors=True)
        half_done.mkdir(parents=True)
        try:
            writer.parquet(str(half_done / "events"))
            _write_small_files(half_done, header, nodes, groups, members)
            half_done.rename(out)
        finally:
            shutil.rmtree(half_done, ignore_errors=True)
    else:
        half_there = out.beside(f".{out.name}.{os.getpid()}.partial")
        try:
            writer.parquet((half_there / "events").uri)
            with tempfile.TemporaryDirectory(prefix="causalcast-import-") as folder:
                _write_small_files(Path(folder), header, nodes, groups, members)
                for path in sorted(Path(folder).iterdir()):
                    upload(spark, path, half_there / path.name)
            rename(spark, half_there, out)
        finally:
            remove(spark, half_there)
    return {"events": rows, "nodes": len(nodes), "groups": len(groups)}


def _write_small_files(
    folder: Path, header: RunHeader, nodes: Names, groups: Names, members: _Members
) -> None:
    rows = [dict(zip(MEMBERS.names, row, strict=True)) for row in members.rows]
    for name, table in (
        ("nodes", names_table(nodes, NODES)),
        ("groups", names_table(groups, GROUPS)),
        ("members", pa.Table.from_pylist(rows, schema=MEMBERS)),
    ):
        pq.write_table(table, folder / f"{name}.parquet")
    (folder / "run.json").write_text(header.to_json())
