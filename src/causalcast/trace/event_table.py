"""Rows that a recorder collected, as the table of a trace's events."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from causalcast.trace.kinds import KINDS, NONE
from causalcast.trace.schema import EVENTS

_NULLABLE = ("message", "group", "peer", "payload_bytes", "metadata_bytes", "value")
_WRITTEN = [name for name in EVENTS.names if name != "pos"]


def columns_of(rows: list[Any]) -> pa.RecordBatch:
    """Rows in the order of their recording, as columns."""
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


def table_of_chunks(chunks: list[pa.RecordBatch]) -> pa.Table:
    """All rows in the order `node, pos`."""
    if not chunks:
        return EVENTS.empty_table()
    table = pa.Table.from_batches(chunks).unify_dictionaries().combine_chunks()
    order = pc.sort_indices(table, sort_keys=[("node", "ascending")])  # stable
    table = table.take(order)
    runs = pc.run_end_encode(table.column("node").combine_chunks()).run_ends.to_pylist()
    lengths = [end - start for start, end in zip([0, *runs], runs, strict=False)]
    positions = pa.concat_arrays([pa.array(range(n), pa.int64()) for n in lengths])
    return table.add_column(1, EVENTS.field("pos"), positions).cast(EVENTS)
