"""What many traces at once say of messages, in columns; `trace.spans.moments` says it of one.

The rules are the same, and tests compare the two. Here a span is a number: its row. Whatever a key
names (a parent, a link) is looked up once, by exact comparison, and from then on is a number, too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from causalcast.pipeline.foreign.span_columns import (
    CODE_OF,
    CREATES,
    ERROR,
    FAILED,
    ROLE_BITS,
    ROLES,
    parts_of,
)
from causalcast.trace.spans.moments import CHILD, DELIVERY, FREE, PARENT
from causalcast.trace.spans.operations import OTHER, PROCESS, PUBLISH, RECEIVE
from causalcast.trace.spans.rules import SpanRules

MOMENTS = pa.schema([
    ("what", pa.int16()), ("at_ns", pa.int64()), ("rank", pa.int8()), ("message", pa.binary()),
    ("handling", pa.binary()), ("place", pa.string()), ("name", pa.string()),
    ("order_key", pa.string()), ("attempt", pa.int32()), ("causes", pa.list_(pa.binary())),
])  # fmt: skip
NEVER = np.iinfo(np.int64).max
NOTHING = -1
Numbers = Any  # numpy's arrays
_IS_OTHER, _IS_PUBLISH = CODE_OF[OTHER], CODE_OF[PUBLISH]
_CONSUMERS = (CODE_OF[PROCESS], CODE_OF[RECEIVE])


@dataclass
class Found:
    """What some traces hold."""

    spans: int
    circular: list[bytes]
    """Keys of spans that are their own ancestors."""
    remarks: list[tuple[str, str]]
    publications: pa.RecordBatch
    deliveries: pa.RecordBatch


def moments_in(operations: pa.Table, rules: SpanRules) -> Found:
    """The moments of whole traces, and the remarks that came with them."""
    is_remark = operations["what"].to_numpy() & ROLE_BITS >= CODE_OF[ERROR]
    remarks = []
    if is_remark.any():
        rows = operations.filter(pa.array(is_remark)).select(["what", "place"]).to_pylist()
        remarks = [(ROLES[row["what"]], row["place"]) for row in rows]
        operations = operations.filter(pa.array(~is_remark))
    traces = _Traces(operations, rules)
    publications = traces.publications()  # first: they say when deliveries were answered
    return Found(len(operations), traces.circular(), remarks, publications, traces.deliveries())


class _Traces:
    """Rows of spans; `parent` and `above` are rows, `NOTHING` if there is none.

    Large because its attributes are the columns of one table.
    """

    def __init__(self, spans: pa.Table, rules: SpanRules) -> None:
        self.spans, self.rules = spans.combine_chunks(), rules
        self.by_id = rules.message == "id"
        what = self._numbers("what")
        self.role, self.what = what & ROLE_BITS, what & (ROLE_BITS | FAILED)
        self.creates = what & CREATES > 0
        self.start = self._numbers("start")
        self._look_up()
        self.is_consumer = np.isin(self.role, _CONSUMERS)
        self._find_above()
        self._find_messages()
        self.first_answer = np.full(len(spans), NEVER, np.int64)

    def _column(self, name: str) -> pa.Array:
        column = self.spans[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def _numbers(self, name: str) -> Numbers:
        return self._column(name).to_numpy(zero_copy_only=False)

    def _look_up(self) -> None:
        """Keys become numbers, equal ones the same; of a span that came twice the last counts."""
        keys, parents, lists = (self._column(name) for name in ("key", "parent", "links"))
        named = pa.concat_arrays([keys, parents, lists.flatten()]).dictionary_encode()
        number = named.indices.to_numpy(zero_copy_only=False)
        count = len(keys)
        self.key_names = named.dictionary
        self.key, self.parent_key = number[:count], number[count : 2 * count]
        self.link, self.links = number[2 * count :], np.diff(lists.offsets.to_numpy())
        row_of = np.full(len(named.dictionary), NOTHING, np.int64)
        row_of[self.key] = np.arange(count)
        self.is_last = row_of[self.key] == np.arange(count)
        has_parent = _lengths(parents) > 0
        self.parent = np.where(has_parent, row_of[self.parent_key], NOTHING)
        self.is_unseen = has_parent & (self.parent == NOTHING)  # its parent is not among the spans
        self._forget_repeated_links()
        if self.by_id:
            names = self._column("name").cast(pa.binary()).dictionary_encode()
            self.message = names.indices.fill_null(NOTHING).to_numpy(zero_copy_only=False)
            self.message_names = names.dictionary
            empty = _lengths(names.dictionary) == 0
            self.message = np.where(np.append(empty, True)[self.message], NOTHING, self.message)
        else:
            self.message, self.message_names = self.key, self.key_names

    def _forget_repeated_links(self) -> None:
        if len(self.links) and self.links.max() > 1:
            rows = np.repeat(np.arange(len(self.links)), self.links)
            _, first = np.unique(rows * len(self.key_names) + self.link, return_index=True)
            first.sort()
            self.link = self.link[first]
            self.links = np.bincount(rows[first], minlength=len(self.links))
        self.first_link = np.cumsum(self.links) - self.links

    def _find_above(self) -> None:
        """The nearest span above that published or consumed something."""
        between = self.role == _IS_OTHER
        ends = _followed(np.where(between, self.parent, np.arange(len(between))))
        above = np.where(self.parent == NOTHING, NOTHING, ends[self.parent])
        in_circles = (above != NOTHING) & between[above]
        self.above = np.where(in_circles, NOTHING, above)

    def circular(self) -> list[bytes]:
        """Keys of spans that are their own ancestors: who goes up for ever ends at each of
        them."""
        ends = np.unique(_followed(self.parent))
        found = self.key_names.take(pa.array(self.key[ends[ends != NOTHING]]))
        keys: list[bytes] = found.to_pylist()
        return keys

    def _find_messages(self) -> None:
        """`single`: of consumers without links, the message that they are about."""
        if self.by_id:
            self.links = np.zeros_like(self.links)
            self.single = np.where(self.is_consumer, self.message, NOTHING)
            return
        above = self.above
        is_told = (self.links == 0) & (above != NOTHING)
        self.single = np.where(is_told & (self.role[above] == _IS_PUBLISH), self.key[above],
                               NOTHING)  # fmt: skip
        # The parent's span may be missing; its key is the message's name all the same.
        by_parent = (self.links == 0) & (above == NOTHING) & self.is_unseen
        self.single = np.where(by_parent, self.parent_key, self.single)
        # What was received and then processed: as the receiving span says, if it is of one message.
        asks = self.is_consumer & is_told & self.is_consumer[above]
        told_by = _followed(np.where(asks, above, np.arange(len(above))))
        links_to_one = self.links[told_by] == 1
        link = np.append(self.link, NOTHING)[np.where(links_to_one, self.first_link[told_by], -1)]
        received = np.where(links_to_one, link, self.single[told_by])
        received = np.where(asks[told_by], NOTHING, received)  # in circles
        self.single = np.where(asks, received, self.single)

    def publications(self) -> pa.RecordBatch:
        """What was published, and `first_answer` of what was being processed then."""
        parent, above = self.parent, self.above
        created_above = (parent != NOTHING) & self.creates[parent]
        only_sends = created_above | ((self._own_links() > 0) & ~self.creates)
        rows = np.flatnonzero((self.role == _IS_PUBLISH) & self.is_last & ~only_sends)
        above = above[rows]
        under = above != NOTHING
        after_publishing = under & (self.role[above] == _IS_PUBLISH)
        consumed = under & ~after_publishing
        counts = np.where(consumed, self._message_counts()[above], after_publishing.astype(int))
        place = self._places_as_numbers()
        is_child = consumed & (counts > 0) & (place[above] == place[rows])
        parents = above[is_child]
        np.minimum.at(self.first_answer, parents, self.start[rows[is_child]])
        handling = np.where(is_child, self.key[above], NOTHING)
        causes = self._spread(np.where(consumed, above, NOTHING), counts)
        first = np.cumsum(counts) - counts
        causes[first[after_publishing]] = self.message[above[after_publishing]]
        return self._batch(
            rows, self.start[rows], np.where(is_child, CHILD, FREE), self.message[rows], handling,
            self._lists(causes, counts), attempts=False,
        )  # fmt: skip

    def deliveries(self) -> pa.RecordBatch:
        """One per message of a consumer span, or one of nothing."""
        rows = np.flatnonzero(self.is_consumer & self.is_last)
        counts = self._message_counts()[rows]
        answered, start = self.first_answer[rows], self.start[rows]
        at_ns = start
        if self.rules.delivered == "end":
            end = self._numbers("end")[rows]
            # The last moment before the answer.
            at_ns = np.where(answered <= end, np.maximum(start, answered - 1), end)
        rank = np.where(answered == at_ns, PARENT, DELIVERY)
        wide = np.maximum(counts, 1)
        messages = np.full(wide.sum(), NOTHING, np.int64)
        messages[np.repeat(counts > 0, wide)] = self._spread(rows, counts)
        rows = np.repeat(rows, wide)
        return self._batch(
            rows, np.repeat(at_ns, wide), np.repeat(rank, wide), messages, self.key[rows],
            pa.nulls(len(rows), MOMENTS.field("causes").type), names=False,
        )  # fmt: skip

    def _own_links(self) -> Numbers:
        return np.diff(self._column("links").offsets.to_numpy())

    def _message_counts(self) -> Numbers:
        """How many messages each consumer is about."""
        return np.where(self.links > 0, self.links, (self.single != NOTHING).astype(int))

    def _spread(self, rows: Numbers, counts: Numbers) -> Numbers:
        """The messages of each of these rows, so many of each, one after another."""
        each = np.repeat(rows, counts)
        nth = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
        linked = (each != NOTHING) & (self.links[each] > 0)
        link = np.append(self.link, NOTHING)[np.where(linked, self.first_link[each] + nth, -1)]
        return np.where(linked, link, self.single[each])

    def _places_as_numbers(self) -> Numbers:
        """Service and process, as numbers: equal if they are."""
        places = self._column("place").dictionary_encode()
        numbers: dict[tuple[str, str], int] = {}
        of_place = [
            numbers.setdefault(parts_of(place)[:2], len(numbers))
            for place in places.dictionary.to_pylist()
        ]
        return np.array(of_place)[places.indices.to_numpy()]

    def _lists(self, flat: Numbers, counts: Numbers) -> pa.Array:
        """Lists of messages; none where a list is empty."""
        known = flat != NOTHING
        if not known.all():
            owner = np.repeat(np.arange(len(counts)), counts)[known]
            flat, counts = flat[known], np.bincount(owner, minlength=len(counts))
        ends = np.append(0, np.cumsum(counts)).astype(np.int32)
        offsets = pa.array(ends, mask=np.append(counts == 0, False))
        return pa.ListArray.from_arrays(offsets, self.message_names.take(pa.array(flat)))

    def _batch(
        self, rows: Numbers, at_ns: Numbers, rank: Numbers, messages: Numbers, handling: Numbers,
        causes: pa.Array, names: bool = True, attempts: bool = True,
    ) -> pa.RecordBatch:  # fmt: skip
        taken = pa.array(rows)
        nothing = pa.nulls(len(rows), pa.string())
        arrays = [
            pa.array(self.what[rows].astype(np.int16)), pa.array(at_ns),
            pa.array(rank.astype(np.int8)), _named(self.message_names, messages),
            _named(self.key_names, handling), self._column("place").take(taken),
            self._column("name").take(taken) if names else nothing,
            self._column("order_key").take(taken) if names else nothing,
            self._column("attempt").take(taken) if attempts
            else pa.array(np.zeros(len(rows), np.int32)),
            causes,
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(arrays, schema=MOMENTS)


def _lengths(array: pa.Array) -> Numbers:
    return np.diff(np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1])


def _followed(target: Numbers) -> Numbers:
    """Where one ends who goes from row to row until one points to itself or to nothing.

    Whoever goes in circles ends somewhere in them.
    """
    target = np.append(target, NOTHING)  # nothing leads to nothing
    for _ in range(len(target).bit_length()):
        further = target[target]
        if (further == target).all():
            break
        target = further
    return target[:-1]


def _named(names: pa.Array, numbers: Numbers) -> pa.Array:
    """What has these numbers; nothing is empty."""
    found = names.take(pa.array(numbers, mask=numbers == NOTHING))
    return found.fill_null(b"") if found.null_count else found
