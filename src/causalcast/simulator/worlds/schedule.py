"""Events in time order: by microsecond, and within one microsecond in the order they were planned.

Events wait unsorted in buckets of about a millisecond; a bucket is sorted when its turn comes. That
makes planning an append and taking an index, where a heap of 100,000 events would spend most of the
run on comparisons. What is planned into the open bucket is put into its place. Where most events
fall on coarse ticks, a bucket is one tick, and needs no sorting unless something falls between.
"""

from bisect import insort
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, final

from mypy_extensions import mypyc_attr

BUCKET_US: Final = 1024
COARSE_FROM_US: Final = 64  # ticks from here on are buckets of their own

_instant = attrgetter("at")


@mypyc_attr(acyclic=True)
class Event:
    """Something that will happen at `at`."""

    __slots__ = ("at",)

    at: int  # set by `Schedule.plan`

    def happen(self) -> None:
        """Let it happen."""
        raise AssertionError("an event must know what happens")


@final
class Schedule:
    """What is still to happen. `tick_us`: on whole multiples of what most events fall."""

    def __init__(self, tick_us: int = 1) -> None:
        self._coarse = tick_us >= COARSE_FROM_US
        self._width = tick_us if self._coarse else BUCKET_US
        self._uneven: dict[int, None] = {}  # coarse buckets with events between two ticks
        self.open: list[Event] = []  # the bucket whose turn it is, sorted
        self.position = 0  # of the next event in it
        self._open_number = -1
        self._buckets: dict[int, list[Event]] = {}
        self._numbers: list[int] = []  # heap of the buckets that exist

    def plan(self, at: int, event: Event) -> None:
        """Let `event` happen at `at`, after all that was planned for that instant before."""
        event.at = at
        number = at // self._width
        if number <= self._open_number:
            insort(self.open, event, lo=self.position, key=_instant)
            return
        if self._coarse and at % self._width != 0:
            self._uneven[number] = None
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [event]
            heappush(self._numbers, number)
        else:
            bucket.append(event)

    def turn_to(self, until: int) -> bool:
        """Let `open` and `position` show the next event; False if none happens by `until`."""
        while self.position == len(self.open):
            if not self._numbers or self._numbers[0] > until // self._width:
                return False
            self._open_next()
        return self.open[self.position].at <= until

    def pending(self) -> list[Event]:
        """Everything that is still to happen; of one instant in the order of planning."""
        later = [event for number in sorted(self._numbers) for event in self._buckets[number]]
        return self.open[self.position :] + later

    def _open_next(self) -> None:
        number = heappop(self._numbers)
        bucket = self._buckets.pop(number)
        if not self._coarse or number in self._uneven:
            bucket.sort(key=_instant)  # stable: equal instants stay in the order of planning
            self._uneven.pop(number, None)
        self.open = bucket
        self.position = 0
        self._open_number = number
