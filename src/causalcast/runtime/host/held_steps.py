"""Steps whose visible effects wait for the disk, in the order they were taken.

The rule, written on `Outbox.persist`: no send, delivery or trace row of a step or of a later one
becomes visible before the step's entry is durable. So a step without an entry waits behind those
that have one.
"""

import asyncio
import collections
from collections.abc import Callable, Iterator
from typing import Any

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.message import Publication
from causalcast.runtime.storage.durable_entry import Step, TraceRows, rows_of
from causalcast.trace.log_rows import Row

# Something that will happen: a function and its arguments.
Action = tuple[Callable[..., Any], tuple[Any, ...]]


class HeldStep:
    """A step whose visible effects wait: for its own entry, or for one before it."""

    __slots__ = (
        "actions",
        "deliveries",
        "entry",
        "entry_bytes",
        "owed",
        "publisher",
        "rows",
        "sequence",
    )

    def __init__(
        self,
        sequence: int,  # of its entry; 0 if it has none
        rows: list[Row],
        actions: list[Action],
        entry: Step | None = None,
        entry_bytes: int = 0,
        deliveries: list[Publication] | None = None,
        publisher: "asyncio.Future[MessageId] | None" = None,
        owed: list[int] | None = None,
    ) -> None:
        self.sequence = sequence
        self.rows = rows  # of the trace; they come before what the actions add to it
        self.actions = actions
        self.entry = entry
        self.entry_bytes = entry_bytes
        self.deliveries = deliveries or []
        self.owed = owed or []  # for each of them: the readers it is for
        self.publisher = publisher  # who published waits for this


class HeldSteps:
    """The queue; `bytes` of entries are on their way to the disk."""

    def __init__(self) -> None:
        self.bytes = 0
        self._steps: collections.deque[HeldStep] = collections.deque()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, step: HeldStep) -> None:
        """A further step waits."""
        self._steps.append(step)
        self.bytes += step.entry_bytes

    def durable_up_to(self, sequence: int) -> Iterator[HeldStep]:
        """Take out, in order, the steps that need not wait once entry `sequence` is durable."""
        steps = self._steps
        while steps and steps[0].sequence <= sequence:
            step = steps.popleft()
            self.bytes -= step.entry_bytes
            yield step

    def publishers(self) -> "list[asyncio.Future[MessageId]]":
        """What those wait for whose publications are not durable yet."""
        return [step.publisher for step in self._steps if step.publisher is not None]

    def deliveries(self) -> list[tuple[Publication, int]]:
        """Everything that will be delivered when the disk has it, and the readers it is for."""
        return [
            delivery
            for step in self._steps
            for delivery in zip(step.deliveries, step.owed, strict=True)
        ]

    def owe(self, group: GroupId, bit: int) -> None:
        """What will be delivered in `group` is for one reader more."""
        for step in self._steps:
            for index, publication in enumerate(step.deliveries):
                if publication.group == group and step.owed[index]:  # kept for somebody
                    step.owed[index] |= bit

    def rows(self, me: NodeId) -> list[TraceRows]:
        """What the trace will say of the steps that wait."""
        return [
            rows_of(step.sequence, step.entry, me) for step in self._steps if step.entry is not None
        ]

    def clear(self) -> None:
        """Nothing of it will happen: the node stops."""
        self._steps.clear()
        self.bytes = 0
