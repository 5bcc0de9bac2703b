"""All points of a sweep on Spark: one task per simulation, traces and results to Parquet."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.errors import ConfigError, MissingDependency
from causalcast.pipeline.metrics.summary import summary
from causalcast.pipeline.spark_job import spread
from causalcast.pipeline.tables import read_tables
from causalcast.sweep.grid import Point
from causalcast.sweep.point import FAILED, Outcome, is_done, run_point, scenario_of

RESULTS = "results.parquet"
LOOK_SECONDS = 0.5


def check_points(points: Sequence[Point]) -> None:
    """A wrong key or value is told before anything runs; seeds change nothing about that."""
    looked_at = set()
    for point in points:
        key = (point.text, point.protocol, tuple(point.settings.items()))
        if key not in looked_at:
            looked_at.add(key)
            scenario_of(point)


def run_sweep(
    spark: Any,
    points: Sequence[Point],
    out: Path,
    level: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Outcome]:
    """Run what is not done yet, and judge everything; outcomes in the order of the points."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror})") from None
    done = {point.name for point in points if is_done(point, out / point.name)}
    with _counted(points, out, progress):
        outcomes = _spread(spark, points, out.resolve(), level)
    for outcome in outcomes:
        if outcome.point.name in done:
            outcome.attempts = 0
    return outcomes


def _spread(spark: Any, points: Sequence[Point], out: Path, level: str | None) -> list[Outcome]:
    try:
        return spread(spark, points, lambda point: run_point(point, out, level), tasks=len(points))
    except MissingDependency as error:
        if len(points) == 1:
            return [Outcome(points[0], FAILED, error=str(error), attempts=1)]
    # A task took its whole worker with it (out of memory, say). What is done is on disk; the rest
    # is tried one by one, so that the culprit is found.
    return [outcome for point in points for outcome in _spread(spark, [point], out, level)]


@contextmanager
def _counted(
    points: Sequence[Point], out: Path, progress: Callable[[float], None] | None
) -> Iterator[None]:
    """Tell how many run folders are there while tasks make more."""
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


def write_results(spark: Any, outcomes: Sequence[Outcome], out: Path) -> list[dict[str, Any]]:
    """One row per point with its verdict and metrics, into `results.parquet`; the rows."""
    there = [outcome for outcome in outcomes if outcome.verdict != FAILED]
    folders = [out / outcome.point.name for outcome in there]
    measured = summary(read_tables(spark, folders), len(folders)) if folders else []
    of_point = {o.point.name: values for o, values in zip(there, measured, strict=True)}
    rows = [_row(outcome, of_point.get(outcome.point.name, {})) for outcome in outcomes]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    pq.write_table(pa.table(columns), out / RESULTS)
    return rows


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
