"""All points of a sweep on Spark: one task per simulation, traces and results to Parquet."""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import ConfigError, MissingDependency
from causalcast.pipeline.logs.places import Place, RemoteFolder, RunAtHand
from causalcast.pipeline.metrics.summary import summary
from causalcast.pipeline.spark.remote_files import upload
from causalcast.pipeline.spark.spark_job import spread
from causalcast.pipeline.spark.tables import read_tables
from causalcast.sweep import elsewhere
from causalcast.sweep.grid import Point
from causalcast.sweep.point import FAILED, Outcome, is_done, run_point, scenario_of

RESULTS = "results.parquet"
LOOK_SECONDS = 0.5

Result = TypeVar("Result")


def check_points(points: Sequence[Point]) -> None:
    """Refuse wrong keys and values before anything runs. Seeds make no difference."""
    looked_at = set()
    for point in points:
        key = (point.text, point.protocol, tuple(point.settings.items()))
        if key not in looked_at:
            looked_at.add(key)
            scenario_of(point)


def run_sweep(
    spark: Any,
    points: Sequence[Point],
    out: Place,
    level: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Outcome]:
    """Run what is not done yet, and judge everything; outcomes in the order of the points."""
    if not isinstance(out, Path):
        return _run_elsewhere(spark, points, out, level, progress)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror})") from None
    done = {point.name for point in points if is_done(point, out / point.name)}
    folder = out.resolve()
    with _counted(points, out, progress):
        outcomes = _spread(spark, points, lambda point: run_point(point, folder, level), _failed)
    for outcome in outcomes:
        if outcome.point.name in done:
            outcome.attempts = 0
    return outcomes


def _run_elsewhere(
    spark: Any,
    points: Sequence[Point],
    out: RemoteFolder,
    level: str | None,
    progress: Callable[[float], None] | None,
) -> list[Outcome]:
    outcomes = elsewhere.judge_done(spark, points, out)

    def run_slice(some: Sequence[Point]) -> list[Outcome]:
        made = _spread(
            spark,
            some,
            lambda point: elsewhere.make_run(point, level),
            lambda point, error: (_failed(point, error), []),
        )
        for outcome, files in made:
            elsewhere.bring(spark, outcome, files, out)
        return [outcome for outcome, _ in made]

    missing = [point for point in points if point.name not in outcomes]
    for outcome in elsewhere.run_slices(missing, run_slice, progress):
        outcomes[outcome.point.name] = outcome
    return [outcomes[point.name] for point in points]


def _failed(point: Point, error: str) -> Outcome:
    return Outcome(point, FAILED, error=error, attempts=1)


def _spread(
    spark: Any,
    points: Sequence[Point],
    work: Callable[[Point], Result],
    failed: Callable[[Point, str], Result],
) -> list[Result]:
    try:
        return spread(spark, points, work, tasks=len(points))
    except MissingDependency as error:
        if len(points) == 1:
            return [failed(points[0], str(error))]
    # A task took its whole worker with it (out of memory, say). What is done is on disk; the rest
    # is tried one by one, so that the culprit is found.
    return [result for point in points for result in _spread(spark, [point], work, failed)]


@contextmanager
def _counted(
    points: Sequence[Point], out: Path, progress: Callable[[float], None] | None
) -> Iterator[None]:
    """Report progress by counting the run folders that tasks have written."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            made = sum((out / point.name / "run.json").exists() for point in points)
            progress(made / len(points))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def write_results(spark: Any, outcomes: Sequence[Outcome], out: Place) -> list[dict[str, Any]]:
    """One row per point with its verdict and metrics, into `results.parquet`; the rows."""
    there = [outcome for outcome in outcomes if outcome.verdict != FAILED]
    names = [outcome.point.name for outcome in there]
    if isinstance(out, Path):
        measured = _measured(spark, [out / name for name in names])
    else:
        with elsewhere.runs_there(spark, out) as runs:
            measured = _measured(spark, [runs[name] for name in names])
    of_point = dict(zip(names, measured, strict=True))
    rows = [_row(outcome, of_point.get(outcome.point.name, {})) for outcome in outcomes]
    titles = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in titles})
    if isinstance(out, Path):
        pq.write_table(table, out / RESULTS)
    else:
        with tempfile.TemporaryDirectory(prefix="causalcast-results-") as folder:
            pq.write_table(table, Path(folder) / RESULTS)
            upload(spark, Path(folder) / RESULTS, out / RESULTS)
    return rows


def _measured(spark: Any, runs: Sequence[Path | RunAtHand]) -> list[dict[str, Any]]:
    return summary(read_tables(spark, runs), len(runs)) if runs else []


def _row(outcome: Outcome, metrics: dict[str, Any]) -> dict[str, Any]:
    point = outcome.point
    return {
        "run": point.name,
        "scenario": point.scenario,
        **point.varied,
        "seed": point.seed,
        "verdict": outcome.verdict,
        "violated": ",".join(outcome.violated) or None,
        "error": outcome.error,
        "attempts": outcome.attempts,
        "seconds": outcome.seconds,
        **metrics,
    }
