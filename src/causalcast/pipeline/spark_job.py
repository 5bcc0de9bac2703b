"""The checks as Spark jobs. Tasks get file names and read Parquet themselves: no row crosses the
JVM, nothing is shuffled, and the code uses neither `sparkContext` nor RDDs, so that it runs on
Spark Connect as well.

Many runs: one task checks several whole runs. A large run: its files are spread over tasks, three
times: list the publications, find direct causes, scan (and once more to name who lacks what, if
anything is missing). In between, the driver joins small results into the publish graph.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from causalcast.errors import MissingDependency, TraceError
from causalcast.pipeline import check_run
from causalcast.pipeline.check_run import Checked, Counts, Piece
from causalcast.pipeline.checks import agreement
from causalcast.pipeline.logs import files_hold_whole_logs, read_logs, rows_in
from causalcast.pipeline.memberships import Memberships, read_memberships
from causalcast.pipeline.publish_graph import (
    PublishGraph,
    build_graph,
    direct_causes,
    number_publications,
    publish_rows,
)
from causalcast.trace.run_folder import event_files, read_header, read_small_tables

LARGE = 300_000  # rows; below, spreading one run over tasks costs more than it saves
RUNS_PER_TASK = 64  # bounds what is lost if a task is repeated, and keeps all cores busy
_RESULT = "item long, result binary"
_SCHEMA = pa.schema([("item", pa.int64()), ("result", pa.binary())])

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_runs(spark: Any, folders: Sequence[Path]) -> list[Checked]:
    """Check many runs, in the order given; the first unreadable one raises `TraceError`."""
    checked: dict[int, Checked] = {}
    small = []
    for place, folder in enumerate(folders):
        read_header(folder)
        files = event_files(folder)
        if rows_in(files) >= LARGE and len(files) > 1 and files_hold_whole_logs(files):
            checked[place] = _check_large(spark, folder, files)
        else:
            small.append(place)
    shares = [small[i : i + _share(len(small))] for i in range(0, len(small), _share(len(small)))]
    work = [[str(folders[place]) for place in share] for share in shares]
    for share, results in zip(shares, spread(spark, work, _check_share), strict=True):
        checked.update(zip(share, results, strict=True))
    return [checked[place] for place in range(len(folders))]


def _share(runs: int) -> int:
    return max(1, min(RUNS_PER_TASK, runs // 8))


def _check_share(folders: list[str]) -> list[Checked]:
    return [check_run.check_folder(Path(folder)) for folder in folders]


def _check_large(spark: Any, folder: Path, files: Sequence[Path]) -> Checked:
    small = read_small_tables(folder)
    memberships = read_memberships(small.nodes, small.members)
    redelivery = read_header(folder).redelivery == "after_recover"
    paths = [str(path) for path in files]

    published = spread(spark, paths, lambda path: publish_rows(read_logs(Path(path)), path))
    publications = number_publications(published)
    causes = spread(spark, paths, lambda path: direct_causes(read_logs(Path(path)), publications))
    graph = build_graph(publications, causes, memberships)
    pieces = spread(spark, paths, lambda path: _scan(path, graph, memberships, redelivery))

    silent = check_run.silent_views(pieces, graph, memberships)
    tally = agreement.total([piece.tally for piece in pieces], len(publications))
    for log in silent:
        tally.add(log)
    findings = [finding for piece in pieces for finding in piece.findings]
    broken = tally.broken()
    if broken.any():
        named = spread(spark, paths, lambda path: _name(path, graph, memberships, broken))
        findings += [finding for found in named for finding in found]
        findings += check_run.name_lacking(silent, broken)
    counts = Counts(
        len(memberships.by_node), len(publications), sum(piece.deliveries for piece in pieces)
    )
    return Checked(findings, counts, sorted(node for piece in pieces for node in piece.down))


def _scan(path: str, graph: PublishGraph, memberships: Memberships, redelivery: bool) -> Piece:
    return check_run.check_logs(read_logs(Path(path)), graph, memberships, redelivery)


def _name(path: str, graph: PublishGraph, memberships: Memberships, broken: Any) -> list[Any]:
    logs = check_run.views(read_logs(Path(path)), graph, memberships)
    return check_run.name_lacking(logs, broken)


def spread(spark: Any, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
    """Do `work` on each item, one Spark task per item, and give the results in order.

    A `TraceError` in a task comes back as a value: one bad file must not look like a Spark failure.
    """
    if not items:
        return []

    def run_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                try:
                    result: Any = work(items[place])
                except TraceError as error:
                    result = error
                packed = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([place], pa.int64()), pa.array([packed], pa.binary())],
                    schema=_SCHEMA,
                )

    count = len(items)
    rows = _collected(spark.range(0, count, 1, count).mapInArrow(run_task, _RESULT))
    results = {row["item"]: pickle.loads(row["result"]) for row in rows}
    for place in range(count):
        if isinstance(results[place], TraceError):
            raise results[place]
    return [results[place] for place in range(count)]


def _collected(frame: Any) -> list[Any]:
    """The rows of a frame; a failed job is told in one line, not in Spark's pages."""
    from pyspark.errors import PySparkException

    try:
        rows: list[Any] = frame.collect()
        return rows
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if "Error" in line]
        reason = lines[-1] if lines else type(error).__name__
        raise MissingDependency(f"the Spark job failed: {reason}") from error
