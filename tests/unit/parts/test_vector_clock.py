"""Vector clocks: an order that is partial, and a merge that knows both."""

from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import NodeId
from causalcast.parts.vector_clock import VectorClock, advance, concurrent, covers, merge, precedes

CLOCKS = st.dictionaries(st.integers(0, 3).map(NodeId), st.integers(1, 4))


@given(CLOCKS, CLOCKS)
def test_exactly_one_of_before_after_equal_concurrent(one: VectorClock, other: VectorClock) -> None:
    cases = [precedes(one, other), precedes(other, one), one == other, concurrent(one, other)]
    assert sum(cases) == 1


@given(CLOCKS, CLOCKS)
def test_a_merge_is_the_least_clock_that_covers_both(one: VectorClock, other: VectorClock) -> None:
    both = dict(one)
    merge(both, other)
    assert covers(both, one) and covers(both, other)
    assert both == {n: max(one.get(n, 0), other.get(n, 0)) for n in {**one, **other}}


def test_advancing_counts_from_one() -> None:
    clock: VectorClock = {}
    assert [advance(clock, NodeId(1)), advance(clock, NodeId(1)), advance(clock, NodeId(2))] == [
        1,
        2,
        1,
    ]
