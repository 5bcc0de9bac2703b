"""All points of some figures: those that are not done yet run in processes, or as Spark tasks."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from causalcast.errors import CausalcastError
from causalcast.reproduce.families import FAMILIES
from causalcast.reproduce.figure import FigurePoint
from causalcast.reproduce.store import Row, Store, key_of

Progress = Callable[[int, int], None]
"""Hears how many points are done, and of how many."""


def run_points(
    points: Sequence[FigurePoint],
    store: Store,
    processes: int,
    spark: Any = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Run what is not done, and return all rows in the order of the points."""
    several = {key_of(point): point for point in points}  # figures may share points
    missing = [point for point in several.values() if store.row(point) is None]
    done = len(points) - len(missing)
    told = progress or (lambda _done, _all: None)
    told(done, len(points))
    if spark is not None:
        from causalcast.pipeline.spark.spark_job import spread

        folder, kept = store.folder.resolve(), store.points.resolve()
        spread(spark, missing, lambda point: run_and_keep(point, folder, kept), tasks=len(missing))
        told(len(points), len(points))
    else:
        for _ in _on_processes(missing, store, processes):
            done += 1
            told(done, len(points))
    return [row for point in points if (row := store.row(point)) is not None]


def _on_processes(points: Sequence[FigurePoint], store: Store, processes: int) -> Iterator[None]:
    if processes == 1 or len(points) < 2:
        for point in points:
            run_and_keep(point, store.folder, store.points)
            yield
        return
    with _pool(min(processes, len(points))) as pool:
        tasks = [pool.submit(run_and_keep, point, store.folder, store.points) for point in points]
        for task in as_completed(tasks):
            task.result()
            yield


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_and_keep(point: FigurePoint, folder: Path, kept: Path) -> None:
    """Measure one point and write its row. What goes wrong is a row, too: the others go on.

    `seconds` is how long this process computed for it.
    """
    started = time.process_time()
    try:
        measured = FAMILIES[point.family](point.values)
    except CausalcastError as failure:
        measured = {"error": str(failure)}
    except Exception as failure:
        measured = {"error": f"{type(failure).__name__}: {failure}".splitlines()[0]}
    seconds = round(time.process_time() - started, 3)
    Store(folder, kept).keep(point, {**point.label(), **measured, "seconds": seconds})
