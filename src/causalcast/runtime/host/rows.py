"""Rows of a node's trace; written at the end of a turn."""

from collections.abc import Sequence
from typing import final

from causalcast.core.ids import NodeId
from causalcast.core.message import Publication
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.machine import NodeClock
from causalcast.trace.log_rows import NONE, Row
from causalcast.trace.node_log import NodeLog
from causalcast.wire.forms import Description


@final
class Rows:
    """The trace log of a node that has one, and which kinds of rows it wants."""

    def __init__(self, clock: NodeClock, turns: Turns) -> None:
        self.trace: NodeLog | None = None
        self.wants = [False] * 32  # by kind; all are false without a trace
        # Those of the step under way, where they wait for its entry in the journal.
        self.waiting: list[Row] = []
        self._waits = False
        self._clock = clock
        self._turns = turns

    def begin(self, trace: NodeLog | None) -> None:
        """The node has a trace from here on."""
        self.trace = trace
        if trace is not None:
            self.wants = trace.wants

    def wait_for_entries(self) -> None:
        """Steps have entries in a journal from here on."""
        self._waits = True

    def of_step(self, row: Row) -> None:
        """Write a row of the step under way, when that is durable."""
        if self.wants[row[1]]:
            self.waiting.append(row)
            if not self._waits:
                self.happened(self.take())

    def take(self) -> list[Row]:
        """The rows of the step that ends now."""
        rows, self.waiting = self.waiting, []
        return rows

    def happened(self, rows: list[Row]) -> None:
        """What these rows tell is durable: write them at the end of this turn."""
        if self.trace is not None and rows:
            self.trace.extend(rows)
            self._turns.plan()

    def add(
        self,
        at_us: int,
        kind: int,
        message: int = NONE,
        group: int = NONE,
        peer: int = NONE,
        value: int = NONE,
        note: str | None = None,
    ) -> None:
        """Write a row at the end of this turn."""
        if self.wants[kind]:
            self.happened([(at_us, kind, message, group, peer, NONE, NONE, value, note)])

    def add_now(
        self,
        kind: int,
        message: int = NONE,
        group: int = NONE,
        peer: int = NONE,
        note: str | None = None,
    ) -> None:
        """The same, about something that is no part of a step."""
        if self.wants[kind]:
            self.add(self._clock.wall_us(), kind, message, group, peer, NONE, note)


def row_about(at_us: int, kind: int, peer: NodeId, about: Description) -> Row:
    """The row for a message that goes to `peer` or comes from it."""
    return (
        at_us,
        kind,
        about.message,
        about.group,
        peer,
        about.payload_bytes,
        about.metadata_bytes,
        about.clock_entries,
        about.name,
    )


def run_row(
    at_us: int, kind: int, peer: NodeId, about: Description, publication: Publication, beside: int
) -> Row:
    """The row for one of those that travel as one; `about` tells of all of them."""
    return (
        at_us,
        kind,
        publication.id,
        about.group,
        peer,
        len(publication.body),
        beside,
        about.clock_entries,
        about.name,
    )


def beside_bodies(about: Description, publications: Sequence[Publication]) -> list[int]:
    """What travelled beside the bodies of a run, shared out among its messages, the last one's
    share first. `about` has the bytes of all, and the body of the first."""
    size = about.payload_bytes + about.metadata_bytes
    for publication in publications:
        size -= len(publication.body)
    count = len(publications)
    share, rest = size // count, size % count
    return [share] * (count - rest) + [share + 1] * rest
