"""The order properties in one walk over a log: deliveries that come before something they follow.

They share the walk because FIFO order is causal order between messages of one origin, and reply
order is causal order by declared causes alone.

Where doubts are left (a partial log, deliveries that may be repetitions) a log is walked twice: by
what is owed for certain, which finds violations, and by all that may be owed, which finds what
cannot be known: deliveries one of whose nearest causes is not accounted for. If all nearest causes
of all deliveries came before them, so did all others. (Where there are keys, any cause counts.)
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from causalcast.pipeline.check.checks.finding import EXAMPLES_PER_LOG
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.kernels import close_look, keyed_order
from causalcast.pipeline.kernels.kinds import DELIVER
from causalcast.pipeline.logs.logs import Bools, Ints
from causalcast.pipeline.logs.publications import Int32s, Publications
from causalcast.pipeline.logs.publish_graph import PublishGraph

FIFO, CAUSAL = 0, 1
# Numbers that say what precedes each message where there are keys: 256 MB. If instants have so many
# publications that this is not enough, some of these are followed no further: nothing false is
# found then, but not all.
MOST_PASTS = 1 << 26


@dataclass
class EarlyDelivery:
    """A delivery (its row and dense number) and one cause that should have come first."""

    row: int
    effect: int
    cause: int


@dataclass
class EarlyDeliveries:
    """All deliveries of a log that break one order: rows, and a cause of each."""

    rows: Ints
    causes: Ints
    unknown: int = 0
    """Deliveries of which it cannot be known whether they break it."""

    def __len__(self) -> int:
        return len(self.rows)

    def few(self, log: LogView, of_origin: Ints) -> list[EarlyDelivery]:
        """Some of them as examples: the first of each mechanism, then the earliest.

        Mechanisms differ by whether the cause is of the same origin (`of_origin` has the rows for
        which one is), and by whether it is of the same group. Those between processes come first.
        """
        group = log.graph.publications.group
        across = group[log.dense[self.rows]] != group[self.causes]
        same_origin = np.isin(self.rows, of_origin)
        chosen: list[int] = []
        for kind in range(4):
            of_kind = np.flatnonzero((same_origin * 2 + ~across) == kind)
            chosen += of_kind[:1].tolist()
        chosen += range(min(len(self.rows), EXAMPLES_PER_LOG))
        first = list(dict.fromkeys(chosen))[:EXAMPLES_PER_LOG]
        return [
            EarlyDelivery(int(row), int(log.dense[row]), int(cause))
            for row, cause in zip(self.rows[first], self.causes[first], strict=True)
        ]


@dataclass
class OrderBreaks:
    """What breaks each order in one log."""

    fifo: EarlyDeliveries
    causal: EarlyDeliveries
    reply: EarlyDeliveries | None = None


@dataclass
class Chains:
    """Publications of one origin that follow one another: all, or the nth of each instant."""

    chain: Ints
    of_origin: Ints
    """Where the chains of each origin begin; one more at the end."""
    certain: Int32s
    """Up to which number of its chain one follows who follows a publication."""

    @staticmethod
    def of(p: Publications) -> "Chains":
        """As many chains as instants have publications, if there is room for their pasts."""
        most = max(1, MOST_PASTS // max(1, len(p) * len(p.origins)))
        nth = p.number - p.before
        widest = np.ones(len(p.origins), np.int64)
        np.maximum.at(widest, p.origin, np.minimum(nth + 1, most))
        of_origin = np.append(0, np.cumsum(widest))
        chain = of_origin[p.origin] + np.minimum(nth, most - 1)
        certain = np.where(nth < most, p.number, p.before + most - 2).astype(np.int32)
        return Chains(chain, of_origin, certain)


@dataclass
class KeyLists:
    """Publications of each chain and key in the order of their numbers, for the keyed walk."""

    publications: Publications
    graph: PublishGraph
    keys: int = field(init=False)

    def __post_init__(self) -> None:
        p = self.publications
        assert p.key is not None
        self.chains = Chains.of(p)
        chain = self.chains.chain
        self.keys = int(p.key.max(initial=-1)) + 2
        composite = chain * self.keys + p.key + 1
        self.members: Ints = np.lexsort((p.number, composite))
        sorted_ones = composite[self.members]
        self.lists, starts = np.unique(sorted_ones, return_index=True)
        self.starts: Ints = np.append(starts, len(self.members)).astype(np.int64)
        self.numbers: Int32s = p.number[self.members]
        self.all_members: Ints = np.lexsort((p.number, chain))
        ends = np.arange(self.chains.of_origin[-1] + 1)
        self.all_starts: Ints = np.searchsorted(chain[self.all_members], ends)
        self.all_numbers: Int32s = p.number[self.all_members]

    @cached_property
    def past(self) -> Int32s:
        """How much of each chain precedes each publication."""
        p, table, graph, chains = self.publications, self.graph.short, self.graph, self.chains
        past = np.zeros((len(p), int(chains.of_origin[-1])), np.int32)
        keyed_order.pasts(
            table.offsets, table.words, table.masks, graph.order, graph.component, p.origin,
            p.before, chains.chain, chains.of_origin, chains.certain, past,
        )  # fmt: skip
        return past


def find_early_deliveries(
    log: LogView, replies: PublishGraph | None = None, keys: KeyLists | None = None
) -> OrderBreaks:
    """Walk the log by every order there is."""
    fifo, causal = _walk(log, log.graph, keys)
    breaks = OrderBreaks(fifo, causal)
    if replies is not None:
        breaks.reply = _walk(log, replies, None)[CAUSAL]
    return breaks


def _walk(
    log: LogView, graph: PublishGraph, keys: KeyLists | None
) -> tuple[EarlyDeliveries, EarlyDeliveries]:
    room = int(np.count_nonzero(log.kind == DELIVER))
    found = np.zeros((2, room, 2), np.int64)
    counts = np.zeros(2, np.int64)
    for first, end, owed in log.surely:
        _walk_stretch(log, graph, keys, first, end, ~owed | log.graph.cyclic, found, counts)
    fifo, causal = (
        EarlyDeliveries(rows[:count, 0].copy(), rows[:count, 1].copy())
        for rows, count in zip(found, counts, strict=True)
    )
    if log.leaves_doubts:
        maybe = np.zeros(2, np.int64)
        for first, end, owed in log.stretches():
            exempt = ~owed | log.graph.cyclic
            if keys is not None:
                _walk_keyed(log, keys, first, end, exempt, found, maybe)
            else:
                _walk_nearest(log, graph, first, end, exempt, found, maybe)
        for early, rows, count in zip((fifo, causal), found, maybe, strict=True):
            early.unknown = len(np.setdiff1d(rows[:count, 0], early.rows))
    return fifo, causal


def _walk_nearest(
    log: LogView, graph: PublishGraph, first: int, end: int, exempt: Bools, found: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    p, table = graph.publications, graph.short
    latest = np.full(len(p), -1, np.int64)
    close_look.nearest_causes(
        table.offsets, table.words, table.masks, graph.order, graph.component, log.got_at, exempt,
        latest,
    )  # fmt: skip
    close_look.unaccounted_deliveries(
        log.judged, log.dense, log.instant, first, end, log.got_at, log.delivered, exempt,
        log.graph.cyclic, latest, p.origin, p.before, p.base, p.rank, found, counts,
    )  # fmt: skip


def _walk_stretch(
    log: LogView, graph: PublishGraph, keys: KeyLists | None, first: int, end: int, exempt: Bools,
    found: Ints, counts: Ints,
) -> None:  # fmt: skip
    if keys is not None:
        _walk_keyed(log, keys, first, end, exempt, found, counts)
        return
    p, table = graph.publications, graph.short
    latest, witness = np.full((2, len(p)), -1, np.int64)
    close_look.latest_causes(
        table.offsets, table.words, table.masks, graph.order, graph.component, log.got_at, exempt,
        latest, witness,
    )  # fmt: skip
    close_look.early_deliveries(
        log.judged, log.dense, log.instant, first, end, log.got_at, log.delivered, exempt,
        log.graph.cyclic, latest, witness, p.origin, p.before, p.base, p.rank, found, counts,
    )  # fmt: skip


def _walk_keyed(
    log: LogView, keys: KeyLists, first: int, end: int, exempt: Bools, found: Ints, counts: Ints
) -> None:
    p = keys.publications
    last, which, last_of_all, which_of_all = np.full((4, len(p)), -1, np.int64)
    keyed_order.last_arrivals(keys.starts, keys.members, log.got_at, exempt, last, which)
    keyed_order.last_arrivals(
        keys.all_starts, keys.all_members, log.got_at, exempt, last_of_all, which_of_all
    )
    keyed_order.early_keyed_deliveries(
        log.judged, log.dense, log.instant, first, end, log.delivered, log.graph.cyclic, keys.past,
        p.origin, p.before, keys.chains.of_origin, p.key, keys.keys, keys.lists, keys.starts,
        keys.numbers, last, which, keys.all_starts, keys.all_numbers, last_of_all, which_of_all,
        found, counts,
    )  # fmt: skip


def kind_of(log: LogView, early: EarlyDelivery, cause: int) -> str:
    """`inversion` if the cause came later, `gap` if it never came."""
    return "inversion" if early.row <= log.got[cause] < log.rows else "gap"


def missing_causes(log: LogView, early: EarlyDelivery, by_key: bool) -> Bools:
    """All that was certainly owed at a row and had not arrived, whether it is a cause or not."""
    for first, end, owed in log.surely:
        if first <= early.row < end:
            now = log.instant[early.row]
            missing: Bools = owed & ~log.graph.cyclic & (log.got_at > now)
            missing[early.effect] = False
            key = log.graph.publications.key
            if by_key and key is not None and key[early.effect] >= 0:
                missing &= (key == key[early.effect]) | (key < 0)
            return missing
    raise AssertionError("every row lies in a stretch")
