"""Phase A: from the logs of publishers to what must come before what.

Publications get dense numbers in order of publishing time, so that the causes of a message lie
close together and few 64-bit words hold them. Any numbering gives the same verdicts.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from causalcast.errors import TraceError
from causalcast.pipeline import kernels
from causalcast.pipeline.logs import JOIN, NONE, PUBLISH, Bools, Ints, Logs
from causalcast.pipeline.memberships import Memberships

ORIGIN_SHIFT = 32
NUMBER_MASK = (1 << ORIGIN_SHIFT) - 1


@dataclass
class PublishRows:
    """The `publish` rows of some logs."""

    message: Ints
    group: Ints
    pos: Ints
    at_us: Ints
    somebody_joins: bool
    """Whether these logs have a `join` row."""


@dataclass
class Publications:
    """All publications of a run by dense number, and the way from an id to its number."""

    message: Ints
    origin: Ints
    """Place of the publisher in `origins`."""
    number: Ints
    group: Ints
    pos: Ints
    at_us: Ints
    origins: Ints
    base: Ints
    """Where the publications of each origin begin in `rank`."""
    rank: Ints
    somebody_joins: bool

    def __len__(self) -> int:
        return len(self.message)

    def dense(self, messages: Ints) -> Ints:
        """Dense numbers of message ids; -1 for what nobody published."""
        if len(self) == 0:
            return np.full(len(messages), NONE, np.int64)
        origin_ids = messages >> ORIGIN_SHIFT
        place = np.searchsorted(self.origins, origin_ids)
        place[place == len(self.origins)] = 0
        numbers = messages & NUMBER_MASK
        ends = np.append(self.base[1:], len(self))
        slot = self.base[place] + numbers - 1
        known = (self.origins[place] == origin_ids) & (numbers > 0) & (slot < ends[place])
        slot[~known] = 0
        return np.where(known, self.rank[slot], NONE)

    def place_of_origin(self, node: int) -> int:
        """Place of `node` in `origins`, -1 if it published nothing."""
        place = int(np.searchsorted(self.origins, node))
        return place if place < len(self.origins) and self.origins[place] == node else NONE


@dataclass
class DirectCauses:
    """Direct causes of some publications, as words and masks; `publications` are dense numbers."""

    publications: Ints
    sizes: Ints
    words: Ints
    masks: Ints


@dataclass
class PublishGraph:
    """What the scan of a log needs to know about everybody else's logs."""

    publications: Publications
    offsets: Ints
    words: Ints
    masks: Ints
    cyclic: Bools
    vectors: npt.NDArray[np.int32] | None
    """Past of each publication as a count per origin; none where lists suffice."""

    def causes(self, publication: int) -> Iterator[int]:
        """Dense numbers of the direct causes (or, where lists suffice, of the required ones)."""
        for pair in range(self.offsets[publication], self.offsets[publication + 1]):
            mask = int(self.masks[pair])
            for bit in range(64):
                if mask >> bit & 1:
                    yield int(self.words[pair]) * 64 + bit

    def shortest_chain(self, effect: int, wanted: Bools) -> list[int]:
        """From the nearest cause in `wanted` to `effect`, each a direct cause of the next."""
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


def publish_rows(logs: Logs, where: str) -> PublishRows:
    """The publications of some logs; each node numbers its own 1, 2, 3, … or the trace is wrong."""
    rows = np.flatnonzero(logs.kind == PUBLISH)
    log = np.searchsorted(logs.starts, rows, side="right") - 1
    message = logs.message[rows]
    first_of_log = np.searchsorted(log, np.arange(len(logs.nodes)))
    wanted = (logs.nodes[log] << ORIGIN_SHIFT) + np.arange(len(rows)) - first_of_log[log] + 1
    wrong = np.flatnonzero(message != wanted)
    if len(wrong):
        place = wrong[0]
        raise TraceError(
            f"{where}: node {logs.nodes[log[place]]}, pos {rows[place] - logs.starts[log[place]]}:"
            f" published message {message[place]} where {wanted[place]} was expected"
        )
    pos = rows - logs.starts[log]
    somebody_joins = bool(np.any(logs.kind == JOIN))
    group = logs.group[rows].astype(np.int64)
    return PublishRows(message, group, pos, logs.at_us[rows], somebody_joins)


