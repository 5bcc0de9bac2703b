"""What the spans of one trace say of messages: publications and deliveries, each at a moment.

Parents are always of the same trace, so a trace is all that has to be looked at together. Links go
from trace to trace, but a link is the name of a message already: the key of its producer span.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from causalcast.trace.spans.operations import OTHER, PROCESS, PUBLISH, RECEIVE, Operation
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import SPAN_DIGITS

# The place of a row among those with its time: only what was published while something was
# processed is known to stand after that.
FREE, PARENT, CHILD, DELIVERY = range(4)


@dataclass(slots=True)
class Moment:
    """One publication, or one delivery of one message."""

    service: str
    process: str
    role: str
    at_ns: int
    rank: int
    """Its place among equal times."""
    message: str
    """Its key; empty if a consumer span names none."""
    name: str = ""
    """What people call the message; publications only."""
    topic: str = ""
    share: str = ""
    key: str = ""
    attempt: int = 0
    failed: bool = False
    causes: tuple[str, ...] = ()
    handling: str = ""
    """The consumer span that delivered it, or in which it was published."""


def moments_of(operations: Iterable[Operation], rules: SpanRules) -> Iterator[Moment]:
    """The moments of one trace, whose spans may come in any order, and more than once."""
    return _Trace(operations, rules).moments()


def spans_in_circles(operations: Iterable[Operation]) -> int:
    """How many spans of one trace are their own ancestors, which no real span is."""
    parent_of = {operation.key: operation.parent for operation in operations}
    followed: set[str] = set()
    found = 0
    for begin in parent_of:
        key = begin
        way: dict[str, int] = {}
        while key in parent_of and key not in followed and key not in way:
            way[key] = len(way)
            key = parent_of[key]
        if key in way:
            found += len(way) - way[key]
        followed.update(way)
    return found


class _Trace:
    """The operations of a trace by their keys."""

    def __init__(self, operations: Iterable[Operation], rules: SpanRules) -> None:
        self.rules = rules
        self.operations = {operation.key: operation for operation in operations}
        self.first_answer: dict[str, int] = {}

    def moments(self) -> Iterator[Moment]:
        publications = [
            self._publication(operation)
            for operation in self.operations.values()
            if operation.role == PUBLISH and not self._only_sends(operation)
        ]
        yield from publications  # all are known by now, so each delivery knows its answers
        for operation in self.operations.values():
            if operation.role in (PROCESS, RECEIVE):
                yield from self._deliveries(operation)

    def _only_sends(self, operation: Operation) -> bool:
        """Whether it sends what other spans created; those are the publications then."""
        parent = self.operations.get(operation.parent)
        created_above = parent is not None and parent.creates
        return created_above or (bool(operation.links) and not operation.creates)

    def _publication(self, operation: Operation) -> Moment:
        above = self._above(operation)
        causes: list[str] = []
        rank, handling = FREE, ""
        if above is not None and above.role == PUBLISH:
            causes = [self._message(above)]
        elif above is not None:
            causes = self._messages(above)
            if causes and self._same_process(above, operation):
                rank, handling = CHILD, above.key
                first = self.first_answer.get(above.key, operation.start)
                self.first_answer[above.key] = min(first, operation.start)
        return Moment(
            operation.service, operation.process, PUBLISH, operation.start, rank,
            self._message(operation), operation.name or operation.key[-SPAN_DIGITS:],
            operation.topic, key=operation.order_key, causes=tuple(causes),
            handling=handling,
        )  # fmt: skip

    def _deliveries(self, operation: Operation) -> Iterator[Moment]:
        at_ns, answered = operation.start, self.first_answer.get(operation.key)
        if self.rules.delivered == "end":
            at_ns = operation.end
            if answered is not None and answered <= at_ns:
                at_ns = max(operation.start, answered - 1)  # the last moment before the answer
        rank = PARENT if answered == at_ns else DELIVERY
        for message in self._messages(operation) or [""]:
            yield Moment(
                operation.service, operation.process, operation.role, at_ns, rank, message,
                topic=operation.topic, share=operation.share, attempt=operation.attempt,
                failed=operation.failed, handling=operation.key,
            )  # fmt: skip

    def _same_process(self, one: Operation, other: Operation) -> bool:
        return (one.service, one.process) == (other.service, other.process)

    def _message(self, operation: Operation) -> str:
        return operation.key if self.rules.message == "span" else operation.name

    def _messages(self, operation: Operation) -> list[str]:
        """The messages that a consumer span is about."""
        if self.rules.message == "id":
            return [operation.name] if operation.name else []
        if operation.links:
            return list(dict.fromkeys(operation.links))
        passed: set[str] = set()
        while operation.key not in passed:  # or it is its own ancestor
            passed.add(operation.key)
            above = self._above(operation)
            if above is None:
                # The parent's span may be missing; its key is the message's name all the same.
                unseen = operation.parent and operation.parent not in self.operations
                return [operation.parent] if unseen else []
            if above.role == PUBLISH:
                return [above.key]
            if above.links:
                received = list(dict.fromkeys(above.links))
                return received if len(received) == 1 else []  # which of a batch is not told
            operation = above
        return []

    def _above(self, operation: Operation) -> Operation | None:
        """The nearest span above that published or consumed something."""
        above = self.operations.get(operation.parent)
        for _ in self.operations:  # no way is longer, but for one in circles
            if above is None or above.role != OTHER:
                return above
            above = self.operations.get(above.parent)
        return None
