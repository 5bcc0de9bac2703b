"""Runs that only Spark can reach, checked there: their small tables come here, their events do not.

A large run is spread over tasks file by file, as a local one; smaller ones are checked whole, each
in one task.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from causalcast.errors import TraceError
from causalcast.pipeline.check.check_run import Checked, check_files, check_pieces
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.logs.logs import bundles_of, file_range
from causalcast.pipeline.logs.memberships import Memberships, read_memberships
from causalcast.pipeline.logs.places import Place, RemoteFolder, RunAtHand
from causalcast.pipeline.spark.remote_files import (
    RemoteFile,
    list_files,
    read_files,
    spread_files,
    write_files,
)
from causalcast.pipeline.spark.spark_job import PiecesOnSpark
from causalcast.pipeline.spark.tables import EVENT_COLUMNS
from causalcast.trace.run_folder import (
    event_columns,
    read_header,
    read_small_tables,
    write_events,
)
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import EVENTS

LARGE_BYTES = 1_000_000  # of compressed events: some 300,000 rows
SMALL_FILES = ("run.json", "nodes.parquet", "groups.parquet", "members.parquet")

Result = TypeVar("Result")


def fetch_runs(spark: Any, places: Sequence[Place], folder: Path) -> list[RunAtHand]:
    """The runs at some places, in their order; of remote ones the small files go below `folder`.

    A remote place is a run, or a folder of runs, or has wildcards that fit several.
    """
    runs: list[RunAtHand] = []
    for place in places:
        if isinstance(place, Path):
            runs.append(RunAtHand.here(place))
            continue
        files = list_files(spark, place)
        found = [f.uri.removesuffix("/run.json") for f in files if f.uri.endswith("/run.json")]
        if not found:
            raise TraceError(f"{place}: neither a run nor a folder of runs (no run.json)")
        contents = read_files(
            spark, [f"{run}/{name}" for run in found for name in SMALL_FILES
                    if any(file.uri == f"{run}/{name}" for file in files)]
        )  # fmt: skip
        for run in found:
            here = folder / str(len(runs)) / RemoteFolder(run).name
            here.mkdir(parents=True)
            mine = [(uri, data) for uri, data in contents.items() if uri.startswith(f"{run}/")]
            write_files(here, [(u, data) for u, data in mine if u.count("/") == run.count("/") + 1])
            events = _event_files(run, files)
            uris = tuple(file.uri for file in events)
            size = sum(file.size for file in events)
            runs.append(RunAtHand(RemoteFolder(run), here, uris, size))
    return runs


def _event_files(run: str, files: Sequence[RemoteFile]) -> list[RemoteFile]:
    events = [file for file in files if file.uri.startswith(f"{run}/events/part-")]
    found = [file for file in events if file.uri.endswith(".parquet")]
    if not found:
        raise TraceError(f"{run}: no event files (events/part-*.parquet)")
    return found


def check_remote_runs(spark: Any, runs: Sequence[RunAtHand]) -> list[Checked]:
    """Check runs in the order given; the first unreadable one raises `TraceError`."""
    checked: dict[int, Checked] = {}
    small = []
    for place, run in enumerate(runs):
        if run.size >= LARGE_BYTES and len(run.files) > 1:
            pieces = PiecesElsewhere(spark, _bundles(spark, run))
            checked[place] = check_pieces(*_known(run), pieces)
        else:
            small.append(place)
    known = [_known(runs[place]) for place in small]
    of_small = spread_files(
        spark,
        [runs[place].files for place in small],
        lambda item, paths: check_files(*known[item], paths),
    )
    checked.update(zip(small, of_small, strict=True))
    return [checked[place] for place in range(len(runs))]


def _known(run: RunAtHand) -> tuple[RunHeader, Memberships]:
    small = read_small_tables(run.folder)
    return read_header(run.folder), read_memberships(small.nodes, small.members)


def _bundles(spark: Any, run: RunAtHand) -> list[list[str]]:
    each = [[uri] for uri in run.files]
    ranges = spread_files(spark, each, lambda _, paths: file_range(paths[0]))
    found = [(*r, uri) for r, uri in zip(ranges, run.files, strict=True) if r is not None]
    return bundles_of(found)


class PiecesElsewhere(PiecesOnSpark):
    """Files of whole logs, which the JVM beside each task reads."""

    def on_files(
        self, parts: Sequence[Sequence[str]], work: Callable[[Sequence[Path]], Result]
    ) -> list[Result]:
        """Do `work` on copies of the files beside each task."""
        return spread_files(self.spark, parts, lambda _, paths: work(paths))


def fetch_examples(spark: Any, run: RunAtHand, findings: Sequence[Finding]) -> None:
    """Bring the rows of the messages that some findings speak of: a counter-example shows them."""
    from pyspark.sql import functions as F  # noqa: N812

    spoken_of = sorted({m for finding in findings for m in finding.messages()})
    table = EVENTS.empty_table()
    if spoken_of:
        events = spark.read.schema(f"{EVENT_COLUMNS}, source long").parquet(*run.files)
        rows = events.where(F.col("message").isin(spoken_of)).toArrow()
        table = pa.Table.from_batches(rows.to_batches(), rows.schema)
        table = table.cast(event_columns(table.column_names))
    (run.folder / "events").mkdir(exist_ok=True)
    write_events(run.folder / "events" / "part-00000.parquet", table)


def fetch_whole(spark: Any, place: RemoteFolder, folder: Path) -> Path:
    """A remote run as a folder of this machine, for what is done here, such as an export."""
    [run] = fetch_runs(spark, [place], folder)
    (run.folder / "events").mkdir()
    for uri in run.files:  # one by one: a run need not fit in memory
        write_files(run.folder / "events", list(read_files(spark, [uri]).items()))
    return run.folder


@contextmanager
def whole_run(where: Place, make_spark: Callable[[], Any]) -> Iterator[Path]:
    """A run as a folder of this machine; Spark is asked for only where that is needed."""
    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="causalcast-run-") as folder:
        yield fetch_whole(make_spark(), where, Path(folder))
