"""A run as a folder: writes it whole or not at all, reads it, and says what is wrong with it.

    RUN/run.json  nodes.parquet  groups.parquet  members.parquet  events/part-*.parquet

Event files hold whole nodes, sorted by `node, pos`, so that one file is one independent piece of
work for a checker (a node's log is never split over two files here).
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.trace.plain_run import members_of
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import (
    EVENTS,
    FOREIGN_EVENTS,
    FOREIGN_MEMBERS,
    GROUPS,
    MEMBERS,
    NODES,
    extended,
)

ROWS_PER_FILE = 1_000_000
FILES_AT_LEAST = 2  # so that two cores have something to do
ROWS_PER_MESSAGE = 4  # from here on a dictionary of ids is smaller, and three times faster to read


@dataclass
class Run:
    """A whole run in memory: what a checker without Spark reads."""

    header: RunHeader
    nodes: pa.Table
    groups: pa.Table
    members: pa.Table
    events: pa.Table


@dataclass
class SmallTables:
    """Who took part, in which groups: everything but the events."""

    nodes: pa.Table
    groups: pa.Table
    members: pa.Table


def write_run(folder: Path, run: Run) -> None:
    """Write `run` into a new folder; it appears under its name only when it is complete."""
    if folder.exists() and any(folder.iterdir()):
        raise TraceError(f"{folder}: already exists; remove it or choose another --out")
    half_done = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(half_done, ignore_errors=True)
    (half_done / "events").mkdir(parents=True)
    for name, table, schema in (
        ("nodes", run.nodes, NODES),
        ("groups", run.groups, GROUPS),
        ("members", run.members, extended(MEMBERS, FOREIGN_MEMBERS, run.members.column_names)),
    ):
        pq.write_table(table.cast(schema), half_done / f"{name}.parquet", compression="zstd")
    for number, piece in enumerate(_whole_nodes(run.events)):
        write_events(half_done / "events" / f"part-{number:05d}.parquet", piece)
    (half_done / "run.json").write_text(run.header.to_json())
    if folder.exists():
        folder.rmdir()
    half_done.rename(folder)


def write_events(path: Path, events: pa.Table) -> None:
    """Write one event file in the layout the pipeline reads fastest."""
    few = [name for name in ("node", "kind", "group", "note", "key") if name in events.column_names]
    ascending = ["pos", "at_us"]
    # Most messages stand in many logs; where not, a dictionary would be as long as the file.
    often_repeated = pc.count_distinct(events["message"]).as_py() * ROWS_PER_MESSAGE <= len(events)
    (few if often_repeated else ascending).append("message")
    pq.write_table(
        events.cast(event_columns(events.column_names)),
        path,
        compression="zstd",
        row_group_size=1 << 20,
        use_dictionary=few,
        dictionary_pagesize_limit=8 << 20,
        column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED"),
    )


def event_columns(names: list[str]) -> pa.Schema:
    """The columns of events, with those of other systems' facts that are among `names`."""
    return extended(EVENTS, FOREIGN_EVENTS, names)


def read_header(folder: Path) -> RunHeader:
    """The header of a run, or a clear error if the folder is no run."""
    if not folder.exists():
        raise TraceError(f"{folder}: no such run")
    path = folder / "run.json"
    if not path.is_file():
        raise TraceError(f"{folder}: not a run (run.json is missing)")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: cannot be read ({error})") from None
    return RunHeader.from_json(text, path)


def event_files(folder: Path) -> list[Path]:
    """The event files of a run, in the order of their names."""
    files = sorted((folder / "events").glob("part-*.parquet"))
    if not files:
        raise TraceError(f"{folder}: no event files (events/part-*.parquet)")
    return files


def read_small_tables(folder: Path) -> SmallTables:
    """Nodes, groups and members of a run."""
    return SmallTables(
        _read_table(folder / "nodes.parquet", NODES),
        _read_table(folder / "groups.parquet", GROUPS),
        _read_table(folder / "members.parquet", MEMBERS, FOREIGN_MEMBERS),
    )


def check_event_columns(path: Path) -> None:
    """Look at a file's footer: whole, and with every column of a trace."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError) as error:
        first_line = str(error).splitlines()[0]
        raise TraceError(f"{path}: unreadable or truncated ({first_line})") from None
    missing = [name for name in EVENTS.names if name not in names]
    if missing:
        raise TraceError(f"{path}: column {missing[0]!r} is missing")


def read_run(folder: Path) -> Run:
    """Read a whole run into memory and check its shape."""
    header = read_header(folder)
    small = read_small_tables(folder)
    pieces = [_read_table(path, EVENTS, FOREIGN_EVENTS) for path in event_files(folder)]
    events = pa.concat_tables(pieces).unify_dictionaries().combine_chunks()
    order = pc.sort_indices(events, sort_keys=[("node", "ascending"), ("pos", "ascending")])
    run = Run(header, small.nodes, small.groups, small.members, events.take(order))
    check_positions(run.events, folder)
    return run


def check_positions(events: pa.Table, where: Path) -> None:
    """Every node's `pos` counts 0, 1, 2, … without gaps, or the log lost rows."""
    for node, log in logs_of(events):
        positions = log.column("pos")
        last = positions[-1].as_py()
        if last != len(log) - 1 or pc.count_distinct(positions).as_py() != len(log):
            raise TraceError(f"{where}: the log of node {node} has a gap or repeats a position")


def logs_of(events: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each node, from a table sorted by `node, pos`."""
    start = 0
    runs = pc.run_end_encode(events.column("node").combine_chunks())
    for node, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield node, events.slice(start, end - start)
        start = end


def memberships(founders: list[tuple[int, int]], events: pa.Table) -> pa.Table:
    """The members table: founders (group, node) from the start, others by their join rows."""
    changes = events.filter(
        pc.and_(
            pc.is_in(events.column("kind").cast(pa.string()), pa.array(["join", "leave"])),
            pc.is_valid(events.column("group")),
        )
    ).select(["node", "pos", "kind", "group"])
    rows = zip(*(changes[name].to_pylist() for name in changes.column_names), strict=True)
    return table_of(MEMBERS, [member[:4] for member in members_of(founders, rows)])


def table_of(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """A table from rows written out as tuples."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_table(path: Path, schema: pa.Schema, optional: tuple[pa.Field, ...] = ()) -> pa.Table:
    if not path.is_file():
        raise TraceError(f"{path.parent}: {path.name} is missing")
    try:
        with pq.ParquetFile(path) as file:  # `read_table` would load pandas first
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        first_line = str(error).splitlines()[0]
        raise TraceError(f"{path}: unreadable or truncated ({first_line})") from None
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise TraceError(f"{path}: column {missing[0]!r} is missing")
    schema = extended(schema, optional, table.column_names)
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise TraceError(f"{path}: columns have the wrong type ({error})") from None


def _whole_nodes(events: pa.Table) -> Iterator[pa.Table]:
    """Split a sorted table between nodes, into pieces of about `ROWS_PER_FILE` rows."""
    if len(events) == 0:
        yield events
        return
    rows_per_file = min(ROWS_PER_FILE, -(-len(events) // FILES_AT_LEAST))
    piece_start = piece_rows = 0
    for _, log in logs_of(events):
        piece_rows += len(log)
        if piece_rows >= rows_per_file:
            yield events.slice(piece_start, piece_rows)
            piece_start += piece_rows
            piece_rows = 0
    if piece_rows:
        yield events.slice(piece_start, piece_rows)
