"""Timeouts come from sizes first, then from what was measured."""

from causalcast.core.duration import MILLISECOND
from causalcast.datagrams.round_trip import (
    FIRST_TIMEOUT,
    LONGEST_TIMEOUT,
    RoundTrip,
    give_up_after,
    next_timeout,
)


def test_before_anything_is_measured_the_size_decides() -> None:
    trip = RoundTrip(100 * MILLISECOND, per_byte=8)
    assert trip.first_timeout(0) == FIRST_TIMEOUT.value
    assert trip.first_timeout(1000) == FIRST_TIMEOUT.value + 8000


def test_samples_pull_the_timeout_to_what_is_measured() -> None:
    trip = RoundTrip(1 * MILLISECOND)
    trip.sample(40 * MILLISECOND)
    assert trip.smoothed == 40 * MILLISECOND
    assert trip.first_timeout(0) == 40 * MILLISECOND + 4 * 20 * MILLISECOND
    for _ in range(100):
        trip.sample(10 * MILLISECOND)
    assert abs(trip.smoothed - 10 * MILLISECOND) < 100
    assert trip.first_timeout(0) < 11 * MILLISECOND


def test_waits_double_up_to_a_limit_and_add_up() -> None:
    assert next_timeout(300) == 600
    assert next_timeout(LONGEST_TIMEOUT.value) == LONGEST_TIMEOUT.value
    # The first copy and five more: 1 + 2 + 4 + 8 + 16 + 32 times the first wait.
    assert give_up_after(FIRST_TIMEOUT.value, 5) == 63 * FIRST_TIMEOUT.value
    assert give_up_after(FIRST_TIMEOUT.value, 0) == FIRST_TIMEOUT.value
