"""Rows of a campaign on disk: each is written when its point is done, and found again later."""

import csv
import functools
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.reproduce.figure import FigurePoint
from causalcast.version import VERSION

Row = dict[str, Any]
CODE = "code"
"""The column that says which code measured a row, by the first digits of its hash."""
DIGITS = 12
PACKAGE = Path(__file__).parents[1]
NO_MEASUREMENT = ("cli", "clients", "dashboard", "lab", "runtime", "samples")
"""Folders of the package that no result depends on; an installed one has samples, a clone none."""
REAL = "real"
"""The family of real nodes, which depends on what they run."""
RUN_BY_NODES = "runtime"
ONLY_SHOWS = ("campaign", "checks", "documented", "drawing", "figure", "page", "properties",
    "results", "shown", "store", "verdicts")  # fmt: skip
"""Modules of this folder that look at results, and make none."""


class Store:
    """The folder of a campaign. Its `points`, one file each, may be those of several campaigns."""

    def __init__(self, folder: Path, points: Path | None = None, any_code: bool = False) -> None:
        self.folder = folder
        self.any_code = any_code
        """Whether to take results of whatever code, the latest of each point."""
        self.points = points or folder / "points"
        try:
            for made in (self.folder, self.points):
                made.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {folder}: cannot be written ({error.strerror})") from None

    def row(self, point: FigurePoint) -> Row | None:
        """The row of a point that was done by this version, in whichever figure."""
        if self.any_code:
            kept = self._latest.get(_named(point.family, point.values))
        else:
            kept = _read(self._file(point))
        if kept is None:
            return None
        return {**kept["row"], **point.label(), CODE: kept["code"][:DIGITS]}

    def keep(self, point: FigurePoint, row: Row) -> None:
        """Write the row of a point; who is killed meanwhile leaves none."""
        file = self._file(point)
        unfinished = file.with_suffix(f".{os.getpid()}")
        kept = {
            "family": point.family,
            "values": point.values,
            "code": code_of(point.family),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "row": row,
        }
        unfinished.write_text(json.dumps(kept, indent=1))
        unfinished.replace(file)

    @functools.cached_property
    def _latest(self) -> dict[str, Row]:
        every = [kept for file in self.points.glob("*.json") if (kept := _read(file)) is not None]
        every.sort(key=lambda kept: str(kept["at"]))
        return {_named(kept["family"], kept["values"]): kept for kept in every}

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
        return self.points / f"{point.family}-{key_of(point)}.json"


def _read(file: Path) -> Row | None:
    """What was kept; nothing if it is not there, or was written by an older version."""
    try:
        kept: Row = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return kept if {"family", "values", "code", "at", "row"} <= kept.keys() else None


def _named(family: str, values: Row) -> str:
    return json.dumps([family, values], sort_keys=True)


def key_of(point: FigurePoint) -> str:
    """What a result depends on: the version, the code, the family and all values."""
    text = json.dumps([VERSION, code_of(point.family), point.family, point.values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_of(family: str) -> str:
    """The hash of what a family of measurements depends on."""
    return hash_of_code(also=RUN_BY_NODES) if family == REAL else hash_of_code()


@functools.cache
def hash_of_code(package: Path = PACKAGE, also: str = "") -> str:
    """Of the source of all that measures: protocols, their parts, simulator, codec, families.

    A result of an older tree must not be taken for one of this tree. `also` is a folder that few
    results depend on.
    """
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        shows = inside.parts[0] == "reproduce" and inside.stem in ONLY_SHOWS
        left_out = inside.parts[0] in NO_MEASUREMENT and inside.parts[0] != also
        if not left_out and not shows:
            found.update(f"{inside.as_posix()}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()
