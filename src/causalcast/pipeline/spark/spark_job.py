"""The checks as Spark jobs. Tasks get file names and read Parquet themselves: no row crosses the
JVM, nothing is shuffled, and the code uses neither `sparkContext` nor RDDs, so that it runs on
Spark Connect as well.

Many runs: one task checks several whole runs. A large run: its files are spread over tasks, once
for each of the looks that `check_run` takes. In between, the driver joins small results.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from causalcast.errors import MissingDependency, TraceError
from causalcast.pipeline.check.check_run import Checked, check_folder, check_pieces
from causalcast.pipeline.logs.logs import Logs, bundles, read_logs, rows_in
from causalcast.pipeline.logs.memberships import read_memberships
from causalcast.trace.run_folder import event_files, read_header, read_small_tables

LARGE = 300_000  # rows; below, spreading one run over tasks costs more than it saves
SURELY_SMALL = 100_000  # bytes: no 300,000 rows fit
ITEMS_PER_TASK = 8
MOST_TASKS_PER_CORE = 8  # so that a slow core can leave work to others
RUNS_PER_TASK = 64  # bounds what is lost if a task is repeated, and keeps all cores busy
RESULT = "item long, result binary"
RESULT_SCHEMA = pa.schema([("item", pa.int64()), ("result", pa.binary())])

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_runs(spark: Any, folders: Sequence[Path]) -> list[Checked]:
    """Check many runs, in the order given; the first unreadable one raises `TraceError`."""
    checked: dict[int, Checked] = {}
    small = []
    for place, folder in enumerate(folders):
        files = event_files(folder)
        parts = bundles(files) if _is_large(files) else []
        if len(parts) > 1:
            checked[place] = _check_large(spark, folder, parts)
        else:
            small.append(place)
    shares = [small[i : i + _share(len(small))] for i in range(0, len(small), _share(len(small)))]
    work = [[str(folders[place]) for place in share] for share in shares]
    for share, results in zip(shares, spread(spark, work, _check_share), strict=True):
        checked.update(zip(share, results, strict=True))
    return [checked[place] for place in range(len(folders))]


def _is_large(files: Sequence[Path]) -> bool:
    """Most files are told by their size alone: thousands of footers would take seconds to read."""
    small = sum(path.stat().st_size for path in files) < SURELY_SMALL
    return len(files) > 1 and not small and rows_in(files) >= LARGE


def _share(runs: int) -> int:
    return max(1, min(RUNS_PER_TASK, runs // 8))


def _check_share(folders: list[str]) -> list[Checked]:
    return [check_folder(Path(folder)) for folder in folders]


def _check_large(spark: Any, folder: Path, parts: Sequence[Sequence[Path]]) -> Checked:
    small = read_small_tables(folder)
    memberships = read_memberships(small.nodes, small.members)
    return check_pieces(read_header(folder), memberships, PiecesOnSpark(spark, parts))


class PiecesOnSpark:
    """Files of whole logs; each is read by the task that works on it."""

    def __init__(self, spark: Any, parts: Sequence[Sequence[Any]]) -> None:
        self.spark = spark
        self.parts = parts

    def each(
        self,
        work: Callable[[Logs], Result],
        places: Sequence[int] | None = None,
        with_times: bool = False,
    ) -> list[Result]:
        """Do `work` in Spark tasks, a few files each."""
        parts = self.parts if places is None else [self.parts[place] for place in places]
        return self.on_files(parts, lambda paths: work(read_logs(paths, with_times)))

    def on_files(
        self, parts: Sequence[Sequence[Any]], work: Callable[[Sequence[Path]], Result]
    ) -> list[Result]:
        """Do `work` where the files of each part can be opened."""
        return spread(self.spark, parts, work)


def spread(
    spark: Any, items: Sequence[Item], work: Callable[[Item], Result], tasks: int | None = None
) -> list[Result]:
    """Do `work` on each item in Spark tasks, so many or as suits, and give the results in order.

    A `TraceError` in a task comes back as a value: one bad file must not look like a Spark failure.
    """
    if not items:
        return []
    tasks = tasks or _tasks_for(len(items), spark)

    def run_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for place in range(task, len(items), tasks):
                    yield packed_result(place, work, items[place])

    # One row per task: `repartition` would leave some tasks empty.
    results = spark.range(0, tasks, 1, tasks).mapInArrow(run_task, RESULT)
    return in_order(collected(results), len(items))


def in_order(packed: pa.Table, items: int) -> list[Any]:
    """Packed results in the order of their items; the first error among them is raised."""
    columns = (packed["item"].to_pylist(), packed["result"])
    results = {item: pickle.loads(data.as_buffer()) for item, data in zip(*columns, strict=True)}
    for place in range(items):
        if isinstance(results[place], TraceError):
            raise results[place]
    return [results[place] for place in range(items)]


def packed_result(place: int, work: Callable[[Item], Result], item: Item) -> pa.RecordBatch:
    """What `work` gives for an item, or the `TraceError` it raised, as a row."""
    try:
        result: Any = work(item)
    except TraceError as error:
        result = error
    packed = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    columns = [pa.array([place], pa.int64()), pa.array([packed], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)


def _tasks_for(items: int, spark: Any) -> int:
    """A task costs 30 ms and more, so a core gets few; through Connect nobody tells us of cores."""
    from pyspark.errors import PySparkException

    try:
        cores: int = spark.sparkContext.defaultParallelism
    except PySparkException:
        return items
    rounds = max(1, min(MOST_TASKS_PER_CORE, items // (ITEMS_PER_TASK * cores)))
    return min(items, cores * rounds)


def collected(frame: Any) -> pa.Table:
    """The rows of a frame; a failed job is told in one line, not in Spark's pages.

    As Arrow tables: `collect` would pickle every result once more, a third of the time of a job.
    """
    from pyspark.errors import PySparkException

    try:
        return frame.toArrow()
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if "Error" in line]
        reason = lines[-1] if lines else type(error).__name__
        if "ModuleNotFoundError" in reason:
            reason += "; set PYSPARK_PYTHON to the Python that has causalcast, before the session"
        raise MissingDependency(f"the Spark job failed: {reason}") from error
