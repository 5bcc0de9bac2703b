"""Phase A: from the logs of publishers to what must come before what.

A cause table has, for each publication, the set of its causes as pairs of word and mask. *Direct*
causes are what the publisher delivered since its previous publication, and that publication.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalcast.pipeline.bits import WORD, words_for
from causalcast.pipeline.kernels import cause_tables
from causalcast.pipeline.kinds import PUBLISH
from causalcast.pipeline.logs import Bools, Ints, Logs
from causalcast.pipeline.publications import Int32s, Publications


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
        pairs = cause_tables.direct_causes(kind, dense, words, masks, sizes, scratch, touched)
        found.append((dense[published], sizes, words[:pairs].copy(), masks[:pairs].copy()))
    if not found:
        nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return DirectCauses(*nothing, *nothing)
    return DirectCauses(*(np.concatenate(column) for column in zip(*found, strict=True)))


def build_graph(publications: Publications, pieces: Sequence[DirectCauses]) -> PublishGraph:
    """Join the direct causes of all logs, and find an order in which causes come first."""
    direct = join_tables(len(publications), pieces)
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


def _shortened(table: CauseTable) -> CauseTable:
    offsets = np.zeros_like(table.offsets)
    words, masks = np.empty_like(table.words), np.empty_like(table.masks)
    scratch = np.zeros(words_for(len(offsets) - 1), np.int64)
    pairs = cause_tables.shortened(
        table.offsets, table.words, table.masks, offsets, words, masks, scratch
    )
    return CauseTable(offsets, words[:pairs].copy(), masks[:pairs].copy())
