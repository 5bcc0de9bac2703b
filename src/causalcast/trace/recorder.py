"""Collects the rows of a run in memory, node by node in the order they happened.

A row is appended as a tuple; columns are made in chunks. `NONE` stands for "no value" in the
integer columns and becomes null in the file.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from causalcast.trace.schema import EVENTS, KIND_CODE, KINDS, LEVELS

NONE = -1  # node, group and message ids are never negative
_CHUNK_ROWS = 1 << 17
_NULLABLE = ("message", "group", "peer", "payload_bytes", "metadata_bytes", "value")


class Recorder:
    """Rows of all nodes of a run, at one level of detail."""

    def __init__(self, level: str) -> None:
        wanted = LEVELS[level]
        self.level = level
        self.wants = [kind in wanted for kind in KINDS]
        self.rows_written: dict[int, int] = {}  # per node: the next `pos`
        self._rows: list[tuple[int, int, int, int, int, int, int, int, int, int, str | None]] = []
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
        if not self.wants[kind]:
            return
        pos = self.rows_written.get(node, 0)
        self.rows_written[node] = pos + 1
        self._rows.append(
            (
                node,
                pos,
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
        if len(self._rows) >= _CHUNK_ROWS:
            self._close_chunk()

    def next_pos(self, node: int) -> int:
        """The `pos` that the next row of `node` gets."""
        return self.rows_written.get(node, 0)

    def table(self) -> pa.Table:
        """All rows in the order `node, pos`."""
        self._close_chunk()
        if not self._chunks:
            return EVENTS.empty_table()
        table = pa.Table.from_batches(self._chunks).unify_dictionaries().combine_chunks()
        order = pc.sort_indices(table, sort_keys=[("node", "ascending"), ("pos", "ascending")])
        return table.take(order)

    def _close_chunk(self) -> None:
        if self._rows:
            self._chunks.append(_columns(self._rows))
            self._rows = []


def _columns(rows: list[Any]) -> pa.RecordBatch:
    by_name = dict(zip(EVENTS.names, zip(*rows, strict=True), strict=True))
    columns = []
    for field in EVENTS:
        values = by_name[field.name]
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
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def code_of(kind: str) -> int:
    """The number `Recorder.add` wants for a kind."""
    return KIND_CODE[kind]
