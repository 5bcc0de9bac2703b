"""No creation: what is delivered was published, to that group, before, and to this member.

A message that precedes itself in happens-before was delivered somewhere before it could have been
published; which of the deliveries on the cycle is the impossible one cannot be told, so the
publisher is named.
"""

from collections.abc import Iterator

import numpy as np

from causalcast.pipeline.check.checks.finding import EXAMPLES_PER_LOG, Finding, first_few
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.kernels.kinds import DELIVER

NAME = "no_creation"
WORDS = {
    "unpublished": "delivered a message that nobody published",
    "wrong_group": "delivered a message under a group to which it was not published",
    "not_a_member": "delivered a message of a group to which it does not belong at that row",
    "before_publish": "delivered its own message before publishing it",
    "cycle": "published a message that some node delivered before it can have existed",
}


UNKNOWN_IF_PARTIAL = ("unpublished", "not_a_member")  # the row that explains it may be missing


def find(log: LogView) -> list[Finding]:
    """Deliveries of this log that are impossible, and its publications that precede themselves."""
    wrong = _kinds_of_wrong(log)
    kinds = list(WORDS)
    if not log.whole:
        wrong[np.isin(wrong, [kinds.index(kind) for kind in UNKNOWN_IF_PARTIAL])] = -1
    early = wrong == kinds.index("before_publish")
    cyclic = list(_cyclic(log))
    impossible, others = np.flatnonzero(early), np.flatnonzero((wrong >= 0) & ~early)
    few, more = (
        [
            Finding(NAME, kinds[wrong[row]], log.node, int(log.message[row]), int(row))
            for row in rows[:EXAMPLES_PER_LOG]
        ]
        for rows in (impossible, others)
    )
    return [
        *first_few(cyclic + few, len(impossible) + len(cyclic)),
        *first_few(more, len(others)),
    ]


def count_unknown(log: LogView) -> int:
    """Deliveries of a partial log that are impossible unless a row is missing."""
    if log.whole:
        return 0
    kinds = [list(WORDS).index(kind) for kind in UNKNOWN_IF_PARTIAL]
    return int(np.count_nonzero(np.isin(_kinds_of_wrong(log), kinds)))


def _kinds_of_wrong(log: LogView) -> np.ndarray:
    """Per row the place of its fault in `WORDS`, -1 if there is none; the first fault counts."""
    publications = log.graph.publications
    wrong = np.full(log.rows, -1, np.int64)
    rows = np.flatnonzero(log.kind == DELIVER)
    unknown = log.dense[rows] < 0
    wrong[rows[unknown]] = 0
    rows = rows[~unknown]
    dense = log.dense[rows]
    groups = publications.group[dense]
    place = publications.place_of_origin(log.node)
    own = publications.origin[dense] == place
    published_at = np.where(own, publications.pos[dense], 0)
    own_too_early = own & (log.instant[rows] < log.instant[published_at])
    wrong[rows[own_too_early]] = 3
    wrong[rows[~log.members_at(rows, groups)]] = 2
    wrong[rows[groups != log.group[rows]]] = 1
    return wrong


def _cyclic(log: LogView) -> Iterator[Finding]:
    if not log.graph.cyclic.any():
        return
    publications = log.graph.publications
    own = publications.origin == publications.place_of_origin(log.node)
    for m in np.flatnonzero(log.graph.cyclic & own):
        message, pos = int(publications.message[m]), int(publications.pos[m])
        yield Finding(NAME, "cycle", log.node, message, pos)
