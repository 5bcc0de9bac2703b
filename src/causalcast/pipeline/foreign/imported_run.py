"""The run that Spark makes of other systems' logs: who is a member, the header, the files."""

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.pipeline.logs.places import Place
from causalcast.pipeline.spark.remote_files import exists, remove, rename, upload
from causalcast.trace.foreign_log import SAFETY, TWO_SHARES, names_table, version_of
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import (
    FOREIGN_MEMBERS,
    GROUPS,
    GUARANTEES,
    MEMBERS,
    NODES,
    REPLY_ORDER,
)
from causalcast.version import VERSION

Names = dict[str | int, int]
Shares = dict[tuple[int, int], str | None]


@dataclass
class Members:
    """Memberships as they are read off joins and leaves: (group, node, from_pos, to_pos)."""

    rows: list[list[int | None]] = field(default_factory=list)
    groups_with_joins: set[int] = field(default_factory=set)

    def add_those_who_deliver(self, shares: Shares, whole: bool) -> None:
        """Who delivers in a group is a member of it; if the log is whole, its joins say so."""
        known = {(row[0], row[1]) for row in self.rows}
        for group, node in sorted(shares):
            logs_joins = group in self.groups_with_joins and whole
            if (group, node) not in known and not logs_joins:
                self.rows.append([group, node, 0, None])

    def table(self, shares: Shares) -> pa.Table:
        """As they stand in a run."""
        rows = [dict(zip(MEMBERS.names, row, strict=True)) for row in self.rows]
        table = pa.Table.from_pylist(rows, schema=MEMBERS)
        named = [shares.get((row["group"], row["node"])) for row in rows]
        if any(share is not None for share in named):
            table = table.append_column(FOREIGN_MEMBERS[0], pa.array(named, pa.string()))
        return table


@dataclass
class ForeignLog:
    """What is known of a log as a whole."""

    title: str
    whole: bool
    redelivery: str
    found_out: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    timed: bool = True


@dataclass
class SmallTables:
    """Everything of a run but its events."""

    header: RunHeader
    nodes: pa.Table
    groups: pa.Table
    members: pa.Table

    def told(self, rows: int) -> dict[str, Any]:
        """What an import says of a run of so many events."""
        return {
            "events": rows,
            "nodes": self.nodes.num_rows,
            "groups": self.groups.num_rows,
            "whole": self.header.whole,
            "found_out": self.header.found_out,
        }


def refuse_existing(spark: Any, out: Place) -> None:
    """A run is never written over another."""
    if out.exists() if isinstance(out, Path) else exists(spark, out):
        raise TraceError(f"{out}: already exists; remove it or choose another --out")


def shares_of(told: list[tuple[int, int, str | None]], nodes: Names, groups: Names) -> Shares:
    """By group and node: the name under which it shares the messages, none if it gets all."""
    found: Shares = {}
    for group, node, share in sorted(told, key=str):
        if found.setdefault((group, node), share) != share:
            who = next(name for name, number in nodes.items() if number == node)
            what = next(name for name, number in groups.items() if number == group)
            raise TraceError(TWO_SHARES.format(who, what))
    return found


def small_tables(
    log: ForeignLog, nodes: Names, groups: Names, members: Members, shares: Shares,
    columns: list[str],
) -> SmallTables:  # fmt: skip
    """Everything of a run whose events have these columns."""
    logged = members.groups_with_joins >= set(groups.values())
    promised = [g for g in GUARANTEES if (logged and log.whole) or g in SAFETY]
    header = RunHeader(
        log.title,
        "imported",
        version=VERSION,
        guarantees=promised + [REPLY_ORDER] * ("causes" in columns),
        redelivery=log.redelivery,
        options=log.options,
        whole=log.whole,
        timed=log.timed,
        found_out=log.found_out,
    )
    table = members.table(shares)
    header.schema = version_of(header, columns, table.column_names)
    return SmallTables(header, names_table(nodes, NODES), names_table(groups, GROUPS), table)


def write_events(spark: Any, events: Any, small: SmallTables, out: Place) -> None:
    """Write a run; `events` are in order, and no node is in two parts of them."""
    writer = events.write.option("compression", "zstd")
    if isinstance(out, Path):
        half_done = out.with_name(f".{out.name}.{os.getpid()}.partial").resolve()
        shutil.rmtree(half_done, ignore_errors=True)
        half_done.mkdir(parents=True)
        try:
            writer.parquet(str(half_done / "events"))
            _write_small_files(half_done, small)
            half_done.rename(out)
        finally:
            shutil.rmtree(half_done, ignore_errors=True)
    else:
        half_there = out.beside(f".{out.name}.{os.getpid()}.partial")
        try:
            writer.parquet((half_there / "events").uri)
            with tempfile.TemporaryDirectory(prefix="causalcast-import-") as folder:
                _write_small_files(Path(folder), small)
                for path in sorted(Path(folder).iterdir()):
                    upload(spark, path, half_there / path.name)
            rename(spark, half_there, out)
        finally:
            remove(spark, half_there)


def _write_small_files(folder: Path, small: SmallTables) -> None:
    for name in ("nodes", "groups", "members"):
        pq.write_table(getattr(small, name), folder / f"{name}.parquet")
    (folder / "run.json").write_text(small.header.to_json())
