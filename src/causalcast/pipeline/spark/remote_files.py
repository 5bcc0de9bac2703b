"""Files that only Spark can reach: listed, read and written with its file systems and credentials.

Reading goes through Spark's `binaryFile` source, so it works wherever Spark does, also through
Connect, and each task gets its files from the JVM beside it. They are small, about four bytes per
event, and are put into a temporary folder of the task, where everything else reads them as usual.
Writing goes through Hadoop's file systems in the driver's JVM, which Connect does not show us.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from causalcast.errors import ConfigError, MissingDependency, TraceError
from causalcast.pipeline.logs.places import Place, RemoteFolder
from causalcast.pipeline.spark.spark_job import (
    RESULT,
    RESULT_SCHEMA,
    collected,
    in_order,
    packed_result,
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class RemoteFile:
    """A file as Spark lists it."""

    uri: str
    size: int


def list_files(spark: Any, folder: RemoteFolder) -> list[RemoteFile]:
    """Every file below a folder, or below all that its wildcards fit."""
    rows = _read(spark, [folder.uri], "path", "length", recursive=True)
    return sorted((RemoteFile(path, size) for path, size in rows), key=lambda file: file.uri)


def read_files(spark: Any, uris: Sequence[str]) -> dict[str, bytes]:
    """The content of some small files."""
    return dict(_read(spark, uris, "path", "content")) if uris else {}


def spread_files(
    spark: Any, items: Sequence[Sequence[str]], work: Callable[[int, list[Path]], Result]
) -> list[Result]:
    """Do `work` in Spark tasks on each item, some files that must come together.

    Items of one file each are read where they are worked on. Files of larger items are brought
    together first, as they are: compressed, and in one shuffle.
    """
    if not items:
        return []
    item_of = {uri: place for place, uris in enumerate(items) for uri in uris}
    frame = _frame(spark, list(item_of)).select("path", "content")
    if all(len(uris) == 1 for uris in items):

        def each_file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for uri, content in zip(*(column.to_pylist() for column in batch), strict=True):
                    yield _worked(item_of[uri], [(uri, content)], work)

        results = frame.mapInArrow(each_file, RESULT)
    else:
        from pyspark.sql import functions as F  # noqa: N812

        numbers = spark.createDataFrame(list(item_of.items()), "path string, item long")
        together = frame.join(F.broadcast(numbers), "path").groupBy("item")

        def each_item(table: pa.Table) -> pa.Table:
            files = sorted(
                zip(table["path"].to_pylist(), table["content"].to_pylist(), strict=True)
            )
            batch = _worked(table["item"][0].as_py(), files, work)
            return pa.Table.from_batches([batch], RESULT_SCHEMA)

        results = together.applyInArrow(each_item, RESULT)
    return in_order(collected(results), len(items))


def _worked(
    place: int, files: Sequence[tuple[str, bytes]], work: Callable[[int, list[Path]], Result]
) -> pa.RecordBatch:
    """The packed result of one item, its files in a folder of their own; complaints name URIs."""
    with tempfile.TemporaryDirectory(prefix="causalcast-") as folder:
        paths = write_files(Path(folder), files)

        def with_uris(_: None) -> Result:
            try:
                return work(place, paths)
            except TraceError as error:
                said = str(error)
                for path, (uri, _content) in zip(paths, files, strict=True):
                    said = said.replace(str(path), uri)
                parent = files[0][0].rpartition("/")[0]
                raise TraceError(said.replace(folder, parent)) from None

        return packed_result(place, with_uris, None)


def write_files(folder: Path, files: Sequence[tuple[str, bytes]]) -> list[Path]:
    """Copies of remote files in a local folder, under their own names."""
    paths = []
    for uri, content in files:
        paths.append(folder / uri.rpartition("/")[2])
        paths[-1].write_bytes(content)
    return paths


def _frame(spark: Any, uris: Sequence[str], recursive: bool = False) -> Any:
    reader = spark.read.format("binaryFile")
    if recursive:
        reader = reader.option("recursiveFileLookup", "true")
    return reader.load(list(uris))


def _read(spark: Any, uris: Sequence[str], *columns: str, recursive: bool = False) -> list[Any]:
    """Rows of files; where Spark cannot get at them, its reason in one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows: list[Any] = _frame(spark, uris, recursive).select(*columns).collect()
        return rows
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise TraceError(f"{uris[0]}: no such folder") from None
        reason = str(error)
    except Py4JJavaError as error:
        reason = str(error.java_exception)
    raise TraceError(f"{uris[0]}: Spark cannot read it ({_first_line(reason)})") from None


def upload(spark: Any, local: Path, remote: RemoteFolder) -> None:
    """Copy a file or folder to where Hadoop's file systems reach; it appears when it is whole."""
    hadoop = _hadoop(spark, remote)
    target = hadoop.path(remote.uri)
    half_done = hadoop.path(f"{target.getParent()}/.{target.getName()}.partial")
    from py4j.protocol import Py4JJavaError

    try:
        hadoop.system.delete(half_done, True)
        hadoop.system.mkdirs(target.getParent())
        source = hadoop.path(f"file://{local.resolve()}")  # not a URI: nothing is encoded
        hadoop.system.copyFromLocalFile(False, True, source, half_done)
        if local.is_file():
            hadoop.system.delete(target, False)  # a file replaces the one before it
        if not hadoop.system.rename(half_done, target):
            raise ConfigError(f"{remote}: cannot be written (a rename was refused)")
    except Py4JJavaError as error:
        reason = _first_line(str(error.java_exception))
        raise ConfigError(f"{remote}: cannot be written ({reason})") from None


def rename(spark: Any, remote: RemoteFolder, new: RemoteFolder) -> None:
    """Give a folder its name, once it is whole."""
    hadoop = _hadoop(spark, remote)
    if not hadoop.system.rename(hadoop.path(remote.uri), hadoop.path(new.uri)):
        raise ConfigError(f"{new}: cannot be written (a rename was refused)")


def remove(spark: Any, remote: RemoteFolder) -> None:
    """Remove a folder, if it is there."""
    hadoop = _hadoop(spark, remote)
    hadoop.system.delete(hadoop.path(remote.uri), True)


def exists(spark: Any, remote: RemoteFolder) -> bool:
    """Whether there is such a file or folder already."""
    hadoop = _hadoop(spark, remote)
    return bool(hadoop.system.exists(hadoop.path(remote.uri)))


@dataclass
class _Hadoop:
    path: Any
    system: Any


def _hadoop(spark: Any, remote: RemoteFolder) -> _Hadoop:
    from py4j.protocol import Py4JJavaError

    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise MissingDependency(
            f"{remote}: writing there needs Spark's own file systems, which Spark Connect does not"
            " offer; use --master, or write to a local folder"
        )
    path = jvm.org.apache.hadoop.fs.Path
    try:
        system = path(remote.uri).getFileSystem(spark._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        reason = _first_line(str(error.java_exception))
        raise ConfigError(f"{remote}: Spark cannot write there ({reason})") from None
    return _Hadoop(path, system)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[0]


@contextmanager
def written_to(spark: Any, where: Place) -> Iterator[Path]:
    """A path to write a file or a folder to; for a remote place it is then brought there."""
    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="causalcast-out-") as folder:
        path = Path(folder) / where.name
        yield path
        upload(spark, path, where)
