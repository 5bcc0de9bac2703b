"""What travels with a payload: it comes out as it went in, and a payload is never taken for it."""

from hypothesis import example, given, settings
from hypothesis import strategies as some

from causalcast.runtime.host.observed import Observed
from causalcast.runtime.machine import Clock, NodeClock
from causalcast.runtime.metadata import (
    LATEST_US,
    MARK,
    Metadata,
    has_metadata,
    metadata_in,
    most_overhead,
    payload_in,
    payload_size,
    with_metadata,
)

PAYLOADS = some.binary(max_size=40).flatmap(
    lambda start: some.sampled_from([b"", MARK, b"\x00\x01" + MARK]).map(lambda end: start + end)
)


@settings(deadline=None)
@given(PAYLOADS, some.integers(1, LATEST_US - 1))
def test_payload_and_time_come_out_as_they_went_in(payload: bytes, published_us: int) -> None:
    body = with_metadata(payload, Metadata(published_us))
    assert has_metadata(body)
    assert payload_in(body) == payload and payload_size(body) == len(payload)
    assert metadata_in(body).published_us == published_us
    assert len(body) - len(payload) <= most_overhead()


@settings(deadline=None)
@given(some.binary(max_size=40))
def test_a_payload_alone_is_all_there_is(body: bytes) -> None:
    if not has_metadata(body):
        assert payload_in(body) == body and payload_size(body) == len(body)
        assert metadata_in(body).published_us == 0


@settings(deadline=None)
@given(some.binary(max_size=40))
@example(b"\x91\xa4\x00\x00\x00\x80\x00\x06")  # text that is none
@example(b"\x91" * 3000 + (3000).to_bytes(2, "big"))  # deeper than anybody follows
@example(b"\x91\x81\x80\x01\x00\x04")  # a map by lists
def test_nonsense_is_no_reason_to_lose_a_message(nonsense: bytes) -> None:
    body = nonsense + MARK
    assert metadata_in(body).published_us >= 0
    assert payload_size(body) == len(payload_in(body)) <= len(body)


def test_a_time_that_no_calendar_has_is_none() -> None:
    assert metadata_in(with_metadata(b"x", Metadata(LATEST_US))).published_us == 0


class StandingClock(Clock):
    """It is always the same time."""

    def monotonic_us(self) -> int:
        return 5_000_000

    def wall_us(self) -> int:
        return 5_000_000


def test_what_comes_from_the_future_is_counted_and_not_measured() -> None:
    observed = Observed(NodeClock(StandingClock()))
    observed.measure(with_metadata(b"", Metadata(4_000_000)))
    observed.measure(with_metadata(b"", Metadata(5_000_001)))
    observed.measure(b"nothing" + MARK)  # it does not say when
    assert observed.since_published.as_numbers()["count"] == 1
    assert observed.since_published.sum_us == 1_000_000
    assert observed.from_the_future == 1
