"""Buckets that are sorted when opened give the order of a plain heap."""

import heapq
import random

from hypothesis import given
from hypothesis import strategies as st

from causalcast.simulator.worlds.schedule import Event, Schedule


class Marked(Event):
    def __init__(self, mark: int) -> None:
        super().__init__()
        self.mark = mark


def take(schedule: Schedule, until: int) -> Marked | None:
    if not schedule.turn_to(until):
        return None
    event = schedule.open[schedule.position]
    schedule.position += 1
    assert isinstance(event, Marked)
    return event


@given(
    st.integers(0, 100_000), st.sampled_from([10, 2_000, 100_000]), st.sampled_from([1, 64, 1000])
)
def test_it_gives_the_order_of_a_heap(seed: int, spread: int, tick: int) -> None:
    """Events plan further events, some at the very instant that is being handled."""
    rng = random.Random(seed)
    schedule, heap, planned = Schedule(tick), list[tuple[int, int]](), 0
    for _ in range(30):
        at = rng.randrange(spread)
        schedule.plan(at, Marked(planned))
        heapq.heappush(heap, (at, planned))
        planned += 1
    while heap:
        event = take(schedule, 1 << 60)
        assert event is not None
        assert (event.at, event.mark) == heapq.heappop(heap)
        for _ in range(rng.choice([0, 0, 1, 2]) if planned < 200 else 0):
            at = event.at + rng.choice([0, 1, rng.randrange(spread)])
            at += -at % tick if rng.random() < 0.7 else 0
            schedule.plan(at, Marked(planned))
            heapq.heappush(heap, (at, planned))
            planned += 1
        assert len(schedule.pending()) == len(heap)
    assert take(schedule, 1 << 60) is None


def test_nothing_happens_after_until() -> None:
    schedule = Schedule()
    schedule.plan(100, Marked(1))
    schedule.plan(5_000, Marked(2))
    assert take(schedule, 99) is None
    first = take(schedule, 100)
    assert first is not None and first.mark == 1
    assert take(schedule, 4_999) is None
    schedule.plan(2_000, Marked(3))
    third = take(schedule, 4_999)
    assert third is not None and third.mark == 3
