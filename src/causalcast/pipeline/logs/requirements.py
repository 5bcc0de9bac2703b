"""Requirement lists: what to test when a member that is always there delivers a message.

In one group of everybody the direct causes are enough, without those that others imply: whoever
delivers m is owed them all, and they require what lies in their own past; so the first delivery of
a log that breaks anything breaks a requirement of its own. With several groups a chain may run
through messages that a node never gets, and the lists are made from whole pasts. Nodes that come or
go are not judged by lists: what excuses them from x would excuse them from what x requires.
"""

import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from causalcast.pipeline.kernels import group_lists
from causalcast.pipeline.logs.bits import words_for
from causalcast.pipeline.logs.logs import Bools, Ints
from causalcast.pipeline.logs.memberships import Memberships
from causalcast.pipeline.logs.publications import Int32s, Publications
from causalcast.pipeline.logs.publish_graph import (
    CauseTable,
    DirectCauses,
    PublishGraph,
    join_tables,
)

IN_MEMORY = 256 << 20  # bytes of pasts; more are kept in a file
OPEN_AT_ONCE = 1_000_000  # pairs of publication and origin that wait for lists
GROUPS_COMPARED = 5_000  # with more, all of them count as overlapping: longer lists, not wrong ones


def requirement_lists(graph: PublishGraph, memberships: Memberships) -> CauseTable:
    """The lists of a run without cycles."""
    groups, place = np.unique(graph.publications.group, return_inverse=True)
    if len(groups) <= 1:
        return graph.short
    return _lists_for_groups(graph, groups, place.astype(np.int32), memberships)


def _lists_for_groups(
    graph: PublishGraph, groups: Int32s, place: Int32s, memberships: Memberships
) -> CauseTable:
    """Pasts are followed here, some publications at a time, while a second thread makes lists of
    those before; kernels run beside each other."""
    publications = graph.publications
    pasts = _Pasts(graph, place)
    lists = _Lists(publications, groups, place, memberships)
    at_once = pasts.at_once
    pieces: list[DirectCauses] = []
    with ThreadPoolExecutor(1) as helper:
        waiting: Future[DirectCauses] | None = None
        for first in range(0, len(publications), at_once):
            order = graph.order[first : first + at_once]
            found = pasts.follow(first, order)
            if waiting is not None:
                pieces.append(waiting.result())
            waiting = helper.submit(lists.make, order, found)
        if waiting is not None:
            pieces.append(waiting.result())
    return join_tables(len(publications), pieces)


@dataclass
class _Open:
    """Per publication in turn, the origins of which it has something open."""

    opens: Int32s
    origin: Int32s
    after: Int32s
    up_to: Int32s


class _Pasts:
    """The pasts of the publications that others still name, walked in the order of the graph."""

    def __init__(self, graph: PublishGraph, place: Int32s) -> None:
        publications, direct = graph.publications, graph.direct
        table = (direct.offsets, direct.words, direct.masks)
        last_use = np.zeros(len(publications), np.int64)
        group_lists.last_uses_of_words(direct.offsets, direct.words, graph.order, last_use)
        alive = group_lists.alive_at_once(last_use)
        if alive * len(publications.origins) * 4 > IN_MEMORY:
            group_lists.last_uses(*table, graph.order, last_use)
            alive = group_lists.alive_at_once(last_use)
        by_last_use = np.argsort(last_use, kind="stable")
        vectors = _room_for_pasts(alive, len(publications.origins))
        slot, free = np.zeros(len(publications), np.int64), np.arange(alive)
        self.at_once = max(1, OPEN_AT_ONCE // len(publications.origins))
        room = self.at_once * len(publications.origins) + 1
        self._rooms = [  # two: lists are made of one while the other is filled
            _Open(np.empty(self.at_once, np.int32), *np.empty((3, room), np.int32))
            for _ in range(2)
        ]
        self._state = (
            *table, graph.order, last_use, by_last_use, publications.origin, publications.number,
            place, vectors, slot, free, np.array([alive, 0]),
        )  # fmt: skip

    def follow(self, first: int, order: Ints) -> _Open:
        """What the next publications have open; `order` begins at place `first`."""
        found = self._rooms[first // self.at_once % 2]
        group_lists.open_origins(
            *self._state, first, first + len(order), found.opens, found.origin, found.after,
            found.up_to,
        )  # fmt: skip
        return found


class _Lists:
    """What is the same for all lists of a run."""

    def __init__(
        self, publications: Publications, groups: Int32s, place: Int32s, memberships: Memberships
    ) -> None:
        kind = place if len(groups) <= GROUPS_COMPARED else np.zeros_like(place)
        following = _next_to_the_same_group(publications, place)
        by_origin = (publications.rank, kind[publications.rank], following)
        self._facts = (
            kind, publications.base, np.column_stack(by_origin), _may_share(groups, memberships),
            _groups_of_origins(publications, place),
            *np.zeros((2, words_for(len(publications))), np.int64),
        )  # fmt: skip

    def make(self, order: Ints, found: _Open) -> DirectCauses:
        """The lists of some publications."""
        sizes = np.zeros(len(order), np.int64)
        words, masks = group_lists.requirement_lists(
            order, *self._facts, found.opens, found.origin, found.after, found.up_to, sizes
        )
        return DirectCauses(order.astype(np.int32), sizes, words, masks)


def _may_share(groups: Int32s, memberships: Memberships) -> Bools:
    """Which groups have a member in common, at whatever time."""
    if len(groups) > GROUPS_COMPARED:
        return np.ones((1, 1), np.bool_)
    place = {group: number for number, group in enumerate(groups.tolist())}
    share = np.eye(len(groups), dtype=np.bool_)
    for of_node in memberships.by_node.values():
        mine = [place[m.group] for m in of_node if m.group in place]
        share[np.ix_(mine, mine)] = True
    return share


def _next_to_the_same_group(publications: Publications, place: Int32s) -> Int32s:
    """By origin and number: the number of the origin's next publication to the same group."""
    origin, number = publications.origin[publications.rank], publications.number[publications.rank]
    where = origin.astype(np.int64) << 32 | place[publications.rank]
    together = np.argsort(where, kind="stable")
    again = np.flatnonzero(where[together][1:] == where[together][:-1])
    following = np.full(len(publications), np.iinfo(np.int32).max, np.int32)
    following[together[again]] = number[together[again + 1]]
    return following


def _groups_of_origins(publications: Publications, place: Int32s) -> Int32s:
    """To how many groups each origin publishes."""
    pairs = np.unique(publications.origin.astype(np.int64) << 32 | place)
    counts = np.bincount(pairs >> 32, minlength=len(publications.origins))
    return counts.astype(np.int32)


def _room_for_pasts(alive: int, origins: int) -> Int32s:
    """Room for the pasts that are needed at once; the system may move a file's pages to disk."""
    if alive * origins * 4 <= IN_MEMORY:
        return np.empty((alive, origins), np.int32)
    with tempfile.TemporaryFile(prefix="causalcast-pasts-") as file:
        return np.memmap(file, np.int32, "w+", shape=(alive, origins)).view(np.ndarray)
