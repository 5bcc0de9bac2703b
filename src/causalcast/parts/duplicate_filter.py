"""Has this message been seen? Compact per origin.

Numbers of one origin come almost in order, so a run 1..n without gaps is kept as n, and only what
lies beyond a gap is kept one by one.
"""

from typing import final

from causalcast.core.ids import NUMBER_MASK, MessageId, NodeId, message_id, origin_of


@final
class DuplicateFilter:
    """The ids seen so far."""

    def __init__(self) -> None:
        self.counts: dict[NodeId, int] = {}  # per origin: 1..n were all seen
        self._beyond: dict[NodeId, set[int]] = {}  # per origin: seen after a gap

    def add(self, message: MessageId) -> bool:
        """Remember `message`; True if it is new."""
        origin = origin_of(message)
        number = message & NUMBER_MASK
        count = self.counts.get(origin, 0)
        if number == count + 1:
            if self._beyond and origin in self._beyond:
                number = self._close_gap(origin, number, self._beyond[origin])
            self.counts[origin] = number
            return True
        return number > count and self._add_beyond(origin, number)

    def is_next(self, message: MessageId) -> bool:
        """Whether all before `message` were seen, and nothing after."""
        origin = origin_of(message)
        if self._beyond and origin in self._beyond:
            return False
        return self.counts.get(origin, 0) + 1 == message & NUMBER_MASK

    def has(self, message: MessageId) -> bool:
        """Whether `message` was seen."""
        origin = origin_of(message)
        number = message & NUMBER_MASK
        if number <= self.counts.get(origin, 0):
            return True
        return origin in self._beyond and number in self._beyond[origin]

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

    def beyond(self) -> list[MessageId]:
        """What was seen beyond a gap, in order."""
        return [
            message_id(origin, number)
            for origin, numbers in self._beyond.items()
            for number in sorted(numbers)
        ]

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
