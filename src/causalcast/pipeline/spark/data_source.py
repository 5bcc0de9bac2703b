"""Runs as a Spark data source, for anybody's notebook.

    spark.read.format("causalcast").load("runs/7")                          the events of a run
    spark.read.format("causalcast").load("runs")                            of all runs in a folder
    spark.read.format("causalcast").option("table", "members").load("runs/7")

Every row has the run's folder name in `run`. One partition per file. Paths are those of this
machine or shared by all, also as `file://`. The checks do not go through here: they read files
inside their tasks, which is faster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from causalcast.errors import ConfigError, TraceError
from causalcast.pipeline.logs.places import place_of
from causalcast.pipeline.spark.tables import EVENT_COLUMNS
from causalcast.trace.run_folder import event_files, read_header
from causalcast.trace.schema import EVENTS, GROUPS, MEMBERS, NODES

TABLES = {
    "events": (EVENTS, f"run string, {EVENT_COLUMNS}"),
    "nodes": (NODES, "run string, node int, name string, address string, zone string"),
    "groups": (GROUPS, "run string, group int, name string"),
    "members": (MEMBERS, "run string, group int, node int, from_pos long, to_pos long"),
}


class RunSource(DataSource):  # type: ignore[misc, unused-ignore]
    """The data source `causalcast`; options `path` (given by `load`) and `table`."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return "causalcast"

    def schema(self) -> str:
        """The columns of the table that was asked for."""
        return TABLES[self._table()][1]

    def reader(self, schema: Any) -> "RunReader":
        """A reader of the files of all runs under `path`."""
        path = self.options.get("path")
        if path is None:
            raise ConfigError("causalcast: load(PATH) needs the folder of a run, or of several")
        place = place_of(path)
        if isinstance(place, Path):
            return RunReader(place, self._table())
        raise ConfigError(
            f"causalcast: {path}: a data source in Python cannot use Spark's file systems;"
            f" spark.read.parquet('{path.rstrip('/')}/events') reads the events of a run, and"
            " verify, metrics and report read it as it is"
        )

    def _table(self) -> str:
        table = str(self.options.get("table", "events"))
        if table not in TABLES:
            raise ConfigError(
                f"causalcast: no table {table!r}, expected one of {', '.join(TABLES)}"
            )
        return table


class OneFile(InputPartition):  # type: ignore[misc, unused-ignore]
    """A file of a run."""

    def __init__(self, run: str, path: str) -> None:
        self.run = run
        self.path = path


class RunReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads one table of one or more runs."""

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    def partitions(self) -> list[OneFile]:
        """One per file."""
        return [
            OneFile(folder.name, str(file))
            for folder in _runs_in(self.path)
            for file in self._files_of(folder)
        ]

    def read(self, partition: OneFile) -> Iterator[pa.RecordBatch]:
        """The rows of one file, the run's name in front."""
        columns = TABLES[self.table][0]
        try:
            table = pq.read_table(partition.path, columns=columns.names, use_threads=False)
            table = table.select(columns.names).cast(_without_dictionaries(columns))
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise TraceError(f"{partition.path}: not a file of a trace ({reason})") from None
        run = pa.repeat(partition.run, len(table))
        yield from table.add_column(0, "run", run).to_batches()

    def _files_of(self, folder: Path) -> list[Path]:
        read_header(folder)
        return event_files(folder) if self.table == "events" else [folder / f"{self.table}.parquet"]


def _runs_in(path: Path) -> list[Path]:
    """The folder itself if it is a run, else every run in it."""
    path = path.resolve()
    if (path / "run.json").is_file() or not path.is_dir():
        return [path]
    runs = sorted(file.parent for file in path.glob("*/run.json"))
    if not runs:
        raise TraceError(f"{path}: neither a run nor a folder of runs (no run.json)")
    return runs


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Spark takes plain text only."""
    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in schema
        ]
    )
