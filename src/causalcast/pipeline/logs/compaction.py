"""Writes a run anew in files of whole logs, a bundle at a time: a run need not fit in memory."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import TraceError
from causalcast.pipeline.logs.logs import ROWS_PER_BUNDLE, bundles, logs_of_table
from causalcast.trace.run_folder import (
    check_event_columns,
    event_columns,
    event_files,
    read_header,
    write_events,
)
from causalcast.trace.schema import EVENTS

SMALL_FILES = ("nodes.parquet", "groups.parquet", "members.parquet", "run.json")


def compact(
    folder: Path, out: Path, progress: Callable[[float], None] | None = None
) -> dict[str, int]:
    """Write the run in `folder` to `out`; how many events and files there are."""
    read_header(folder)
    files = event_files(folder)
    if out.exists():
        raise TraceError(f"{out}: already exists; remove it or choose another --out")
    half_done = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(half_done, ignore_errors=True)
    (half_done / "events").mkdir(parents=True)
    try:
        parts = bundles(files)
        events = written = 0
        for table in _gathered(parts, progress):
            write_events(half_done / "events" / f"part-{written:05d}.parquet", table)
            events += len(table)
            written += 1
        if written == 0:
            write_events(half_done / "events" / "part-00000.parquet", EVENTS.empty_table())
            written = 1
        for name in SMALL_FILES:
            shutil.copyfile(folder / name, half_done / name)
        half_done.rename(out)
    except FileNotFoundError as error:
        raise TraceError(f"{folder}: {Path(error.filename).name} is missing") from None
    finally:
        shutil.rmtree(half_done, ignore_errors=True)
    return {"events": events, "files_before": len(files), "files": written}


def _gathered(
    parts: Sequence[Sequence[Path]], progress: Callable[[float], None] | None
) -> Iterator[pa.Table]:
    """Whole logs in tables of about a million rows."""
    waiting: list[pa.Table] = []
    for done, paths in enumerate(parts, 1):
        waiting.append(_sorted(paths))
        if sum(map(len, waiting)) >= ROWS_PER_BUNDLE or done == len(parts):
            yield pa.concat_tables(waiting)
            waiting = []
        if progress is not None:
            progress(done / len(parts))


def _with_known_columns(table: pa.Table) -> pa.Table:
    """Also those with what only other systems know: without them a run is another one."""
    schema = event_columns(table.column_names)
    return table.select(schema.names).cast(schema)


def _sorted(paths: Sequence[Path]) -> pa.Table:
    for path in paths:
        check_event_columns(path)
    try:
        tables = [_with_known_columns(pq.read_table(path)) for path in paths]
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{paths[0]}: unreadable or truncated ({reason})") from None
    table = pa.concat_tables(tables).unify_dictionaries()
    order = np.lexsort((table["pos"].to_numpy(), table["node"].to_numpy()))
    table = table.take(order)
    logs_of_table(table, str(paths[0]))  # a gap must not become a neat file
    return table
