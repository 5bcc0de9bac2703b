"""Deliveries find their publications, and repetitions one another: all rows of some messages.

Whatever is said of a message stands in one part, so names are compared there, exactly. The rows
leave in packs again, by the slice of the log that they belong to. What is small is told in one row
per part.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalcast.pipeline.foreign.row_packs import packed, unpacked
from causalcast.pipeline.foreign.span_columns import CODE_OF, FAILED, ROLE_BITS, ROLES
from causalcast.pipeline.foreign.span_places import Places
from causalcast.pipeline.foreign.span_rows import DELIVERED
from causalcast.pipeline.foreign.span_slices import Slices
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.spans.operations import RECEIVE

# What comes: deliveries in packs, publications as rows, and messages that nobody published.
SPOKEN = (
    "part int, pack binary, message binary, at_ns long, rank byte, handling binary, node int,"
    " topic int, id long, again boolean, note string, key string, declared array<long>"
)
SPOKEN_NAMES = [field.split()[0] for field in SPOKEN.split(", ")]
UNKNOWN_TOPIC = -2  # of messages that nobody published
# What goes: rows of a slice, the first delivery of what nobody published, what is told of a part.
SLICE, FIRST_UNKNOWN, TOLD = range(3)
ROWS = (
    "sort byte, part int, slice int, file int, pack binary, node int, at_ns long, rank byte,"
    " handling binary, message binary"
)
_ROWS = pa.schema([
    ("sort", pa.int8()), ("part", pa.int32()), ("slice", pa.int32()), ("file", pa.int32()),
    ("pack", pa.binary()), ("node", pa.int32()), ("at_ns", pa.int64()), ("rank", pa.int8()),
    ("handling", pa.binary()), ("message", pa.binary()),
])  # fmt: skip
LOGGED = pa.schema([
    ("at_ns", pa.int64()), ("rank", pa.int8()), ("handling", pa.binary()),
    ("message", pa.binary()), ("kind", pa.int8()), ("id", pa.int64()), ("topic", pa.int32()),
    ("note", pa.string()), ("key", pa.string()), ("causes", pa.list_(pa.int64())),
    ("attempt", pa.int32()),
])  # fmt: skip
NOBODY = -1
PUBLISHED = -1  # in place of a share
Numbers = Any
Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def messages_reader(places: Places, slices: Slices, retries: str) -> Reader:
    """For `mapInArrow`, over rows with the columns `SPOKEN`."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        if kept:
            rows = pa.Table.from_batches(kept)
            packs = rows["pack"].drop_null()
            delivered = unpacked((pack.as_buffer() for pack in packs), DELIVERED)
            published = rows.filter(pc.field("pack").is_null()).combine_chunks()
            part = rows["part"][0].as_py()
            yield from _Messages(delivered, published, places, slices).batches(part, retries)

    return read


