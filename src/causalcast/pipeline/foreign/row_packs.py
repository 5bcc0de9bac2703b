"""Many narrow rows as one value, so that Spark moves them without looking at them.

A row that goes from a worker through Spark to another worker costs more there than any work that is
done on it. A *pack* is a batch of Arrow's in one column of bytes; beside it stands where it goes.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

KEY_BYTES = (16, 24)  # of traces and of spans; others are hashed one by one
_MIXING = np.uint64(0x9E3779B97F4A7C15)  # odd; spreads numbers that differ in few bits
Numbers = Any


def packed(rows: pa.Table, part: Numbers) -> Iterator[tuple[int, bytes]]:
    """The rows of each part, in their order; `part` says of each row where it goes."""
    order = np.argsort(part, kind="stable")
    sorted_rows = rows.take(pa.array(order)).combine_chunks()
    numbers, begins = np.unique(part[order], return_index=True)
    ends = np.append(begins[1:], len(part))
    for number, begin, end in zip(numbers.tolist(), begins, ends, strict=True):
        for batch in sorted_rows.slice(begin, end - begin).to_batches():
            yield number, batch.serialize().to_pybytes()


def unpacked(packs: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """The rows of some packs."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(pack), schema) for pack in packs]
    return pa.Table.from_batches(batches, schema=schema)


def part_by(values: pa.Array, parts: int) -> Numbers:
    """Where each value goes: equal ones to the same part."""
    return (_hashes(values) % np.uint64(parts)).astype(np.int32)


def _hashes(values: pa.Array) -> Numbers:
    """A number of each value, by its bytes alone. Two may have the same: they only meet."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]
    there = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    found = np.zeros(len(values), np.uint64)
    sizes = np.diff(ends)
    for size in KEY_BYTES:
        at = np.flatnonzero(sizes == size)
        found[at] = _mixed(there[ends[:-1][at][:, None] + np.arange(size)].view(np.uint64))
    for other in np.flatnonzero(~np.isin(sizes, KEY_BYTES)).tolist():
        found[other] = zlib.crc32(values[other].as_py())
    return found


def _mixed(words: Numbers) -> Numbers:
    mixed = np.zeros(len(words), np.uint64)
    for column in words.T:
        mixed = (mixed ^ column) * _MIXING
        mixed ^= mixed >> np.uint64(32)
    return mixed
