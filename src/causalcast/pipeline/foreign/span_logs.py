"""The rows of a slice of a node's log, put in order; and then as events of a trace."""

from collections.abc import Callable, Iterator
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalcast.pipeline.foreign.row_packs import unpacked
from causalcast.pipeline.foreign.span_messages import LOGGED
from causalcast.trace.kinds import KIND_CODE, KINDS
from causalcast.trace.schema import EVENTS
from causalcast.trace.spans.moments import CHILD, PARENT

SLICES = "slice int, pack binary, ties long"
_SLICES = pa.schema([("slice", pa.int32()), ("pack", pa.binary()), ("ties", pa.int64())])
ORDERED = LOGGED.append(pa.field("tied", pa.bool_()))
SAID = {"key": "string", "causes": "array<long>", "attempt": "int", "tied": "boolean"}
_SPARK = {pa.int32(): "int", pa.int64(): "long"}
EVENT_TYPES = {column.name: _SPARK.get(column.type, "string") for column in EVENTS}
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(),
          "array<long>": pa.list_(pa.int64())}  # fmt: skip
Numbers = Any
Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def put_in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`, over `slice, pack` sorted by slice: one pack per slice, in order."""
    rows = chain.from_iterable(
        zip(batch["slice"].to_pylist(), batch["pack"], strict=True) for batch in batches
    )
    for number, packs in groupby(rows, key=lambda row: row[0]):
        ordered = _ordered(unpacked((pack.as_buffer() for _, pack in packs), LOGGED))
        ties = ordered["tied"].drop_null()
        for batch in ordered.combine_chunks().to_batches():
            row = {"slice": number, "pack": batch.serialize().to_pybytes(), "ties": len(ties)}
            yield pa.RecordBatch.from_pylist([row], schema=_SLICES)


def _ordered(rows: pa.Table) -> pa.Table:
    """By time, rank, handling and message; with `tied`."""
    rows = rows.combine_chunks()
    at_ns = rows["at_ns"].to_numpy()
    order = np.argsort(at_ns, kind="stable")
    sorted_times = at_ns[order]
    same = sorted_times[1:] == sorted_times[:-1]
    if not same.any():
        return rows.take(pa.array(order)).append_column("tied", pa.nulls(len(rows), pa.bool_()))
    alike = np.flatnonzero(np.append(same, False) | np.append(False, same))
    few = rows.select(["at_ns", "rank", "handling", "message"]).take(pa.array(order[alike]))
    keys = [(name, "ascending") for name in few.column_names]
    order[alike] = order[alike][pc.sort_indices(few, sort_keys=keys).to_numpy()]
    rows = rows.take(pa.array(order))
    tied = _ties(rows, np.append(False, same))
    return rows.append_column("tied", pa.array(tied, mask=~tied))


def _ties(rows: pa.Table, same: Numbers) -> Numbers:
    """As `ties_of` does: equal times are not ordered, but answers follow what they answer."""
    rank = rows["rank"].to_numpy()
    handling = rows["handling"].combine_chunks().dictionary_encode().indices.to_numpy()
    begins = np.flatnonzero(~same)
    counts = np.diff(np.append(begins, len(same)))
    of_one = np.minimum.reduceat(handling, begins) == np.maximum.reduceat(handling, begins)
    first, last = np.minimum.reduceat(rank, begins), np.maximum.reduceat(rank, begins)
    answers = np.repeat(of_one & (first == PARENT) & (last == CHILD), counts)
    same_rank = np.append(False, rank[1:] == rank[:-1])
    return same & (~answers | same_rank)


def event_columns(said: dict[str, bool]) -> dict[str, str]:
    """The columns of events and their types, with those of other systems' facts that are there."""
    return EVENT_TYPES | {name: kind for name, kind in SAID.items() if said[name]}


def events_reader(
    columns: dict[str, str], node_of: list[int], first_pos: list[int], group_of: list[int],
    steady: set[int],
) -> Reader:  # fmt: skip
    """For `mapInArrow`, over what `put_in_order` gives: events.

    By slice, its node and the position of its first row; by topic, its group. What is delivered to
    the `steady` nodes is delivered for the first time.
    """
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])
    kinds = pa.array(KINDS, pa.string())
    groups = np.array(group_of, np.int32)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, pack in zip(batch["slice"].to_pylist(), batch["pack"], strict=True):
                rows = unpacked([pack.as_buffer()], ORDERED)
                count = len(rows)
                pos = np.arange(first_pos[number], first_pos[number] + count)
                found = {
                    "node": pa.array(np.full(count, node_of[number], np.int32)),
                    "pos": pa.array(pos),
                    "at_us": pa.array(rows["at_ns"].to_numpy() // 1000),
                    "kind": kinds.take(rows["kind"].combine_chunks()),
                    "message": rows["id"], "group": pa.array(groups[rows["topic"].to_numpy()]),
                    "note": rows["note"], **{name: rows[name] for name in SAID},
                }  # fmt: skip
                if node_of[number] in steady:
                    delivers = rows["kind"].to_numpy() == KIND_CODE["deliver"]
                    found["attempt"] = pa.array(np.ones(count, np.int32), mask=~delivers)
                table = pa.table([found.get(name, pa.nulls(count, schema.field(name).type))
                                  for name in schema.names], schema=schema)  # fmt: skip
                yield from table.to_batches(max_chunksize=20_000)

    return read
