"""Requirement lists: what to test when a member that is always there delivers a message.

In one group of everybody the direct causes are enough, without those that others imply: whoever
delivers m is owed them all, and they require what lies in their own past; so the first delivery of
a log that breaks anything breaks a requirement of its own. With several groups a chain may run
through messages that a node never gets, and the lists are made from whole pasts. Nodes that come or
go are not judged by lists: what excuses them from x would excuse them from what x requires.
"""

import tempfile

import numpy as np

from causalcast.pipeline.kernels import group_lists
from causalcast.pipeline.logs import Bools
from causalcast.pipeline.memberships import Memberships
from causalcast.pipeline.publications import Int32s, Publications
from causalcast.pipeline.publish_graph import (
    CauseTable,
    DirectCauses,
    PublishGraph,
    join_tables,
)

IN_MEMORY = 256 << 20  # bytes of pasts; more are kept in a file
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
    publications, direct = graph.publications, graph.direct
    table = (direct.offsets, direct.words, direct.masks)
    last_use = np.zeros(len(publications), np.int64)
    alive = group_lists.last_uses(*table, graph.order, last_use)
    compared = len(groups) <= GROUPS_COMPARED
    kind = place if compared else np.zeros_like(place)
    sizes = np.zeros(len(publications), np.int64)
    words, masks = group_lists.requirement_lists(
        *table, graph.order, last_use, publications.origin, publications.number, place, kind,
        publications.base, publications.rank, kind[publications.rank],
        _next_to_the_same_group(publications, place), _may_share(groups, memberships),
        _groups_of_origins(publications, place), _pasts(alive, len(publications.origins)), sizes,
    )  # fmt: skip
    lists = DirectCauses(graph.order.astype(np.int32), sizes, words, masks)
    return join_tables(len(publications), [lists])


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


def _pasts(alive: int, origins: int) -> Int32s:
    """Room for the pasts that are needed at once; the system may move a file's pages to disk."""
    if alive * origins * 4 <= IN_MEMORY:
        return np.empty((alive, origins), np.int32)
    with tempfile.TemporaryFile(prefix="causalcast-pasts-") as file:
        return np.memmap(file, np.int32, "w+", shape=(alive, origins)).view(np.ndarray)
