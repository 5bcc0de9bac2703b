"""Places of runs on the command line: paths and URIs, and the verdicts on what lies there."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalcast.errors import ConfigError

if TYPE_CHECKING:
    from causalcast.pipeline.logs.places import Place, RemoteFolder, RunAtHand
    from causalcast.pipeline.verdicts.verdict import Verdict

RUN_HELP = "folder of a run; a URI such as s3a://… is read by Spark"


def place(text: str) -> "Place":
    """The type of an argument that names a run, wherever it lies."""
    from causalcast.pipeline.logs.places import place_of

    try:
        return place_of(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def remote_ones(places: "Sequence[Place]") -> "list[RemoteFolder]":
    """Those that only Spark can read."""
    return [where for where in places if not isinstance(where, Path)]


def look_at_folders(places: "Sequence[Place]", columns: bool = False) -> None:
    """A wrong path is told at once, not after Spark has started."""
    from causalcast.trace.run_folder import check_event_columns, event_files, read_header

    for folder in places:
        if isinstance(folder, Path):
            read_header(folder)
            for path in event_files(folder):
                if columns:
                    check_event_columns(path)


BRIEF_BYTES = 32 << 20  # of event files, some eight million rows: Spark mostly gets ready


def is_little(places: "Sequence[Place]", most: int = BRIEF_BYTES) -> bool:
    """Whether the event files of the runs at these places are few bytes together."""
    from causalcast.trace.run_folder import event_files

    size = 0
    for folder in places:
        if not isinstance(folder, Path):
            return False
        size += sum(path.stat().st_size for path in event_files(folder))
    return size <= most


@contextmanager
def runs_at_hand(spark: Any, places: "Sequence[Place]") -> "Iterator[list[RunAtHand]]":
    """The runs at some places; what had to be fetched is kept until the end."""
    from causalcast.pipeline.spark.remote_runs import fetch_runs

    with tempfile.TemporaryDirectory(prefix="causalcast-runs-") as folder:
        yield fetch_runs(spark, places, Path(folder))


@contextmanager
def written_to(spark: Any, where: "Place") -> Iterator[Path]:
    """A path to write a file or a folder to; for a remote place it is then brought there."""
    from causalcast.pipeline.spark.remote_files import upload

    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="causalcast-out-") as folder:
        path = Path(folder) / where.name
        yield path
        upload(spark, path, where)


@contextmanager
def whole_run(where: "Place", make_spark: Callable[[], Any]) -> Iterator[Path]:
    """A run as a folder of this machine; Spark is asked for only where that is needed."""
    if isinstance(where, Path):
        yield where
        return
    from causalcast.pipeline.spark.remote_runs import fetch_whole

    with tempfile.TemporaryDirectory(prefix="causalcast-run-") as folder:
        yield fetch_whole(make_spark(), where, Path(folder))


def verdicts_here(folders: "Sequence[Place]", promise: list[str] | None) -> "list[Verdict]":
    """Check runs in this process, and say what is to be said of each."""
    from causalcast.pipeline.check.check_run import check_folder
    from causalcast.pipeline.verdicts.verdict import verdict_of

    return [
        verdict_of(folder, check_folder(folder), promise)
        for folder in folders
        if isinstance(folder, Path)
    ]


def verdicts_on(
    spark: Any, runs: "Sequence[RunAtHand]", promise: list[str] | None
) -> "list[Verdict]":
    """Check runs on Spark, here and elsewhere, and say what is to be said of each."""
    from causalcast.pipeline.spark.remote_runs import check_remote_runs, fetch_examples
    from causalcast.pipeline.spark.spark_job import check_runs
    from causalcast.pipeline.verdicts.verdict import examples_of, verdict_of

    here = iter(check_runs(spark, [run.folder for run in runs if not run.is_remote]))
    elsewhere = iter(check_remote_runs(spark, [run for run in runs if run.is_remote]))
    found = []
    for run in runs:
        checked = next(elsewhere if run.is_remote else here)
        if run.is_remote:
            fetch_examples(spark, run, examples_of(checked.findings))
        found.append(verdict_of(run, checked, promise))
    return found