def number_publications(pieces: Sequence[PublishRows]) -> Publications:
    """Dense numbers for the publications of a whole run."""
    message = np.concatenate([piece.message for piece in pieces])
    by_id = np.argsort(message, kind="stable")
    message = message[by_id]
    at_us = np.concatenate([piece.at_us for piece in pieces])[by_id]
    group = np.concatenate([piece.group for piece in pieces])[by_id]
    pos = np.concatenate([piece.pos for piece in pieces])[by_id]
    if np.any(message[1:] == message[:-1]):
        raise TraceError(f"message {message[1:][message[1:] == message[:-1]][0]} published twice")
    by_time = np.argsort(at_us, kind="stable")
    rank = np.empty(len(message), np.int64)
    rank[by_time] = np.arange(len(message))
    origins, base = np.unique(message >> ORIGIN_SHIFT, return_index=True)
    origin = np.searchsorted(origins, message >> ORIGIN_SHIFT)
    return Publications(
        message=message[by_time],
        origin=origin[by_time],
        number=(message & NUMBER_MASK)[by_time],
        group=group[by_time],
        pos=pos[by_time],
        at_us=at_us[by_time],
        origins=origins,
        base=base.astype(np.int64),
        rank=rank,
        somebody_joins=any(piece.somebody_joins for piece in pieces),
    )


def direct_causes(logs: Logs, publications: Publications) -> DirectCauses:
    """Direct causes of everything that these logs publish."""
    words_in_set = len(publications) // 64 + 1
    scratch = np.zeros(words_in_set, np.int64)
    touched = np.zeros(words_in_set, np.int64)
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for _, start, end in logs.bounds():
        published = np.flatnonzero(logs.kind[start:end] == PUBLISH)
        if len(published) == 0:
            continue
        end = start + int(published[-1]) + 1  # what follows the last publication is no cause
        kind = logs.kind[start:end]
        dense = publications.dense(logs.message[start:end])
        words, masks = np.empty((2, end - start), np.int64)
        sizes = np.zeros(len(published), np.int64)
        pairs = kernels.direct_causes(kind, dense, words, masks, sizes, scratch, touched)
        found.append((dense[published], sizes, words[:pairs].copy(), masks[:pairs].copy()))
    if not found:
        return DirectCauses(*(np.zeros(0, np.int64) for _ in range(4)))
    return DirectCauses(*(np.concatenate(column) for column in zip(*found, strict=True)))


def build_graph(
    publications: Publications, pieces: Sequence[DirectCauses], memberships: Memberships
) -> PublishGraph:
    """Join the direct causes of all logs; then lists for one group of everybody, else vectors."""
    offsets, words, masks = _joined(len(publications), pieces)
    size = len(publications)
    cyclic = np.zeros(size, np.bool_)
    order = np.arange(size)
    component = np.arange(size)
    if kernels.any_cause_is_later(offsets, words, masks):
        count = kernels.components(offsets, words, masks, order, component)
        cyclic = np.bincount(component, minlength=count)[component] > 1
    if _lists_suffice(publications, memberships) and not cyclic.any():
        lists = _shortened(offsets, words, masks)
        return PublishGraph(publications, *lists, cyclic, None)
    vectors = np.zeros((size, len(publications.origins)), np.int32)
    kernels.past_vectors(
        offsets, words, masks, order, component, publications.origin, publications.number, vectors
    )
    return PublishGraph(publications, offsets, words, masks, cyclic, vectors)


def _lists_suffice(publications: Publications, memberships: Memberships) -> bool:
    """One group, and nobody comes or goes: then whoever delivers m was owed its direct causes."""
    groups = memberships.groups() | set(np.unique(publications.group).tolist())
    nobody_comes_or_goes = memberships.all_from_start_to_end() and not publications.somebody_joins
    return len(groups) <= 1 and nobody_comes_or_goes


def _joined(size: int, pieces: Sequence[DirectCauses]) -> tuple[Ints, Ints, Ints]:
    """One table for the run: causes of publication m at offsets[m]:offsets[m + 1]."""
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
    return offsets, words[source], masks[source]


def _shortened(offsets: Ints, words: Ints, masks: Ints) -> tuple[Ints, Ints, Ints]:
    new_offsets = np.zeros_like(offsets)
    new_words, new_masks = np.empty_like(words), np.empty_like(masks)
    scratch = np.zeros(len(offsets) // 64 + 1, np.int64)
    pairs = kernels.requirement_lists(
        offsets, words, masks, new_offsets, new_words, new_masks, scratch
    )
    return new_offsets, new_words[:pairs].copy(), new_masks[:pairs].copy()
