"""So many a second, and some at once."""

from causalcast.runtime.links.allowance import Allowance


def test_what_is_within_the_allowance_waits_for_nothing() -> None:
    allowance = Allowance(per_second=10, burst=20)
    assert allowance.take(20, now=100.0) == 0.0
    assert allowance.take(10, now=101.0) == 0.0


def test_what_is_beyond_it_is_waited_for_and_grows_back() -> None:
    allowance = Allowance(per_second=10, burst=20)
    assert allowance.take(25, now=100.0) == 0.5
    assert allowance.take(0, now=100.4) > 0.0
    assert allowance.take(0, now=100.5) == 0.0
    assert allowance.take(20, now=1000.0) == 0.0, "more than the burst is never saved up"
    assert allowance.take(1, now=1000.0) == 0.1
