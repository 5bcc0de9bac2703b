"""Phase A: from the logs of publishers to what must come before what.

A cause table has, for each publication, the set of its causes as pairs of word and mask. *Direct*
causes are what the publisher delivered since its previous publication, that publication, and what
it declares to follow.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalcast.pipeline.kernels import cause_tables
from causalcast.pipeline.kernels.kinds import DELIVER, PUBLISH
from causalcast.pipeline.logs.bits import WORD, words_for
from causalcast.pipeline.logs.logs import Bools, Ints, Logs
from causalcast.pipeline.logs.publications import Int32s, Publications


@dataclass
class DirectCauses:
    """Direct causes of some publications; `publications` are dense numbers."""

    publications: Int32s
    sizes: Ints
    words: Int32s
    masks: Ints


@dataclass
class CauseTable:
    """Causes of publication m: words and masks at offsets[m]:offsets[m + 1]."""

    offsets: Ints
    words: Int32s
    masks: Ints

    def causes(self, publication: int) -> Iterator[int]:
        """Dense numbers of the causes of one publication."""
        for pair in range(self.offsets[publication], self.offsets[publication + 1]):
            mask = int(self.masks[pair])
            for bit in range(WORD):
                if mask >> bit & 1:
                    yield int(self.words[pair]) * WORD + bit

    def shortest_chain(self, effect: int, wanted: Bools) -> list[int]:
        """From the nearest cause in `wanted` to `effect`, each a cause of the next."""
        reached_from: dict[int, int] = {effect: effect}
        queue = deque([effect])
        while queue:
            later = queue.popleft()
            for earlier in self.causes(later):
                if earlier in reached_from:
                    continue
                reached_from[earlier] = later
                if wanted[earlier]:
                    chain = [earlier]
                    while chain[-1] != effect:
                        chain.append(reached_from[chain[-1]])
                    return chain
                queue.append(earlier)
        raise AssertionError("a missing cause is always in the past of its effect")


@dataclass
class PublishGraph:
    """What precedes what among the publications of a run."""

    publications: Publications
    direct: CauseTable
    order: Ints
    """Causes before effects; publications on one cycle stand next to each other."""
    component: Ints
    """Publications on one cycle have the same number."""
    cyclic: Bools

    @cached_property
    def short(self) -> CauseTable:
        """Fewer causes than `direct`, but what precedes what is the same."""
        return self.direct if self.cyclic.any() else _shortened(self.direct)


def direct_causes(logs: Logs, publications: Publications) -> DirectCauses:
    """Direct causes of everything that these logs publish."""
    scratch = np.zeros(words_for(len(publications)), np.int64)
    touched = np.zeros(words_for(len(publications)), np.int32)
    found: list[tuple[Int32s, Ints, Int32s, Ints]] = []
    for _, start, end in logs.bounds():
        published = np.flatnonzero(logs.kind[start:end] == PUBLISH)
        if len(published) == 0:
            continue
        end = start + int(published[-1]) + 1  # what follows the last publication is no cause
        kind = logs.kind[start:end]
        dense = publications.dense(logs.message[start:end])
        words, masks = np.empty(end - start, np.int32), np.empty(end - start, np.int64)
        sizes = np.zeros(len(published), np.int64)
        if logs.instant is not None:
            instant = logs.instant[start:end]
            found.append(_causes_of_tied(kind, dense, instant))
            continue
        pairs = cause_tables.direct_causes(kind, dense, words, masks, sizes, scratch, touched)
        found.append((dense[published], sizes, words[:pairs].copy(), masks[:pairs].copy()))
    if not found:
        nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return DirectCauses(*nothing, *nothing)
    return DirectCauses(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _causes_of_tied(
    kind: npt.NDArray[np.int8], dense: Int32s, instant: Ints
) -> tuple[Int32s, Ints, Int32s, Ints]:
    """The same where some rows are not ordered: what is of one instant precedes nothing in it."""
    publications: list[int] = []
    sizes: list[int] = []
    words: list[int] = []
    masks: list[int] = []
    seen: dict[int, int] = {}
    row = 0
    while row < len(kind):
        end = row
        while end < len(kind) and instant[end] == instant[row]:
            end += 1
        here = [(kind[at], int(dense[at])) for at in range(row, end) if dense[at] >= 0]
        publishes = [m for what, m in here if what == PUBLISH]
        for m in publishes:
            publications.append(m)
            causes = {word: mask & ~(1 << m % WORD) if word == m // WORD else mask
                      for word, mask in sorted(seen.items())}  # fmt: skip
            causes = {word: mask for word, mask in causes.items() if mask}
            sizes.append(len(causes))
            words += causes
            masks += [_signed(mask) for mask in causes.values()]
        if publishes:
            seen = {}  # their past implies it
        for what, m in here:
            if what in (PUBLISH, DELIVER):
                seen[m // WORD] = seen.get(m // WORD, 0) | 1 << m % WORD
        row = end
    return (
        np.array(publications, np.int32), np.array(sizes, np.int64), np.array(words, np.int32),
        np.array(masks, np.int64),
    )  # fmt: skip


def _signed(mask: int) -> int:
    return mask - (1 << WORD) if mask >> (WORD - 1) else mask


def build_graph(publications: Publications, pieces: Sequence[DirectCauses]) -> PublishGraph:
    """Join the direct causes of all logs, and find an order in which causes come first."""
    direct = join_tables(len(publications), pieces)
    if publications.declared is not None:
        direct = _with_pairs(direct, *publications.declared)
    return graph_of(publications, direct)


def reply_graph(publications: Publications) -> PublishGraph | None:
    """What precedes what by declared causes alone; none if no publication declares any."""
    if publications.declared is None:
        return None
    nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    empty = CauseTable(np.zeros(len(publications) + 1, np.int64), *nothing)
    return graph_of(publications, _with_pairs(empty, *publications.declared))


def graph_of(publications: Publications, direct: CauseTable) -> PublishGraph:
    """The graph of a table, with an order in which causes come first."""
    size = len(publications)
    cyclic = np.zeros(size, np.bool_)
    order, component = np.arange(size), np.arange(size)
    table = (direct.offsets, direct.words, direct.masks)
    if cause_tables.any_cause_is_later(*table):
        count = cause_tables.components(*table, order, component)
        cyclic = np.bincount(component, minlength=count)[component] > 1
    return PublishGraph(publications, direct, order, component, cyclic)


def join_tables(size: int, pieces: Sequence[DirectCauses]) -> CauseTable:
    """One table for the run; every publication stands in exactly one of the pieces."""
    numbers = np.concatenate([piece.publications for piece in pieces])
    sizes = np.concatenate([piece.sizes for piece in pieces])
    words = np.concatenate([piece.words for piece in pieces])
    masks = np.concatenate([piece.masks for piece in pieces])
    by_number = np.argsort(numbers, kind="stable")
    old_starts = np.cumsum(sizes) - sizes
    new_sizes = sizes[by_number]
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(new_sizes, out=offsets[1:])
    source = np.arange(len(words)) + np.repeat(old_starts[by_number] - offsets[:-1], new_sizes)
    return CauseTable(offsets, words[source], masks[source])


def _with_pairs(table: CauseTable, effects: Int32s, causes: Int32s) -> CauseTable:
    """A table with further causes, given one by one."""
    size = len(table.offsets) - 1
    of = np.repeat(np.arange(size), np.diff(table.offsets))
    effect = np.concatenate([of, effects.astype(np.int64)])
    word = np.concatenate([table.words.astype(np.int64), causes.astype(np.int64) // WORD])
    bit = np.left_shift(np.int64(1), causes.astype(np.int64) % WORD)
    mask = np.concatenate([table.masks, bit])
    place = effect * words_for(size) + word
    by_place = np.argsort(place, kind="stable")
    if len(by_place) == 0:
        return table
    firsts = np.flatnonzero(np.diff(place[by_place], prepend=-1))
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(effect[by_place][firsts], minlength=size), out=offsets[1:])
    masks = np.bitwise_or.reduceat(mask[by_place], firsts)
    return CauseTable(offsets, word[by_place][firsts].astype(np.int32), masks)


def _shortened(table: CauseTable) -> CauseTable:
    offsets = np.zeros_like(table.offsets)
    words, masks = np.empty_like(table.words), np.empty_like(table.masks)
    scratch = np.zeros(words_for(len(offsets) - 1), np.int64)
    pairs = cause_tables.shortened(
        table.offsets, table.words, table.masks, offsets, words, masks, scratch
    )
    return CauseTable(offsets, words[:pairs].copy(), masks[:pairs].copy())
