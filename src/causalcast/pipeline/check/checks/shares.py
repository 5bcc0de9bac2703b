"""Consumers that share a group: each message goes to exactly one of them.

Who of them lacks a message breaks nothing; that two got it for the first time is a duplication, and
that none got what another member of the group delivered breaks agreement. Both need all logs of a
share: each is looked at by itself, and the sets are joined.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from causalcast.pipeline.check.checks import agreement, no_duplication
from causalcast.pipeline.check.checks.finding import EXAMPLES_PER_LOG, Finding, first_few
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.kernels.kinds import DELIVER
from causalcast.pipeline.logs.bits import packed, unpacked, words_for
from causalcast.pipeline.logs.logs import Ints
from causalcast.pipeline.logs.memberships import is_late
from causalcast.pipeline.logs.publications import Int32s, Publications


@dataclass
class Portion:
    """What one member of a share got."""

    group: int
    share: str
    node: int
    first: Ints
    """For the first time, as bits."""
    got: Ints
    stays: bool
    """Whether it was a member from the start, and is up and one at the end."""


def portions(logs: Iterable[LogView]) -> list[Portion]:
    """What the members of shares among some logs got."""
    found = []
    for log in logs:
        for m in log.memberships:
            if m.share is None:
                continue
            rows = np.flatnonzero((log.kind == DELIVER) & (log.dense >= 0) & (log.group == m.group))
            rows = rows[(rows >= m.start) & (rows < m.end)]
            attempt = np.full(len(rows), -1) if log.attempt is None else log.attempt[rows]
            first = rows[(attempt == 1) | ((attempt < 0) & (log.redelivery == "none"))]
            size = len(log.graph.publications)
            stays = not log.down_at_the_end and m in log.final_memberships()
            stays = stays and not is_late(m, log.kind, log.group)
            in_first, in_all = (_bits(log.dense[which], size) for which in (first, rows))
            found.append(Portion(m.group, m.share, log.node, in_first, in_all, stays))
    return found


def _bits(members: Int32s, size: int) -> Ints:
    present = np.zeros(size, np.bool_)
    present[members] = True
    return packed(present)


def find(
    parts: Sequence[Portion], publications: Publications, delivered: Ints, whole: bool
) -> list[Finding]:
    """What the members of each share did wrong together.

    `delivered`: what any correct member of the run delivered.
    """
    found: list[Finding] = []
    shares: dict[tuple[int, str], list[Portion]] = {}
    for part in sorted(parts, key=lambda part: part.node):
        shares.setdefault((part.group, part.share), []).append(part)
    for (group, _), members in sorted(shares.items()):
        seen = np.zeros(words_for(len(publications)), np.int64)
        for part in members:
            twice = unpacked(seen & part.first, len(publications))
            found += _findings(no_duplication.NAME, "shared_twice", part.node, twice, publications)
            seen |= part.first
        staying = [part.node for part in members if part.stays]
        if whole and staying:
            got = np.bitwise_or.reduce([part.got for part in members])
            lacking = unpacked(delivered & ~got, len(publications)) & (publications.group == group)
            kind = "missing_in_share"
            found += _findings(agreement.NAME, kind, staying[0], lacking, publications)
    return found


def _findings(
    name: str, kind: str, node: int, which: np.ndarray, publications: Publications
) -> list[Finding]:
    places = np.flatnonzero(which)
    few = [
        Finding(name, kind, node, int(publications.message[m])) for m in places[:EXAMPLES_PER_LOG]
    ]
    return first_few(few, len(places))
