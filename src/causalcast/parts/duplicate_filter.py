"""Has this message been seen? Compact per origin.

Numbers of one origin come almost in order, so a run 1..n without gaps is kept as n, and only what
lies beyond a gap is kept one by one.
"""

from typing import final

from causalcast.core.ids import MessageId, NodeId, number_of, origin_of


@final
class DuplicateFilter:
    """The ids seen so far."""

    def __init__(self) -> None:
        self.counts: dict[NodeId, int] = {}  # per origin: 1..n were all seen
        self._beyond: dict[NodeId, set[int]] = {}  # per origin: seen after a gap

    def add(self, message: MessageId) -> bool:
        """Remember `message`; True if it is new."""
        origin, number = origin_of(message), number_of(message)
        count = self.counts.get(origin, 0)
        if number <= count:
            return False
        if number > count + 1:
            return self._add_beyond(origin, number)
        beyond = self._beyond.get(origin)
        if beyond is None:
            self.counts[origin] = number
        else:
            self.counts[origin] = self._close_gap(origin, number, beyond)
        return True

    def has(self, message: MessageId) -> bool:
        """Whether `message` was seen."""
        origin, number = origin_of(message), number_of(message)
        if number <= self.counts.get(origin, 0):
            return True
        beyond = self._beyond.get(origin)
        return beyond is not None and number in beyond

    def skip_to(self, origin: NodeId, count: int) -> None:
        """Take everything of `origin` up to `count` for seen."""
        if count <= self.counts.get(origin, 0):
            return
        beyond = self._beyond.get(origin)
        if beyond is None:
            self.counts[origin] = count
        else:
            beyond.difference_update([number for number in beyond if number <= count])
            self.counts[origin] = self._close_gap(origin, count, beyond)

    def size(self) -> int:
        """Entries kept."""
        return len(self.counts) + sum(len(beyond) for beyond in self._beyond.values())

    def _add_beyond(self, origin: NodeId, number: int) -> bool:
        beyond = self._beyond.setdefault(origin, set())
        if number in beyond:
            return False
        beyond.add(number)
        return True

    def _close_gap(self, origin: NodeId, count: int, beyond: set[int]) -> int:
        """How far the run from 1 reaches now that it reaches `count`."""
        while count + 1 in beyond:
            count += 1
            beyond.remove(count)
        if not beyond:
            del self._beyond[origin]
        return count
