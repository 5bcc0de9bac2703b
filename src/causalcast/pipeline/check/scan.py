"""Phase B: walks every log once against the requirement lists, and passes those that are clean.

Whether node p delivered in order can be read off p's log and the lists, so a file of whole logs is
the unit of work and deliveries are never shuffled. A log of a node that comes or goes, or with
anything wrong in it, is named for a closer look.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from causalcast.pipeline.check.checks.agreement import Tally
from causalcast.pipeline.kernels import scan as kernel
from causalcast.pipeline.logs.bits import words_for
from causalcast.pipeline.logs.logs import NONE, Ints, Logs
from causalcast.pipeline.logs.memberships import Membership, Memberships, always_there
from causalcast.pipeline.logs.publications import Int32s, Publications
from causalcast.pipeline.logs.publish_graph import CauseTable


@dataclass
class Rules:
    """What the scan of a log needs to know about everybody else's logs; sent to every task."""

    publications: Publications
    lists: CauseTable | None
    """None where there is a cycle, or a tie: then every log needs a closer look."""
    memberships: Memberships

    @cached_property
    def _by_group(self) -> tuple[Int32s, Ints, Ints]:
        """The groups that were published to, where each begins in the last, and publications by
        group."""
        by_group = np.argsort(self.publications.group, kind="stable")
        groups, starts = np.unique(self.publications.group[by_group], return_index=True)
        return groups, np.append(starts, len(by_group)), by_group

    def owed(self, memberships: list[Membership]) -> Ints:
        """What a node with these memberships, from start to end, is owed; as words."""
        groups, starts, by_group = self._by_group
        owed = np.zeros(words_for(len(self.publications)), np.int64)
        for membership in memberships:
            place = np.searchsorted(groups, membership.group)
            if place < len(groups) and groups[place] == membership.group:
                kernel.add_to_set(owed, by_group[starts[place] : starts[place + 1]])
        return owed


@dataclass
class Scan:
    """What was seen in some logs of a run."""

    tally: Tally
    deliveries: int
    nodes: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    """Nodes that crashed and did not come back, among those whose logs are clean."""
    suspicious: list[int] = field(default_factory=list)
    """Nodes whose logs need a closer look."""


def scan_logs(logs: Logs, rules: Rules) -> Scan:
    """Walk some logs."""
    scan = Scan(Tally.empty(len(rules.publications)), logs.deliveries())
    for node, start, end in logs.bounds():
        scan.nodes.append(node)
        _scan_log(scan, rules, node, logs, slice(start, end))
    return scan


def scan_silent(nodes: list[int], rules: Rules) -> Scan:
    """Nodes without a single row: members that have delivered nothing, and are up."""
    scan = Scan(Tally.empty(len(rules.publications)), 0)
    for node in nodes:
        _scan_log(scan, rules, node, Logs.empty(), slice(0, 0))
    return scan


def _scan_log(scan: Scan, rules: Rules, node: int, logs: Logs, rows: slice) -> None:
    kind, group = logs.kind[rows], logs.group[rows]
    memberships = rules.memberships.of(node)
    lists, publications = rules.lists, rules.publications
    if lists is None or not always_there(memberships, kind, group):
        scan.suspicious.append(node)
        return
    owed = rules.owed(memberships)
    has, seen = ~owed, np.zeros(words_for(len(publications)), np.int64)
    own = publications.place_of_origin(node)
    result = kernel.scan_log(
        kind, publications.dense(logs.message[rows]), group, own, publications.origin,
        publications.group, lists.offsets, lists.words, lists.masks, owed, has, seen,
    )  # fmt: skip
    if result == kernel.CLEAN_BUT_DOWN:
        scan.down.append(node)
        scan.tally.anywhere |= seen
    elif result == kernel.SUSPICIOUS or _lacks_own(own, publications, owed, seen):
        scan.suspicious.append(node)
    else:
        scan.tally.add(Tally(seen, owed & ~has, seen))


def _lacks_own(own: int, publications: Publications, owed: Ints, seen: Ints) -> bool:
    if own == NONE:
        return False
    return bool(kernel.lacks_own(own, publications.base, publications.rank, owed, seen))
