"""Collects the rows of a run in memory, in the order they happen.

A row is appended as a tuple and nothing else is done, for a simulation may write millions; columns
are made in chunks, and positions when the run is over: `pos` is how many rows of the same node
came before. `NONE` stands for "no value" in the integer columns and becomes null in the file.
Who takes the rows as they are needs no pyarrow.
"""

from typing import Any

from causalcast.trace.kinds import KIND_CODE, KINDS, LEVELS, NONE

_CHUNK_ROWS = 1 << 20
RecordedRow = tuple[int, int, int, int, int, int, int, int, int, str | None]


class Recorder:
    """Rows of all nodes of a run, at one level of detail."""

    def __init__(self, level: str) -> None:
        wanted = LEVELS[level]
        self.level = level
        self.wants = [kind in wanted for kind in KINDS]
        self._rows: list[RecordedRow] = []
        self._chunks: list[Any] = []

    def add(
        self,
        node: int,
        at_us: int,
        kind: int,
        message: int = NONE,
        group: int = NONE,
        peer: int = NONE,
        payload_bytes: int = NONE,
        metadata_bytes: int = NONE,
        value: int = NONE,
        note: str | None = None,
    ) -> None:
        """Append one row at `node`, if the level asks for its kind."""
        if self.wants[kind]:
            self._rows.append(
                (
                    node,
                    at_us,
                    kind,
                    message,
                    group,
                    peer,
                    payload_bytes,
                    metadata_bytes,
                    value,
                    note,
                )
            )
            if len(self._rows) == _CHUNK_ROWS:
                self._close_chunk()

    def rows(self) -> list[RecordedRow]:
        """The rows of a run that is small enough to have none of them in columns yet."""
        assert not self._chunks, "too many rows to look at them one by one"
        return self._rows

    def take(self) -> list[RecordedRow]:
        """The rows added since the last time, which are kept here no longer."""
        rows, self._rows = self._rows, []
        return rows

    def table(self) -> Any:
        """All rows in the order `node, pos`, as a table of pyarrow."""
        from causalcast.trace.event_table import table_of_chunks

        self._close_chunk()
        return table_of_chunks(self._chunks)

    def _close_chunk(self) -> None:
        if self._rows:
            from causalcast.trace.event_table import columns_of

            self._chunks.append(columns_of(self._rows))
            self._rows = []


def code_of(kind: str) -> int:
    """The number `Recorder.add` wants for a kind."""
    return KIND_CODE[kind]
