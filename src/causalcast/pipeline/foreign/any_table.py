"""A table of events that somebody has in Spark, wherever it came from, made into a run.

The columns are those of a line in JSON (docs/formats.md).
"""

from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.foreign.foreign_import import import_parsed
from causalcast.pipeline.foreign.foreign_lines import parse_table

NEEDED = ("node", "kind", "message")
TIMES = ("pos", "time", "at_us", "at_ns")


def check_columns(frame: Any) -> None:
    """A table without the columns that every event has is refused."""
    for column in NEEDED:
        if column not in frame.columns:
            raise ConfigError(f"the table has no column {column!r}; it needs {', '.join(NEEDED)}")
    if not any(column in frame.columns for column in TIMES):
        raise ConfigError(f"the table has none of the columns {', '.join(TIMES)}")


def import_table(
    frame: Any, folder: Path, name: str, redelivery: str | None, whole: bool | None
) -> None:
    """Write the run that the table tells of to a new folder."""
    import_parsed(
        frame.sparkSession, None, parse_table(frame, name), folder, name, redelivery, whole
    )
