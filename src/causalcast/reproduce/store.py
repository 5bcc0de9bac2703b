"""Rows of a campaign on disk: each is written when its point is done, and found again later."""

import csv
import functools
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.reproduce.figure import FigurePoint
from causalcast.version import VERSION

Row = dict[str, Any]
PACKAGE = Path(__file__).parents[1]
NO_MEASUREMENT = ("cli", "clients", "dashboard", "lab", "runtime")
"""Folders of the package that no result depends on."""
ONLY_SHOWS = ("campaign", "checks", "drawing", "figure", "page", "properties", "results", "store",
    "verdicts")  # fmt: skip
"""Modules of this folder that look at results, and make none."""


class Store:
    """The folder of a campaign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._points = folder / "points"
        try:
            self._points.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {folder}: cannot be written ({error.strerror})") from None

    def row(self, point: FigurePoint) -> Row | None:
        """The row of a point that was done by this version, in whichever figure."""
        try:
            found: Row = json.loads(self._file(point).read_text())
        except (OSError, ValueError):
            return None
        return {**found, **point.label()}

    def keep(self, point: FigurePoint, row: Row) -> None:
        """Write the row of a point; who is killed meanwhile leaves none."""
        file = self._file(point)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(row, indent=1))
        unfinished.replace(file)

    def write_table(self, name: str, rows: Sequence[Row]) -> None:
        """A result table as CSV and as Parquet."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        titles = list(dict.fromkeys(title for row in rows for title in row))
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, titles)
            writer.writeheader()
            writer.writerows(rows)
        table = pa.table({title: [row.get(title) for row in rows] for title in titles})
        pq.write_table(table, self.folder / f"{name}.parquet")

    def _file(self, point: FigurePoint) -> Path:
        return self._points / f"{point.family}-{key_of(point)}.json"


def key_of(point: FigurePoint) -> str:
    """What a result depends on: the version, the code, the family and all values."""
    text = json.dumps([VERSION, hash_of_code(), point.family, point.values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def hash_of_code(package: Path = PACKAGE) -> str:
    """Of the source of all that measures: protocols, their parts, simulator, codec, families.

    A result of an older tree must not be taken for one of this tree.
    """
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        shows = inside.parts[0] == "reproduce" and inside.stem in ONLY_SHOWS
        if inside.parts[0] not in NO_MEASUREMENT and not shows:
            found.update(f"{inside.as_posix()}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()
