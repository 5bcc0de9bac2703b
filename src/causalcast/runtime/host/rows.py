"""Rows of a node's trace; written at the end of a turn."""

from typing import Any, final

from causalcast.core.ids import NodeId
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.machine import NodeClock
from causalcast.trace.node_log import NodeLog
from causalcast.wire.forms import Description


@final
class Rows:
    """The trace log of a node that has one, and which kinds of rows it wants."""

    def __init__(self, clock: NodeClock, turns: Turns) -> None:
        self.trace: NodeLog | None = None
        self.wants = [False] * 32  # by kind; all are false without a trace
        self._clock = clock
        self._turns = turns

    def begin(self, trace: NodeLog | None) -> None:
        """The node has a trace from here on."""
        self.trace = trace
        if trace is not None:
            self.wants = trace.wants

    def add(self, at_us: int, kind: int, *columns: Any, **named: Any) -> None:
        """Write a row at the end of this turn."""
        if self.trace is not None:
            self.trace.add(at_us, kind, *columns, **named)
            self._turns.plan()

    def add_now(self, kind: int, *columns: Any, **named: Any) -> None:
        """The same, about something that is no part of a step."""
        self.add(self._clock.wall_us(), kind, *columns, **named)


def row_about(at_us: int, kind: int, peer: NodeId, about: Description) -> tuple[Any, ...]:
    """The row for a message that goes to `peer` or comes from it."""
    sizes = (about.payload_bytes, about.metadata_bytes)
    return (at_us, kind, about.message, about.group, peer, *sizes, about.clock_entries, about.name)
