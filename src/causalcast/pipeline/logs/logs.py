"""Event files as arrays: whole logs of some nodes, one after the other, checked on the way in.

The row with `pos` i of a log is its i-th row here, so positions are not kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.pipeline.kernels import rows
from causalcast.pipeline.kernels.kinds import DELIVER, PUBLISH
from causalcast.trace.schema import EVENTS, KIND_CODE

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
File = TypeVar("File", Path, str)

NONE = -1  # stands for null: ids are never negative
ROWS_PER_BUNDLE = 1_000_000
COLUMNS = ("node", "pos", "at_us", "kind", "message", "group")
WITH_TIMES = ("at_us", "key", "causes")  # what few looks ask for
IF_THERE = ("attempt", "tied", "key", "causes")  # other systems' facts


@dataclass
class Logs:
    """The rows of several nodes; `starts[i]:starts[i + 1]` is the log of `nodes[i]`."""

    nodes: Ints
    starts: Ints
    kind: npt.NDArray[np.int8]
    message: Ints
    group: npt.NDArray[np.int32]
    at_us: Ints
    where: str
    """The file they came from, for complaints."""
    attempt: npt.NDArray[np.int32] | None = None
    """Per row, -1 where none is said; none if no row says any."""
    instant: Ints | None = None
    """Per row, from 0 in each log: rows of one instant are not ordered; none if all rows are."""
    key: pa.ChunkedArray | None = None
    causes: pa.ChunkedArray | None = None
    """What publications say of their key and their causes; read with times."""

    @staticmethod
    def empty() -> "Logs":
        """No rows of nobody."""
        none = np.zeros(0, np.int64)
        kind, group = np.zeros(0, np.int8), np.zeros(0, np.int32)
        return Logs(none, np.zeros(1, np.int64), kind, none, group, none, "")

    def bounds(self) -> Iterator[tuple[int, int, int]]:
        """Node, first row and end of each log."""
        ends = self.starts[1:].tolist()
        yield from zip(self.nodes.tolist(), self.starts[:-1].tolist(), ends, strict=True)

    def deliveries(self) -> int:
        """How many `deliver` rows there are."""
        return int(np.count_nonzero(self.kind == DELIVER))


def read_logs(paths: Sequence[Path], with_times: bool = True) -> Logs:
    """The logs of some event files together; without times, all times are missing."""
    tables = [_read_columns(path, with_times) for path in paths]
    where = str(paths[0]) if len(paths) == 1 else str(paths[0].parent)
    if len(tables) == 1:
        return logs_of_table(tables[0], where, with_times)
    try:
        joined = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    except pa.ArrowException as error:
        raise TraceError(f"{where}: files do not fit together ({error})") from None
    return logs_of_table(joined, where, with_times)


def _read_columns(path: Path, with_times: bool) -> pa.Table:
    wanted = _wanted(COLUMNS, with_times)
    try:
        file = pq.ParquetFile(path, read_dictionary=["kind"])
        there = file.schema_arrow.names
        missing = [name for name in wanted if name not in there]
        further = [name for name in _wanted(IF_THERE, with_times) if name in there]
        if not missing:
            return file.read(columns=wanted + further, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: unreadable or truncated ({reason})") from None
    raise TraceError(f"{path}: column {missing[0]!r} is missing")


def _wanted(names: Sequence[str], with_times: bool) -> list[str]:
    return [name for name in names if with_times or name not in WITH_TIMES]


def bundles(files: Sequence[Path]) -> list[list[Path]]:
    """The files in groups, so that no log is spread over two groups.

    Files of whole logs stand alone; pieces of a log come together, with those of their neighbours.
    """
    ranges = [(*r, path) for path in files for r in [file_range(path)] if r is not None]
    return bundles_of(ranges)


def bundles_of(ranges: Sequence[tuple[int, int, int, File]]) -> list[list[File]]:
    """The same from what is known of the files: lowest node, highest node, rows, file."""
    found: list[list[File]] = []
    last = rows = -1
    pieced = False
    for low, high, in_file, path in sorted(ranges, key=lambda known: (*known[:2], str(known[3]))):
        overlaps = low <= last
        if overlaps or (pieced and rows < ROWS_PER_BUNDLE):
            found[-1].append(path)
            pieced = pieced or overlaps
        else:
            found.append([path])
            pieced, rows = False, 0
        rows += in_file
        last = max(last, high)
    return found


def rows_in(files: Sequence[Path]) -> int:
    """How many events the files hold."""
    return sum(_footer(path).num_rows for path in files)


def file_range(path: Path) -> tuple[int, int, int] | None:
    """Lowest and highest node of a file, or everything if it does not say, and how many rows it
    has; none if it is empty."""
    footer = _footer(path)
    if footer.num_rows == 0:
        return None
    if "node" not in footer.schema.names:
        raise TraceError(f"{path}: column 'node' is missing")
    column = footer.schema.names.index("node")
    parts = [footer.row_group(i).column(column).statistics for i in range(footer.num_row_groups)]
    if not all(part is not None and part.has_min_max for part in parts):
        return (0, np.iinfo(np.int32).max, footer.num_rows)
    if not all(isinstance(part.min, int) for part in parts):
        raise TraceError(f"{path}: column 'node' has the wrong type (expected int32)")
    return (min(part.min for part in parts), max(part.max for part in parts), footer.num_rows)


def _footer(path: Path) -> Any:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: unreadable or truncated ({reason})") from None


def logs_of_table(table: pa.Table, where: str, with_times: bool = True) -> Logs:
    """The logs of a table of events, sorted if they are not, or a `TraceError` naming `where`."""
    missing = [name for name in _wanted(COLUMNS, with_times) if name not in table.column_names]
    if missing:
        raise TraceError(f"{where}: column {missing[0]!r} is missing")
    node, pos = _plain(table, "node", where), _plain(table, "pos", where)
    if not rows.is_sorted(node, pos):
        table = table.take(np.lexsort((pos, node)))
        node, pos = _plain(table, "node", where), _plain(table, "pos", where)
    starts = np.empty(rows.count_logs(node) + 1, np.int64)
    wrong = rows.starts_of_logs(node, pos, starts)
    nodes = node[starts[:-1]].astype(np.int64)
    if wrong >= 0:
        log = int(np.searchsorted(starts, wrong, side="right")) - 1
        raise TraceError(
            f"{where}: the log of node {nodes[log]} has a gap or repeats a position"
            f" (pos {pos[wrong]} where {wrong - starts[log]} was expected)"
        )
    logs = Logs(
        nodes=nodes,
        starts=starts,
        kind=_kinds(table, where),
        message=_nullable(table, "message", where),
        group=_nullable(table, "group", where),
        at_us=_plain(table, "at_us", where) if with_times else np.zeros(0, np.int64),
        where=where,
    )
    if "attempt" in table.column_names:
        logs.attempt = _numbers_or_none(table, "attempt", pa.int32(), where)
    if "tied" in table.column_names:
        logs.instant = _instants(table.column("tied"), starts)
    if with_times and "key" in table.column_names:
        logs.key = table.column("key")
    if with_times and "causes" in table.column_names:
        logs.causes = table.column("causes")
    _check_ids(logs)
    return logs


def _check_ids(logs: Logs) -> None:
    """Publish and deliver rows name a message and a group."""
    wrong = rows.first_without_id(logs.kind, logs.message, logs.group)
    if wrong >= 0:
        log = int(np.searchsorted(logs.starts, wrong, side="right")) - 1
        kind = "publish" if logs.kind[wrong] == PUBLISH else "deliver"
        raise TraceError(
            f"{logs.where}: node {logs.nodes[log]}, pos {wrong - logs.starts[log]}:"
            f" a {kind} without message or group"
        )


def _plain(table: pa.Table, name: str, where: str) -> Any:
    column = table.column(name)
    if column.null_count:
        raise TraceError(f"{where}: column {name!r} has nulls")
    return _typed(column, name, where).to_numpy()


def _nullable(table: pa.Table, name: str, where: str) -> Any:
    column = _typed(table.column(name), name, where)
    return (column.fill_null(NONE) if column.null_count else column).to_numpy()


def _instants(tied: pa.ChunkedArray, starts: Ints) -> Ints | None:
    if tied.null_count == len(tied):
        return None
    begins: Bools = ~tied.cast(pa.bool_()).fill_null(False).to_numpy()
    begins = begins.copy()
    begins[starts[:-1][starts[:-1] < len(begins)]] = True
    count = np.cumsum(begins)
    first = np.repeat(count[starts[:-1]], np.diff(starts))
    return count - first


def _numbers_or_none(table: pa.Table, name: str, kind: pa.DataType, where: str) -> Any:
    try:
        return table.column(name).cast(kind).fill_null(NONE).to_numpy()
    except (pa.ArrowException, ValueError) as error:
        raise TraceError(f"{where}: column {name!r} has the wrong type ({error})") from None


def _typed(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    wanted = EVENTS.field(name).type
    try:
        return column if column.type == wanted else column.cast(wanted)
    except (pa.ArrowException, ValueError) as error:
        raise TraceError(f"{where}: column {name!r} has the wrong type ({error})") from None


def _kinds(table: pa.Table, where: str) -> npt.NDArray[np.int8]:
    """The kind of each row as its code; strings are looked up once per dictionary, not per row."""
    column = table.column("kind")
    if column.null_count:
        raise TraceError(f"{where}: column 'kind' has nulls")
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    pieces = [np.zeros(0, np.int8)]
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        indices = chunk.indices.to_numpy()
        codes = np.array([KIND_CODE.get(name, NONE) for name in names], np.int8)
        for place in np.flatnonzero(codes == NONE):  # a dictionary may list what no row has
            if np.any(indices == place):
                raise TraceError(f"{where}: unknown kind {names[place]!r}")
        pieces.append(codes[indices] if names else np.zeros(0, np.int8))
    return np.concatenate(pieces)
