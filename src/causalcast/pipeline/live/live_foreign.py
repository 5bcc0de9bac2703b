"""A run of another system watched while its event files are written, in the words of `LiveCheck`.

Such a run may be partial, ordered by key, shared, repeated. What came too late is told; that
something has not come is not, for nobody knows whether it ever will.
"""

from typing import Any

from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.live.arrival_check import ArrivalCheck, ArrivalRow, LateArrival

PATIENCE = 10  # batches that a delivery waits for its publication
FACTS = ("key", "causes", "attempt", "tied")


class LiveForeignCheck:
    """The state of one run."""

    def __init__(self, redelivery: str, whole: bool, shares: set[tuple[int, int]]) -> None:
        self.check = ArrivalCheck(redelivery, whole, PATIENCE)
        self.shares = shares
        """(group, node) of those who share."""
        self.in_flight: dict[int, Any] = {}
        self.struck_off: set[int] = set()
        self.overdue = 0
        self.seconds = 0.0
        self.violations = 0
        self._next_pos: dict[int, int] = {}
        self._beyond_a_gap: dict[int, dict[int, tuple[Any, ...]]] = {}
        self._instants: dict[int, int] = {}

    rows_done = property(lambda self: self.check.rows)
    deliveries = property(lambda self: self.check.deliveries)
    unchecked = property(lambda self: self.check.unchecked)

    def learn_members(self, members: dict[int, set[int]]) -> None:
        """Nothing is owed for certain, so members do not matter."""

    def feed(self, node: int, rows: list[tuple[Any, ...]]) -> None:
        """Rows of one node in any order: pos, kind, message, group, then the facts."""
        beyond = self._beyond_a_gap.setdefault(node, {})
        beyond.update({row[0]: row for row in rows if row[0] >= self._next_pos.get(node, 0)})
        ready = []
        while (pos := self._next_pos.setdefault(node, 0)) in beyond:
            ready.append(self._row(node, beyond.pop(pos)))
            self._next_pos[node] += 1
        self.check.feed(node, ready)

    def _row(self, node: int, row: tuple[Any, ...]) -> ArrivalRow:
        pos, kind, message, group, key, causes, attempt, tied = row
        if not tied:
            self._instants[node] = pos
        return ArrivalRow(
            kind, message, group, key, tuple(causes or ()), attempt, (group, node) in self.shares,
            self._instants.get(node, pos), pos,
        )  # fmt: skip

    def settle(self) -> list[Finding]:
        """Go on as far as possible; what was found."""
        return self._findings(self.check.settle())

    def finish(self) -> list[Finding]:
        """No more rows will come."""
        return self._findings(self.check.finish())

    def late(self, grace: float) -> list[Finding]:
        """Nothing is overdue where nothing is owed for certain."""
        return []

    def caught_up(self) -> list[Finding]:
        """Nor does anything catch up."""
        return []

    def rows_waiting(self) -> int:
        """Rows that cannot be judged yet."""
        return self.check.rows_waiting() + sum(map(len, self._beyond_a_gap.values()))

    def pending(self) -> int:
        """Messages that somebody is known to lack: none."""
        return 0

    def _findings(self, found: list[LateArrival]) -> list[Finding]:
        self.violations += len(found)
        return [
            Finding(
                late.guarantee, "inversion", int(str(late.node)), int(str(late.effect)),
                int(str(late.effect_place)), int(str(late.cause)),
            )
            for late in found
        ]  # fmt: skip
