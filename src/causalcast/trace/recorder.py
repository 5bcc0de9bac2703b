"""Collects the rows of a run in memory, in the order they happen.

A row is appended as a tuple and nothing else is done, for a simulation may write millions; columns
are made in chunks, and positions when the run is over: `pos` is how many rows of the same node
came before. `NONE` stands for "no value" in the integer columns and becomes null in the file.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from causalcast.trace.schema import EVENTS, KIND_CODE, KINDS, LEVELS

NONE = -1  # node, group and message ids are never negative
_CHUNK_ROWS = 1 << 20
_NULLABLE = ("message", "group", "peer", "payload_bytes", "metadata_bytes", "value")
_WRITTEN = [name for name in EVENTS.names if name != "pos"]


class Recorder:
    """Rows of all nodes of a run, at one level of detail."""

    def __init__(self, level: str) -> None:
        wanted = LEVELS[level]
        self.level = level
        self.wants = [kind in wanted for kind in KINDS]
        self._rows: list[tuple[int, int, int, int, int, int, int, int, int, str | None]] = []
        self._chunks: list[pa.RecordBatch] = []

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

    def take(self) -> list[tuple[int, int, int, int, int, int, int, int, int, str | None]]:
        """The rows added since the last time, which are kept here no longer."""
        rows, self._rows = self._rows, []
        return rows

    def table(self) -> pa.Table:
        """All rows in the order `node, pos`."""
        self._close_chunk()
        if not self._chunks:
            return EVENTS.empty_table()
        table = pa.Table.from_batches(self._chunks).unify_dictionaries().combine_chunks()
        order = pc.sort_indices(table, sort_keys=[("node", "ascending")])  # stable
        table = table.take(order)
        runs = pc.run_end_encode(table.column("node").combine_chunks()).run_ends.to_pylist()
        lengths = [end - start for start, end in zip([0, *runs], runs, strict=False)]
        positions = pa.concat_arrays([pa.array(range(n), pa.int64()) for n in lengths])
        return table.add_column(1, EVENTS.field("pos"), positions).cast(EVENTS)

    def _close_chunk(self) -> None:
        if self._rows:
            self._chunks.append(_columns(self._rows))
            self._rows = []


def _columns(rows: list[Any]) -> pa.RecordBatch:
    columns = []
    for name, values in zip(_WRITTEN, zip(*rows, strict=True), strict=True):
        field = EVENTS.field(name)
        if field.name == "kind":
            codes = pa.array(values, pa.int32())
            column = pa.DictionaryArray.from_arrays(codes, pa.array(KINDS))
        elif field.name == "note":
            column = pa.array(values, pa.string()).dictionary_encode()
        else:
            column = pa.array(values, field.type)
            if field.name in _NULLABLE:
                column = pc.if_else(pc.equal(column, NONE), None, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS.remove(1))


def code_of(kind: str) -> int:
    """The number `Recorder.add` wants for a kind."""
    return KIND_CODE[kind]
