"""Copies of publications: what was delivered, what waits, and what is kept for others.

A copy is kept until every member of the newest view is known to have delivered it. Beside that a
member may hold copies that it had delivered or never needed, for a view whose cut counts them.
"""

from collections.abc import Iterator
from typing import Final, final

from causalcast.core.ids import NO_MESSAGE, MessageId, NodeId, message_id
from causalcast.limits import Limit
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import Copy

# What comes further ahead than this is fetched later: a stranger's numbers cannot fill the memory.
MOST_AHEAD: Final = Limit(
    "protocols.viewed_broadcast.copies.most_ahead",
    10_000,
    least=1,
    most=1 << 24,
    unit="messages",
    about="copies of one origin that wait beyond the one that is next",
)
Runs = list[int]  # flat: origin, first, last, and the next


@final
class Copies:
    """All copies that are here, by origin and number, and how many of each origin were delivered.
    All of it survives a crash."""

    def __init__(self) -> None:
        self.done: VectorClock = {}
        self.log: dict[NodeId, dict[int, Copy]] = {}
        self.waiting: dict[NodeId, int] = {}  # how many of each origin are not delivered
        self.kept_bytes = 0
        self.highest: dict[NodeId, int] = {}  # number of each origin that ever was here
        self.cleared: dict[NodeId, int] = {}  # up to here nothing of an origin is kept any more

    def has(self, origin: NodeId, number: int) -> bool:
        """Whether the copy is here, delivered or not."""
        return number in self.log.get(origin, {})

    def is_news(self, copy: Copy) -> bool:
        """Whether it was not delivered and is not here."""
        origin, number = copy.origin(), copy.number()
        return number > self.done.get(origin, 0) and not self.has(origin, number)

    def is_too_far(self, copy: Copy) -> bool:
        """Whether it comes so far ahead that it is not kept."""
        return copy.number() > self.furthest(copy.origin())

    def furthest(self, origin: NodeId) -> int:
        """The last copy of an origin that would be kept now."""
        return self.done.get(origin, 0) + MOST_AHEAD.value

    def put(self, copy: Copy) -> None:
        """Keep a copy that is not here."""
        origin, number = copy.origin(), copy.number()
        self.log.setdefault(origin, {})[number] = copy
        self.kept_bytes += KEPT_OVERHEAD + len(copy.publication.body)
        self.highest[origin] = max(self.highest.get(origin, 0), number)
        if number <= self.cleared.get(origin, 0):
            del self.cleared[origin]
        if number > self.done.get(origin, 0):
            self.waiting[origin] = self.waiting.get(origin, 0) + 1

    def drop(self, origin: NodeId, number: int) -> None:
        """Keep it no longer."""
        copy = self.log[origin].pop(number)
        if not self.log[origin]:
            del self.log[origin]
        self.kept_bytes -= KEPT_OVERHEAD + len(copy.publication.body)
        if number > self.done.get(origin, 0):
            self._waits_no_longer(origin)

    def count(self, copy: Copy) -> None:
        """It is delivered."""
        self.done[copy.origin()] = copy.number()
        self._waits_no_longer(copy.origin())

    def _waits_no_longer(self, origin: NodeId) -> None:
        self.waiting[origin] -= 1
        if not self.waiting[origin]:
            del self.waiting[origin]

    def begin_at(self, cut: VectorClock) -> None:
        """A newcomer: what belongs to views before its first one is not for it."""
        self.done = dict(cut)
        self.count_waiting()

    def count_waiting(self) -> None:
        """Find out anew which copies wait."""
        self.waiting = {}
        for origin, copies in self.log.items():
            beyond = sum(1 for number in copies if number > self.done.get(origin, 0))
            if beyond:
                self.waiting[origin] = beyond

    def ready(self, membership: Membership) -> Copy | None:
        """One that may be delivered now."""
        for origin in self.waiting:
            number = self.done.get(origin, 0) + 1
            copy = self.log[origin].get(number)
            if copy is not None and self.obstacle(copy, membership) is None:
                return copy
        return None

    def obstacle(self, copy: Copy, membership: Membership) -> tuple[MessageId, str] | None:
        """What the next copy of an origin waits for, as an id where there is one, or in words."""
        origin, number = copy.origin(), copy.number()
        before = self.done.get(origin, 0)
        if before < number - 1:
            return message_id(origin, before + 1), ""
        for node, count in copy.needs.items():
            if self.done.get(node, 0) < count:
                return message_id(node, self.done.get(node, 0) + 1), ""
        if copy.view > membership.installed:
            return NO_MESSAGE, f"view {copy.view} to be installed"
        if membership.shuts(origin, number):
            return NO_MESSAGE, f"word whether it belongs to what node {origin} left"
        return None

    def top(self, origin: NodeId) -> int:
        """Up to which number all are delivered or here."""
        number = self.done.get(origin, 0)
        copies = self.log.get(origin)
        if copies is not None and origin in self.waiting:
            while number + 1 in copies:
                number += 1
        return number

    def runs(self, cut: VectorClock) -> Runs:
        """What is here and delivered, or counted by `cut`."""
        found: Runs = []
        for origin, copies in self.log.items():
            most = max(self.done.get(origin, 0), cut.get(origin, 0))
            _add_runs(found, origin, [number for number in copies if number <= most])
        return found

    def missing(self, runs: Runs, cut: VectorClock) -> "Wanted":
        """What of these runs the cut counts and is not here."""
        found: dict[NodeId, dict[int, None]] = {}
        for origin, first, last in triples(runs):
            most = min(last, cut.get(origin, 0))
            lacking = {n: None for n in range(first, most + 1) if not self.has(origin, n)}
            if lacking:
                found.setdefault(origin, {}).update(lacking)
        return Wanted(found)

    def those_in(self, runs: Runs) -> Iterator[Copy]:
        """The copies of these runs that are here, in the order of their numbers."""
        for origin, first, last in triples(runs):
            copies = self.log.get(origin, {})
            for number in sorted(copies):
                if first <= number and (last == 0 or number <= last):
                    yield copies[number]

    def all(self) -> Iterator[Copy]:
        """Everything that is here."""
        for copies in self.log.values():
            yield from copies.values()

    def size(self) -> int:
        """How many entries are kept."""
        return len(self.done) + sum(map(len, self.log.values()))


@final
class Wanted:
    """Copies that an agreement waits for."""

    def __init__(self, numbers: dict[NodeId, dict[int, None]]) -> None:
        self._numbers = numbers

    def has(self, copy: Copy) -> bool:
        """Whether this one is among them."""
        return copy.number() in self._numbers.get(copy.origin(), {})

    def remove(self, copy: Copy) -> None:
        """It is here."""
        numbers = self._numbers.get(copy.origin(), {})
        numbers.pop(copy.number(), None)
        if not numbers:
            self._numbers.pop(copy.origin(), None)

    def is_empty(self) -> bool:
        """Whether all are here."""
        return not self._numbers

    def runs(self) -> Runs:
        """What is still missing."""
        found: Runs = []
        for origin, numbers in self._numbers.items():
            _add_runs(found, origin, list(numbers))
        return found


def triples(runs: Runs) -> Iterator[tuple[NodeId, int, int]]:
    """Origin, first and last of each run."""
    for at in range(0, len(runs) - 2, 3):
        yield NodeId(runs[at]), runs[at + 1], runs[at + 2]


def _add_runs(found: Runs, origin: NodeId, numbers: list[int]) -> None:
    first = last = 0
    for number in sorted(numbers):
        if last and number == last + 1:
            last = number
            continue
        if last:
            found += [origin, first, last]
        first = last = number
    if last:
        found += [origin, first, last]
