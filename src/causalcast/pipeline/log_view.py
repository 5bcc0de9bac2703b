"""One node's log together with what the checks ask about it; each answer is computed once.

Only for logs that need a closer look: most are passed by `scan` without one.
"""

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalcast.pipeline.kernels import close_look
from causalcast.pipeline.kinds import CRASH, RECOVER
from causalcast.pipeline.logs import Bools, Ints
from causalcast.pipeline.memberships import Membership, is_late
from causalcast.pipeline.publish_graph import PublishGraph


class LogView:
    """A log, its node's memberships, and the publish graph of the run."""

    def __init__(
        self,
        node: int,
        kind: npt.NDArray[np.int8],
        message: Ints,
        group: npt.NDArray[np.int32],
        memberships: list[Membership],
        graph: PublishGraph,
    ) -> None:
        self.node = node
        self.kind = kind
        self.message = message
        self.group = group
        self.memberships = memberships
        self.graph = graph
        self.dense = graph.publications.dense(message)
        self.rows = len(kind)

    @cached_property
    def _first_rows(self) -> tuple[Ints, Ints]:
        got, delivered = np.full((2, len(self.graph.publications)), self.rows, np.int64)
        close_look.first_rows(self.kind, self.dense, got, delivered)
        return got, delivered

    @property
    def got(self) -> Ints:
        """Per publication the row from which the node has it; the log's length if it never has."""
        return self._first_rows[0]

    @property
    def delivered(self) -> Ints:
        """Per publication the row that first delivers it; the log's length if none does."""
        return self._first_rows[1]

    @cached_property
    def down_at_the_end(self) -> bool:
        """Whether the node crashed and did not come back."""
        changes = np.flatnonzero((self.kind == CRASH) | (self.kind == RECOVER))
        return len(changes) > 0 and bool(self.kind[changes[-1]] == CRASH)

    def members_at(self, rows: Ints, groups: npt.NDArray[np.int32]) -> Bools:
        """Whether the node was a member of each group at the row beside it."""
        result = np.zeros(len(rows), np.bool_)
        for m in self.memberships:
            result |= (groups == m.group) & (rows >= m.start) & (rows < m.end)
        return result

    def final_memberships(self) -> list[Membership]:
        """The memberships that last beyond the last row."""
        return [m for m in self.memberships if m.start <= self.rows < m.end]

    def owed(self, membership: Membership) -> Bools:
        """Which publications this membership entitles the node to.

        A founding member is owed everything. A late one: per origin what follows the first message
        it delivered as a member, everything it did deliver, and everything that its own
        publications since the join precede.
        """
        publications = self.graph.publications
        of_group: Bools = publications.group == membership.group
        if not is_late(membership, self.kind, self.group):
            return of_group
        here = of_group & (self.delivered >= membership.start)
        here &= self.delivered < min(membership.end, self.rows)
        owed = here.copy()
        for q in np.unique(publications.origin[here]):
            of_origin = publications.origin == q
            mine = np.flatnonzero(here & of_origin)
            entry = mine[np.argmin(self.delivered[mine])]
            owed |= of_group & of_origin & (publications.number >= publications.number[entry])
        return owed | of_group & self._follow_own_publications(membership.start)

    def _follow_own_publications(self, since: int) -> Bools:
        """Which publications follow one that this node published from row `since` on."""
        publications = self.graph.publications
        follow = np.zeros(len(publications), np.bool_)
        place = publications.place_of_origin(self.node)
        if place >= 0:
            mine = (publications.origin == place) & (publications.pos >= since)
            table = self.graph.short
            close_look.followers(
                table.offsets, table.words, table.masks, self.graph.order, self.graph.component,
                mine, follow,
            )  # fmt: skip
        return follow

    def stretches(self) -> list[tuple[int, int, Bools]]:
        """Stretches of rows with the same memberships, and what the node is owed in each."""
        return self._stretches

    @cached_property
    def _stretches(self) -> list[tuple[int, int, Bools]]:
        return list(self._walk_stretches())

    def _walk_stretches(self) -> Iterator[tuple[int, int, Bools]]:
        owed = {m: self.owed(m) for m in self.memberships}
        cuts = {0, self.rows}
        for m in self.memberships:
            cuts |= {min(m.start, self.rows), min(m.end, self.rows)}
        places = sorted(cuts)
        for first, end in itertools.pairwise(places):
            due = np.zeros(len(self.graph.publications), np.bool_)
            for m in self.memberships:
                if m.start <= first < m.end:
                    due |= owed[m]
            yield first, end, due
