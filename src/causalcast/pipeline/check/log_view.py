"""One node's log together with what the checks ask about it; each answer is computed once.

Only for logs that need a closer look: most are passed by `scan` without one.
"""

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from causalcast.pipeline.kernels import close_look
from causalcast.pipeline.kernels.kinds import CRASH, DELIVER, RECOVER
from causalcast.pipeline.logs.logs import Bools, Ints
from causalcast.pipeline.logs.memberships import Membership, is_late
from causalcast.pipeline.logs.publish_graph import PublishGraph


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
        attempt: npt.NDArray[np.int32] | None = None,
        instant: Ints | None = None,
        at_us: Ints | None = None,
        whole: bool = True,
        redelivery: str = "none",
    ) -> None:
        self.node = node
        self.kind = kind
        self.message = message
        self.group = group
        self.memberships = memberships
        self.graph = graph
        self.attempt = attempt
        self.at_us = at_us
        self.whole = whole
        self.redelivery = redelivery
        self.dense = graph.publications.dense(message)
        self.rows = len(kind)
        self.instant: Ints = np.arange(self.rows) if instant is None else instant
        """Per row; rows of one instant are not ordered."""

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
    def got_at(self) -> Ints:
        """Per publication the instant from which the node has it; the log's length if never."""
        return np.append(self.instant, self.rows)[self.got]

    @cached_property
    def repetition(self) -> Bools:
        """Per publication whether its first row here may not be its first delivery."""
        result = np.zeros(len(self.graph.publications), np.bool_)
        unnumbered = not self.whole and self.redelivery != "none"
        if self.attempt is None and not unnumbered:
            return result
        first = np.flatnonzero((self.delivered < self.rows) & (self.got == self.delivered))
        if self.attempt is None:
            result[first] = True
            return result
        attempt = self.attempt[self.delivered[first]]
        result[first] = (attempt > 1) | ((attempt < 0) & unnumbered)
        return result

    @cached_property
    def judged(self) -> npt.NDArray[np.int8]:
        """Kinds of rows; those whose order does not matter are nothing. Of those who share a
        message, whoever gets it again may get it in any order."""
        if self.attempt is None or not any(m.share is not None for m in self.memberships):
            return self.kind
        kinds = self.kind.copy()
        for m in self.memberships:
            if m.share is not None:
                rows = np.arange(self.rows)
                here = (self.group == m.group) & (rows >= m.start) & (rows < m.end)
                kinds[here & (self.attempt > 1) & (self.kind == DELIVER)] = -1
        return kinds

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
        publications since the join precede. Who shares a group: what it did deliver.
        """
        publications = self.graph.publications
        of_group: Bools = publications.group == membership.group
        if membership.share is not None:
            return self.came(membership)
        if not is_late(membership, self.kind, self.group):
            return of_group
        here = self.came(membership)
        owed = here.copy()
        for q in np.unique(publications.origin[here]):
            of_origin = publications.origin == q
            mine = np.flatnonzero(here & of_origin)
            entry = mine[np.argmin(self.delivered[mine])]
            owed |= of_group & of_origin & (publications.number >= publications.number[entry])
        return owed | of_group & self._follow_own_publications(membership.start)

    def came(self, membership: Membership) -> Bools:
        """Which publications it delivered as this member."""
        here: Bools = self.graph.publications.group == membership.group
        here = here & (self.delivered >= membership.start)
        return here & (self.delivered < min(membership.end, self.rows))

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
    def surely(self) -> list[tuple[int, int, Bools]]:
        """The same with what is owed for certain and came, if it came, for the first time: in a
        partial log only what did come."""
        if self.whole and not self.repetition.any():
            return self._stretches
        if self.whole:
            return [(first, end, owed & ~self.repetition) for first, end, owed in self._stretches]
        came = {m: self.came(m) & ~self.repetition for m in self.memberships}
        return list(self._walk_stretches(came))

    @property
    def leaves_doubts(self) -> bool:
        """Whether some of what is owed is owed only perhaps, because rows may be missing."""
        return not self.whole or bool(self.repetition.any())

    @cached_property
    def _stretches(self) -> list[tuple[int, int, Bools]]:
        return list(self._walk_stretches({m: self.owed(m) for m in self.memberships}))

    def _walk_stretches(self, owed: dict[Membership, Bools]) -> Iterator[tuple[int, int, Bools]]:
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
