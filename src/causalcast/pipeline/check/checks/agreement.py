"""Agreement: what one correct member delivered, every correct member that is owed it delivers.

Correct = up at the end and still a member. Two steps, because it speaks about all logs at once:
each piece of the run says which publications its correct members delivered and which they lack;
only if something was delivered somewhere and lacks elsewhere, a second look names the nodes.
"""

from dataclasses import dataclass

import numpy as np

from causalcast.pipeline.check.checks.finding import EXAMPLES_PER_LOG, Finding, first_few
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.logs.bits import packed, words_for
from causalcast.pipeline.logs.logs import Bools, Ints

NAME = "agreement"
WORDS = {
    "missing": "never delivered a message that another correct member delivered",
    "missing_in_share": "and all that share with it never delivered what another member delivered",
}


@dataclass
class Tally:
    """Per publication, as bits: who of some logs is owed it and who delivered it."""

    delivered: Ints
    """Some correct member delivered it."""
    lacking: Ints
    """Some correct member is owed it and lacks it."""
    anywhere: Ints
    """Some node delivered it, correct or not."""

    @staticmethod
    def empty(publications: int) -> "Tally":
        """Nothing delivered, nothing lacking."""
        return Tally(*np.zeros((3, words_for(publications)), np.int64))

    def add_log(self, log: LogView) -> None:
        """Count one log."""
        for owed, of_group in _final(log):
            self.delivered |= packed(of_group & (log.delivered < log.rows))
            self.lacking |= packed(owed & (log.got >= log.rows))
        self.anywhere |= packed(log.delivered < log.rows)

    def add(self, other: "Tally") -> None:
        """Count what another tally has counted."""
        self.delivered |= other.delivered
        self.lacking |= other.lacking
        self.anywhere |= other.anywhere

    def broken(self) -> Ints:
        """Publications that some correct member delivered and another one lacks."""
        return self.delivered & self.lacking


def find(log: LogView, broken: Bools) -> list[Finding]:
    """What this log lacks of the `broken` publications."""
    lacking = np.zeros(len(broken), np.bool_)
    for owed, _ in _final(log):
        lacking |= owed & (log.got >= log.rows) & broken
    places = np.flatnonzero(lacking)
    found = [
        Finding(NAME, "missing", log.node, int(log.graph.publications.message[m]))
        for m in places[:EXAMPLES_PER_LOG]
    ]
    return first_few(found, len(places))


def _final(log: LogView) -> list[tuple[Bools, Bools]]:
    """What each membership that lasts to the end is owed, and all publications of its group.

    Nothing if the node is down at the end.
    """
    if log.down_at_the_end:
        return []
    groups = log.graph.publications.group
    return [(log.owed(m), groups == m.group) for m in log.final_memberships()]
