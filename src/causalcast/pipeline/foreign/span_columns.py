"""Operations of spans as Arrow's columns, as they travel on Spark from readers to traces.

A key is 24 bytes here, not 48 digits. What few values have in common (service, process, topic,
share) is one text, a *place*, which nobody looks into before the few there are have been collected.
"""

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from causalcast.errors import TraceError
from causalcast.trace.spans.operations import OTHER, PROCESS, PUBLISH, RECEIVE, Operation
from causalcast.trace.spans.rules import SpanRules

ERROR, TORN = "error", "torn"  # rows that say something of others
ROLES = (OTHER, PUBLISH, PROCESS, RECEIVE, ERROR, TORN)
CODE_OF = {role: code for code, role in enumerate(ROLES)}
FAILED, CREATES = 8, 16  # bits above those of a role
ROLE_BITS = 7

OPERATIONS = pa.schema([
    ("trace", pa.binary()), ("key", pa.binary()), ("parent", pa.binary()), ("what", pa.int16()),
    ("start", pa.int64()), ("end", pa.int64()), ("links", pa.list_(pa.binary())),
    ("place", pa.string()), ("name", pa.string()), ("order_key", pa.string()),
    ("attempt", pa.int32()),
])  # fmt: skip
_FIELDS = attrgetter(
    "trace", "key", "parent", "role", "failed", "creates", "start", "end", "links", "service",
    "process", "topic", "share", "name", "order_key", "attempt",
)  # fmt: skip
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


def place_of(service: str, process: str, topic: str, share: str) -> str:
    """One text for all of them."""
    return json.dumps([service, process, topic, share])


def parts_of(place: str) -> tuple[str, str, str, str]:
    """Service, process, topic and share again."""
    service, process, topic, share = json.loads(place)
    return service, process, topic, share


class Operations:
    """Operations that are read, until they become a batch; and what is said of their files."""

    def __init__(self, rules: SpanRules) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.remarks: list[tuple[str, str]] = []
        self._by_id = rules.message == "id"
        self._places: dict[tuple[str, str, str, str], str] = {}

    def read(self, operations: Iterable[Operation], where: str) -> None:
        """All of a file or a part of it; what is wrong ends it with a remark."""
        try:
            self.rows.extend(map(_FIELDS, operations))
        except TraceError as error:
            said = str(error)
            self.remark(ERROR, said if where in said else f"{where}: {said}")

    def remark(self, role: str, what: str) -> None:
        """Something is wrong with a file, or torn."""
        self.remarks.append((role, what.replace("file://", "")))

    def batch(self) -> pa.RecordBatch:
        """What was read, which is forgotten here; what cannot be told becomes a remark."""
        rows, self.rows = self.rows, []
        remarks, self.remarks = self.remarks, []
        if rows:
            try:
                return (
                    self._batch(rows)
                    if not remarks
                    else pa.concat_batches([self._batch(rows), _remarks(remarks)])
                )
            except TraceError as error:
                remarks.append((ERROR, str(error)))
        return _remarks(remarks)

    def _batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        (traces, keys, parents, roles, failed, creates, starts, ends, links, services, processes,
         topics, shares, names, order_keys, attempts) = zip(*rows, strict=True)  # fmt: skip
        known = self._places
        places = [
            known.get(place) or known.setdefault(place, place_of(*place))
            for place in zip(services, processes, topics, shares, strict=True)
        ]
        if not self._by_id:  # only publications are called by it then
            names = tuple(
                name if role == PUBLISH else None for name, role in zip(names, roles, strict=True)
            )
        what = np.array([CODE_OF[role] for role in roles], np.int16)
        what += FAILED * np.array(failed, np.int16) + CREATES * np.array(creates, np.int16)
        arrays = [
            unhex(traces), unhex(keys), unhex(parents), pa.array(what),
            pa.array(starts, pa.int64()), pa.array(ends, pa.int64()), _unhex_lists(links),
            pa.array(places, pa.string()), pa.array(names, pa.string()),
            pa.array([key or None for key in order_keys], pa.string()),
            pa.array(attempts, pa.int32()),
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS)


def _remarks(remarks: list[tuple[str, str]]) -> pa.RecordBatch:
    """Rows about files; the text stands where others have their place."""
    plain = {"trace": b"", "key": b"", "parent": b"", "start": 0, "end": 0, "links": [],
             "attempt": 0}  # fmt: skip
    rows = [{**plain, "what": CODE_OF[role], "place": text} for role, text in remarks]
    return pa.RecordBatch.from_pylist(rows, schema=OPERATIONS)


def unhex(texts: Iterable[str]) -> pa.Array:
    """Hexadecimal texts as bytes."""
    array = pa.array(texts, pa.string())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(array) + 1]
    digits = _DIGITS[np.frombuffer(data, np.uint8)[: ends[-1]]] if data else _DIGITS[:0]
    if (digits == _NO_DIGIT).any() or (ends % 2).any():
        raise TraceError("ids of spans must be hexadecimal")
    halves = [None, pa.py_buffer(ends // 2), pa.py_buffer(digits[::2] << 4 | digits[1::2])]
    return pa.Array.from_buffers(pa.binary(), len(array), halves)


def _unhex_lists(lists: Iterable[list[str]]) -> pa.Array:
    lists = list(lists)
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(one) for one in lists], out=ends[1:])
    flat = unhex([text for one in lists for text in one])
    return pa.ListArray.from_arrays(pa.array(ends), flat)
