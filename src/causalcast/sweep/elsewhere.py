"""A sweep whose runs go where only Spark can write: tasks hand their runs over, the driver's JVM
writes them, a slice of points at a time. What is there already is judged where it lies."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from causalcast.pipeline.logs.places import RemoteFolder, RunAtHand
from causalcast.pipeline.spark.remote_files import exists, list_files, upload
from causalcast.pipeline.spark.remote_runs import fetch_runs
from causalcast.pipeline.verify import verify
from causalcast.sweep.grid import Point
from causalcast.sweep.point import FAILED, Outcome, check_made_from, outcome_of, run_point
from causalcast.trace.run_folder import read_header

SLICE = 64  # points: bounds what waits in the driver, and what a kill loses

Files = list[tuple[str, bytes]]


def judge_done(spark: Any, points: Sequence[Point], out: RemoteFolder) -> dict[str, Outcome]:
    """The outcomes of the points whose runs are there, by name."""
    with runs_there(spark, out) as there:
        done = [point for point in points if point.name in there]
        runs = [there[point.name] for point in done]
        for point, run in zip(done, runs, strict=True):
            check_made_from(point, read_header(run.folder), str(run.place))
        verdicts = verify(runs, spark=spark)
        pairs = zip(done, verdicts, strict=True)
        return {point.name: outcome_of(point, verdict) for point, verdict in pairs}


@contextmanager
def runs_there(spark: Any, out: RemoteFolder) -> Iterator[dict[str, RunAtHand]]:
    """The runs in a folder, by name; none if there is no such folder yet."""
    with tempfile.TemporaryDirectory(prefix="causalcast-sweep-") as folder:
        begun = exists(spark, out) and any(
            file.uri.endswith("/run.json") for file in list_files(spark, out)
        )
        runs = fetch_runs(spark, [out], Path(folder)) if begun else []
        yield {run.place.name: run for run in runs}


def make_run(point: Point, level: str | None) -> tuple[Outcome, Files]:
    """In a task: the outcome of a point, and the files of its run."""
    with tempfile.TemporaryDirectory(prefix="causalcast-point-") as folder:
        outcome = run_point(point, Path(folder), level)
        made = Path(folder) / point.name
        paths = sorted(path for path in made.rglob("*") if path.is_file())
        return outcome, [(str(path.relative_to(made)), path.read_bytes()) for path in paths]


def bring(spark: Any, outcome: Outcome, files: Files, out: RemoteFolder) -> None:
    """In the driver: write the run of a point; it appears when it is whole."""
    if outcome.verdict == FAILED:
        return
    with tempfile.TemporaryDirectory(prefix="causalcast-point-") as folder:
        made = Path(folder) / outcome.point.name
        (made / "events").mkdir(parents=True)
        for name, content in files:
            (made / name).write_bytes(content)
        upload(spark, made, out / outcome.point.name)


def run_slices(
    points: Sequence[Point],
    work: Callable[[Sequence[Point]], list[Outcome]],
    progress: Callable[[float], None] | None,
) -> list[Outcome]:
    """Run the points in slices, so that each slice is written before the next begins."""
    outcomes: list[Outcome] = []
    for first in range(0, len(points), SLICE):
        outcomes += work(points[first : first + SLICE])
        if progress is not None:
            progress(len(outcomes) / len(points))
    return outcomes
