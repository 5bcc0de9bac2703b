"""The rows of a large run as arrays of numpy: what a broadcast of 10,000 nodes is measured from.

Quantities are those of `pipeline/report/small_run.py`, which defines them row by row in plain
Python; a test compares both on random runs. Here a row is eight bytes a column, and no object.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from causalcast.trace.kinds import NONE
from causalcast.trace.run_folder import Run

Numbers = npt.NDArray[Any]
ORIGIN_SHIFT = 32  # an id of a message has its origin above these bits
COLUMNS = (
    "node", "pos", "at_us", "message", "group", "peer", "payload_bytes", "metadata_bytes",
)  # fmt: skip
MEASURED = ("publish", "deliver", "send", "receive", "crash", "recover", "join")


class Rows:
    """The rows of one kind, in the order `node, pos`; `NONE` where a row says nothing."""

    def __init__(self, columns: Sequence[Numbers], note: Numbers, notes: Sequence[str]) -> None:
        self.columns = columns
        """Those of `COLUMNS`, in this order."""
        (self.node, self.pos, self.at_us, self.message, self.group, self.peer,
         self.payload_bytes, self.metadata_bytes) = columns  # fmt: skip
        self.note = note
        """The place of its note in `notes`."""
        self.notes = notes

    def __len__(self) -> int:
        return len(self.node)

    def where(self, chosen: Numbers) -> "Rows":
        """Those that are chosen, by a mask."""
        return Rows([column[chosen] for column in self.columns], self.note[chosen], self.notes)

    @cached_property
    def bytes(self) -> int:
        """Of payloads and metadata together."""
        return _present_sum(self.payload_bytes) + _present_sum(self.metadata_bytes)

    def off_links_of(self, others: "Rows") -> "Rows":
        """Those from a node to a peer between which none of the others went."""
        nodes = 1 + max(_most(rows.node, rows.peer) for rows in (self, others))
        used = np.unique(_links(others.node, others.peer, nodes))
        return self.where(~_found_in(_links(self.node, self.peer, nodes), used))

    @property
    def own(self) -> Numbers:
        """Which are about a message that the node itself published."""
        found: Numbers = self.message >> ORIGIN_SHIFT == self.node
        return found

    def with_notes(self, *words: str) -> int:
        """How many have one of these words in their note."""
        told = [any(word in note for word in words) for note in self.notes]
        places = [place for place, wanted in enumerate(told) if wanted]
        return int(np.isin(self.note, places).sum())


@dataclass
class ColumnRun:
    """The rows of one run by their kind, and who took part."""

    of_kind: dict[str, Rows]
    founders: set[tuple[int, int]]
    """(group, node) of members from the start who never left."""

    def after(self, publications: int) -> "ColumnRun":
        """The rows about all but the first so many publications."""
        published = self.of_kind["publish"]
        order = np.argsort(published.at_us, kind="stable")[:publications]
        left_out = np.unique(published.message[order])
        kept = {
            kind: rows.where(~_found_in(rows.message, left_out))
            for kind, rows in self.of_kind.items()
        }
        return ColumnRun(kept, self.founders)

    @cached_property
    def published(self) -> tuple[Numbers, Numbers]:
        """Messages in the order of their ids, and the place of the last row that publishes each."""
        return _last_of_each(self.of_kind["publish"].message)

    @cached_property
    def elsewhere(self) -> Rows:
        """Deliveries at nodes other than the origin."""
        delivered = self.of_kind["deliver"]
        return delivered.where(~delivered.own)

    @cached_property
    def copies(self) -> Rows:
        """What was sent with a payload in it."""
        sent = self.of_kind["send"]
        return sent.where(sent.payload_bytes > 0)

    @cached_property
    def delayed(self) -> tuple[Rows, Numbers]:
        """Deliveries elsewhere of what is known to be published, and how long each took."""
        published = self.of_kind["publish"]
        known, places = self._publication_of(self.elsewhere.message)
        rows = self.elsewhere.where(known)
        return rows, rows.at_us - published.at_us[places]

    def latency_mean_ms(self) -> float | None:
        """From publication to delivery elsewhere."""
        delays = self.delayed[1]
        return int(delays.sum()) / len(delays) / 1000 if len(delays) else None

    def latency_ms(self, share: float) -> float | None:
        """The smallest latency that this share of all does not exceed."""
        delays = self.delayed[1]
        if not len(delays):
            return None
        place = max(math.ceil(share * len(delays)), 1) - 1
        return int(np.partition(delays, place)[place]) / 1000

    def redundancy(self) -> float | None:
        """Payloads sent for each delivery elsewhere, beyond the first."""
        copies = self.copies.where(self.copies.message != NONE)
        return (
            len(copies) / len(self.elsewhere) - 1 if len(copies) and len(self.elsewhere) else None
        )

    def redundancy_of(self, place: int) -> float | None:
        """The same of the publication at this place in time."""
        published = self.of_kind["publish"]
        order = np.argsort(published.at_us, kind="stable")
        if len(order) <= place:
            return None
        message = published.message[order[place]]
        sent = int((self.copies.message == message).sum())
        got = int((self.elsewhere.message == message).sum())
        return sent / got - 1 if got else None

    def metadata_mean_bytes(self) -> float | None:
        """Of what was sent with a payload."""
        sizes = self.copies.metadata_bytes
        known = sizes[sizes != NONE]
        return _sum(known) / len(known) if len(known) else None

    def reliability(self) -> float | None:
        """Share of the deliveries that founders should have, of those that are up at the end."""
        active = self._active()
        members = _count_by(group for group, _ in active)
        published = self.of_kind["publish"]
        wanted = 0
        for group, node in zip(published.group.tolist(), published.node.tolist(), strict=True):
            if group in members:
                wanted += members[group] - ((group, node) in active)
        if wanted <= 0:
            return None
        known, places = self._publication_of(self.elsewhere.message)
        groups = published.group[places].astype(np.int64)
        who = groups << ORIGIN_SHIFT | self.elsewhere.node[known]
        keys = sorted(group << ORIGIN_SHIFT | node for group, node in active)
        got = int(_found_in(who, np.array(keys, np.int64)).sum())
        return min(got / wanted, 1.0)

    def _active(self) -> set[tuple[int, int]]:
        """(group, node) of founding members that are there, and up, at the end."""
        last: dict[int, tuple[int, str]] = {}
        for kind in ("crash", "recover"):
            rows = self.of_kind[kind]
            for node, pos in zip(rows.node.tolist(), rows.pos.tolist(), strict=True):
                last[node] = max(last.get(node, (-1, "")), (pos, kind))
        away = {node for node, (_, kind) in last.items() if kind == "crash"}
        joined = self.of_kind["join"]
        away.update(joined.node[joined.pos == 0].tolist())
        return {(group, node) for group, node in self.founders if node not in away}

    def _publication_of(self, messages: Numbers) -> tuple[Numbers, Numbers]:
        """Which of these messages were published, and at which row each of those was."""
        ids, rows = self.published
        places = np.searchsorted(ids, messages)
        inside = np.minimum(places, max(len(ids) - 1, 0))
        known = ids[inside] == messages if len(ids) else np.zeros(len(messages), bool)
        return known, rows[places[known]]

    def transits(self) -> "Transits":
        """How long each payload took on its link."""
        sent, received = self.copies, self.of_kind["receive"]
        received = received.where(received.payload_bytes > 0)
        ids = np.unique(np.concatenate([sent.message, received.message]))
        nodes = 1 + max(_most(rows.node, rows.peer) for rows in (sent, received))
        link_sent = _links(sent.node, np.maximum(sent.peer, 0), nodes)
        link_received = _links(np.maximum(received.peer, 0), received.node, nodes)
        keys, last = _last_of_each(link_sent * len(ids) + np.searchsorted(ids, sent.message))
        wanted = link_received * len(ids) + np.searchsorted(ids, received.message)
        places = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        known = keys[places] == wanted if len(keys) else np.zeros(len(wanted), bool)
        took = received.at_us[known] - sent.at_us[last[places[known]]]
        return Transits(nodes, link_received[known], took)


@dataclass(frozen=True)
class Transits:
    """How long payloads were under way, and on which link each."""

    nodes: int
    link: Numbers
    took_us: Numbers

    def mean_ms(self) -> float | None:
        """From the moment in which a payload is sent to that in which it is there: with queues."""
        return int(self.took_us.sum()) / len(self.took_us) / 1000 if len(self.took_us) else None

    def least(self) -> dict[int, list[tuple[int, int]]]:
        """By sender: receivers, and the shortest time that anything took to each of them."""
        order = np.argsort(self.link, kind="stable")
        links, starts = np.unique(self.link[order], return_index=True)
        times = np.minimum.reduceat(self.took_us[order], starts) if len(starts) else self.took_us
        found: dict[int, list[tuple[int, int]]] = {}
        for link, took in zip(links.tolist(), times.tolist(), strict=True):
            found.setdefault(link // self.nodes, []).append((link % self.nodes, took))
        return found


def column_run(run: Run) -> ColumnRun:
    """The rows of a run in memory, as far as they are measured here."""
    events = run.events
    founders = {
        (row["group"], row["node"])
        for row in run.members.to_pylist()
        if row["from_pos"] == 0 and row["to_pos"] is None
    }
    kinds = _plain(events.column("kind"))
    names = kinds.dictionary.to_pylist()
    codes = kinds.indices.to_numpy(zero_copy_only=False)
    notes = _plain(events.column("note"))
    told = tuple(str(note) for note in notes.dictionary.to_pylist())
    place_of_note = _numbers(notes.indices)
    of_kind = {}
    for kind in MEASURED:
        chosen = np.flatnonzero(codes == names.index(kind)) if kind in names else np.array([], int)
        columns = [_numbers(_plain(events.column(name)).take(pa.array(chosen))) for name in COLUMNS]
        of_kind[kind] = Rows(columns, place_of_note[chosen], told)
    return ColumnRun(of_kind, founders)


def delivered_at(run: ColumnRun) -> "Deliveries":
    """Who delivered what, and when in its own log."""
    rows = run.of_kind["deliver"]
    ids, message = np.unique(rows.message, return_inverse=True)
    nodes = 1 + int(rows.node.max(initial=0))
    times = np.bincount(rows.node * np.int64(len(ids)) + message, minlength=nodes * len(ids))
    last = np.full((nodes, len(ids)), -1, np.int64)
    np.maximum.at(last, (rows.node, message), np.arange(len(rows)))
    return Deliveries(ids.tolist(), times.reshape(nodes, len(ids)), last)


@dataclass(frozen=True)
class Deliveries:
    """A line per node, a column per message."""

    messages: list[int]
    times: Numbers
    """How often it was delivered."""
    last: Numbers
    """The place of the last time among all deliveries; before 0 if there was none."""

    def doubled(self) -> int:
        """Deliveries of what the same node had delivered before."""
        return int(self.times.sum() - np.count_nonzero(self.times))

    def before(self, causes: dict[int, Sequence[int]]) -> int:
        """Deliveries of a message at a node that delivered one of its causes only later."""
        column = {message: place for place, message in enumerate(self.messages)}
        found = 0
        for message, of_message in causes.items():
            if message not in column:
                continue
            own = self.last[:, column[message]]
            known = [column[cause] for cause in of_message if cause in column]
            late = (self.last[:, known] > own[:, None]).any(axis=1)
            found += int(self.times[late, column[message]].sum())
        return found


def _plain(column: Any) -> Any:
    """A column of a table as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: Any) -> Numbers:
    found: Numbers = pc.fill_null(column, NONE).to_numpy(zero_copy_only=False)
    return found


def _most(*columns: Numbers) -> int:
    return max(int(column.max(initial=0)) for column in columns)


def _links(sender: Numbers, receiver: Numbers, nodes: int) -> Numbers:
    found: Numbers = sender.astype(np.int64) * nodes + receiver
    return found


def _found_in(values: Numbers, ordered: Numbers) -> Numbers:
    """Which values are among some that are in order."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Numbers = ordered[places] == values
    return found


def _last_of_each(keys: Numbers) -> tuple[Numbers, Numbers]:
    """The keys in order, each once, and the last row that has it."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    ends = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
    return ordered[ends], order[ends]


def _sum(values: Numbers) -> int:
    return int(values.sum(dtype=np.int64))


def _present_sum(values: Numbers) -> int:
    return _sum(values[values != NONE])


def _count_by(values: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found