def strangers_reader(places: Places) -> Reader:
    """For the same rows: who publishes again what another published and it never delivered."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        if not kept:
            return
        rows = pa.Table.from_batches(kept)
        packs = rows["pack"].drop_null()
        delivered = unpacked((pack.as_buffer() for pack in packs), DELIVERED).to_pylist()
        came: dict[tuple[int, bytes], tuple[Any, ...]] = {}
        for row in delivered:
            fact = places.facts[row["place"]]
            if ROLES[row["what"] & ROLE_BITS] == RECEIVE and fact.is_processed:
                continue
            here = fact.node, row["message"]
            came[here] = min(_moment(row), came.get(here, _moment(row)))
        for row in rows.filter(pc.field("pack").is_null()).to_pylist():
            first = came.get((row["node"], row["message"]))
            if first is None or first > _moment(row):
                wrong = {name: row.get(name) for name in _ROWS.names}
                yield pa.RecordBatch.from_pylist([wrong], schema=_ROWS)

    return read


def _moment(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["at_ns"], row["rank"], row["handling"], row["message"]


class _Messages:
    """All that is said of some messages."""

    def __init__(
        self, delivered: pa.Table, published: pa.Table, places: Places, slices: Slices
    ) -> None:
        self.places, self.slices = places, slices
        self.published = published
        is_processed = _facts(delivered, places, "is_processed").astype(bool)
        role = delivered["what"].to_numpy() & ROLE_BITS
        only_received = (role == CODE_OF[RECEIVE]) & is_processed
        if only_received.any():
            delivered = delivered.filter(pa.array(~only_received))
        self.rows = delivered.combine_chunks()
        self.at_ns, self.rank = (self.rows[name].to_numpy() for name in ("at_ns", "rank"))
        self.failed = self.rows["what"].to_numpy() & FAILED > 0
        self.node, self.share, self.reader = (
            _facts(self.rows, places, name) for name in ("node", "share", "reader")
        )
        self._look_up(_facts(self.rows, places, "topic"))

    def _look_up(self, own_topic: Numbers) -> None:
        """Messages become numbers, equal ones the same; deliveries get what publications have."""
        count = len(self.rows)
        both = [*self.rows["message"].chunks, *self.published["message"].chunks]
        named = pa.chunked_array(both, pa.binary()).combine_chunks().dictionary_encode()
        number = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.message, of_published = number[:count], number[count:]
        row_of = np.full(len(named.dictionary) + 1, NOBODY, np.int64)
        row_of[of_published] = np.arange(len(of_published))
        self.publication = row_of[self.message]
        self.is_unknown = self.publication == NOBODY
        self.all_notes = self.published["note"].combine_chunks()
        self.is_nobodys = self.published["topic"].to_numpy() == UNKNOWN_TOPIC
        self.id: Numbers = self._of_publication("id")
        topic = self._of_publication("topic")
        self.topic: Numbers = np.where(self.is_unknown | (topic == UNKNOWN_TOPIC), own_topic, topic)

    def _of_publication(self, name: str) -> Numbers:
        return np.append(self.published[name].to_numpy(), NOBODY)[self.publication]

    def batches(self, part: int, retries: str) -> Iterator[pa.RecordBatch]:
        """The rows of both by slices, and what is told of this part."""
        attempt, retried = self._attempts(retries)
        self.published = self.published.filter(pa.array(~self.is_nobodys)).combine_chunks()
        rows = pa.concat_tables([self._publications(), self._deliveries(attempt)])
        node = np.concatenate([self.published["node"].to_numpy(), self.node])
        piece = self.slices.of(node, rows["at_ns"].to_numpy())
        found = [
            {"sort": SLICE, "part": part, "slice": number, "pack": pack,
             "file": self.slices.files[number]}
            for number, pack in packed(rows, piece)
        ]  # fmt: skip
        yield pa.RecordBatch.from_pylist(found, schema=_ROWS)
        firsts = self._first_unknown()
        yield self._unknown(part, firsts)
        counted = Counter(piece.tolist())
        told = {
            "firsts": self._first_places(), "unknown": len(firsts), "retries": retried,
            "attempts": bool(attempt.any()), "repeats": self._repeats(),
            "readers": np.unique(np.stack([self.node, self.reader]), axis=1).T.tolist(),
            "unsteady": self._unsteady_readers(),
            "keys": bool(self.published["key"].is_valid().to_numpy().any()),
            "causes": bool(self.published["declared"].is_valid().to_numpy().any()),
            "slices": list(counted.items()),
        }  # fmt: skip
        row = {"sort": TOLD, "part": part, "pack": json.dumps(told).encode()}
        yield pa.RecordBatch.from_pylist([row], schema=_ROWS)

    def _publications(self) -> pa.Table:
        rows = self.published
        kind = np.where(rows["again"].to_numpy(), KIND_CODE["note"], KIND_CODE["publish"])
        columns = {
            **{name: rows[name] for name in rows.column_names},
            "kind": pa.array(kind.astype(np.int8)), "causes": rows["declared"],
            "attempt": pa.nulls(len(rows), pa.int32()),
        }  # fmt: skip
        return pa.table([columns[name] for name in LOGGED.names], schema=LOGGED)

    def _deliveries(self, attempt: Numbers) -> pa.Table:
        count = len(self.rows)
        notes = self._names_of_unknown(count)
        columns = {
            **{name: self.rows[name] for name in ("at_ns", "rank", "handling", "message")},
            "kind": pa.array(np.full(count, KIND_CODE["deliver"], np.int8)),
            "id": pa.array(self.id), "topic": pa.array(self.topic.astype(np.int32)), "note": notes,
            "key": pa.nulls(count, pa.string()),
            "causes": pa.nulls(count, pa.list_(pa.int64())),
            "attempt": pa.array(attempt.astype(np.int32), mask=attempt == 0),
        }  # fmt: skip
        return pa.table([columns[name] for name in LOGGED.names], schema=LOGGED)

    def _names_of_unknown(self, count: int) -> pa.Array:
        """What nobody published keeps its name."""
        unknown = np.append(self.is_nobodys, False)[self.publication]
        if not unknown.any():
            return pa.nulls(count, pa.string())
        return self.all_notes.take(pa.array(self.publication, mask=~unknown))

    def _attempts(self, retries: str) -> tuple[Numbers, int]:
        """As `number_attempts` does: those of one reader, a process or all that share."""
        attempt = self.rows["attempt"].to_numpy().astype(np.int64)
        if retries == "none":
            return attempt, 0
        of_reader = self.message * self.places.readers + self.reader
        several = _in_pairs(of_reader, attempt == 0)
        if not len(several):
            return attempt, 0
        moments = pa.table({
            "reader": of_reader[several], "at_ns": self.at_ns[several],
            "handling": self.rows["handling"].take(pa.array(several)),
        })  # fmt: skip
        several = several[_sorted_by_all(moments)]
        together = of_reader[several][1:] == of_reader[several][:-1]
        again = together & (self.failed[several][:-1] | (retries == "all"))
        steps = np.append(0, np.cumsum(again))
        begins = np.flatnonzero(~np.append(False, together))
        base = np.repeat(steps[begins], np.diff(np.append(begins, len(several))))
        attempt[several] = steps - base + 1
        return attempt, int(again.sum())

    def _unsteady_readers(self) -> list[int]:
        """Who processes something again, or might: it failed, or says so."""
        of_reader = self.message * self.places.readers + self.reader
        is_one = self.failed | (self.rows["attempt"].to_numpy() > 0)
        is_one[_in_pairs(of_reader, np.ones(len(of_reader), bool))] = True
        found: list[int] = np.unique(self.reader[is_one]).tolist()
        return found

    def _repeats(self) -> bool:
        pairs = self.message * len(self.places.nodes) + self.node
        return len(np.unique(pairs)) < len(pairs)

    def _first_unknown(self) -> Numbers:
        """Of each message that nobody published, the row that is first."""
        rows = np.flatnonzero(self.is_unknown)
        if not len(rows):
            return rows
        table = pa.table({
            "message": self.message[rows], "node": self.node[rows], "at_ns": self.at_ns[rows],
            "rank": self.rank[rows], "handling": self.rows["handling"].take(pa.array(rows)),
        })  # fmt: skip
        order = _sorted_by_all(table)
        _, first = np.unique(self.message[rows][order], return_index=True)
        return rows[order[first]]

    def _unknown(self, part: int, rows: Numbers) -> pa.RecordBatch:
        taken = self.rows.select(["at_ns", "rank", "handling", "message"]).take(pa.array(rows))
        nodes = self.node[rows].tolist()
        found = [
            {"sort": FIRST_UNKNOWN, "part": part, "node": node, **row}
            for node, row in zip(nodes, taken.to_pylist(), strict=True)
        ]
        return pa.RecordBatch.from_pylist(found, schema=_ROWS)

    def _first_places(self) -> list[tuple[Any, ...]]:
        """Node, topic, share and what a log is sorted by, of the first row of each such three."""
        published = self.published
        columns = ["at_ns", "rank", "handling", "message"]
        rows = pa.concat_tables([published.select(columns), self.rows.select(columns)])
        node = np.concatenate([published["node"].to_numpy(), self.node])
        topic = np.concatenate([published["topic"].to_numpy(), self.topic])
        share = np.concatenate([np.full(len(published), PUBLISHED), self.share])
        at_ns = rows["at_ns"].to_numpy()
        wide, high = len(self.places.shares) + 1, len(self.places.topics)
        slots, slot = np.unique(
            (node.astype(np.int64) * high + topic) * wide + share + 1, return_inverse=True
        )
        earliest = np.full(len(slots), np.iinfo(np.int64).max)
        np.minimum.at(earliest, slot, at_ns)
        first = np.flatnonzero(at_ns == earliest[slot])
        found: dict[int, tuple[Any, ...]] = {}
        for number, row in zip(slot[first].tolist(), rows.take(first).to_pylist(), strict=True):
            moment = (row["at_ns"], row["rank"], row["handling"].hex(), row["message"].hex())
            found[number] = min(moment, found.get(number, moment))
        return [
            (int(slots[n] // wide // high), int(slots[n] // wide % high), int(slots[n] % wide) - 1,
             *moment)
            for n, moment in found.items()
        ]  # fmt: skip


def _facts(rows: pa.Table, places: Places, name: str) -> Numbers:
    """A number of each row's place."""
    found = rows["place"].combine_chunks().dictionary_encode()
    facts = [getattr(places.facts[place], name) for place in found.dictionary.to_pylist()]
    return np.array(facts, np.int64)[found.indices.to_numpy(zero_copy_only=False)]


def _sorted_by_all(rows: pa.Table) -> Numbers:
    """The order of rows by their columns, the first one first."""
    keys = [(name, "ascending") for name in rows.column_names]
    return pc.sort_indices(rows, sort_keys=keys).to_numpy()


def _in_pairs(numbers: Numbers, among: Numbers) -> Numbers:
    """Which of those `among` have a number that another of them has."""
    chosen = np.flatnonzero(among)
    _, inverse, counts = np.unique(numbers[chosen], return_inverse=True, return_counts=True)
    return chosen[counts[inverse] > 1]
