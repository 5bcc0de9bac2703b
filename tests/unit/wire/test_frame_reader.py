"""Frames are cut from a stream however it is chopped, and none beyond the limit is waited for."""

import pytest

from causalcast.errors import WireError
from causalcast.wire.framing import MANY, MOST_TOGETHER, FrameReader, frame, frame_all

BODIES = [b"a", b"", b"x" * 5000, b"last"]
STREAM = b"".join(map(frame, BODIES))


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100, 4999, len(STREAM)])
def test_any_chopping_gives_the_same_frames(piece: int) -> None:
    reader = FrameReader(limit=5000)
    found = []
    for start in range(0, len(STREAM), piece):
        found += reader.feed(STREAM[start : start + piece])
    assert found == BODIES
    assert reader.pending() == 0


def test_a_frame_larger_than_the_buffer_grows_it_as_it_arrives() -> None:
    reader = FrameReader(limit=3 << 20)
    large = bytes(range(256)) * (1 << 13)
    assert reader.feed(frame(large) + frame(b"small")) == [large, b"small"]
    reader.writable()
    assert len(reader._buffer) <= 1 << 18  # and gives the room back


def test_an_announced_length_is_refused_before_room_is_made() -> None:
    reader = FrameReader(limit=1000)
    with pytest.raises(WireError, match="1001 bytes; at most 1000"):
        reader.feed((1001).to_bytes(4, "big"))
    assert len(reader._buffer) <= 1004


def test_one_frame_at_a_time_leaves_the_rest() -> None:
    reader = FrameReader(limit=10)
    data = frame(b"one") + frame(b"two")
    reader.writable()[: len(data)] = data
    assert [bytes(body) for body in reader.filled(len(data), at_most=1)] == [b"one"]
    assert [bytes(body) for body in reader.filled(0)] == [b"two"]


def test_one_message_has_a_frame_of_its_own() -> None:
    assert frame_all([b"alone"]) == frame(b"alone")


def test_what_leaves_together_shares_frames_up_to_a_size() -> None:
    bodies = [bytes([0x91, number % 128]) * 500 for number in range(300)]
    frames = FrameReader(limit=1 << 20).feed(frame_all(bodies))
    assert len(frames) == 5  # 300 kB
    assert all(body[0] == MANY and len(body) <= MOST_TOGETHER.value for body in frames)
    assert b"".join(body[5:] for body in frames) == b"".join(bodies)
    assert sum(int.from_bytes(body[1:5], "big") for body in frames) == len(bodies)


def test_a_large_message_travels_alone_between_others() -> None:
    large = b"\x91" * (MOST_TOGETHER.value + 1)
    small = b"\x91\x01"
    frames = FrameReader(limit=1 << 20).feed(frame_all([small, large, small, small]))
    assert frames == [small, large, bytes([MANY, 0, 0, 0, 2]) + 2 * small]


def test_a_message_longer_than_a_frame_travels_in_pieces() -> None:
    limit = 1000
    bodies = [b"a" * 10, b"b" * 2500, b"c" * limit, b"d" * (limit + 1), b"e"]
    stream = b"".join(frame(body, limit) for body in bodies)
    for step in (1, 7, 999, len(stream)):
        reader = FrameReader(limit)
        reader.longest = 2500
        found = [
            body
            for start in range(0, len(stream), step)
            for body in reader.feed(stream[start : start + step])
        ]
        assert found == bodies
        assert reader.pending() == 0


def test_messages_that_leave_together_may_be_longer_than_a_frame_too() -> None:
    limit = MOST_TOGETHER.value
    bodies = [b"\x91", b"b" * (limit + 5), b"\x92"]
    reader = FrameReader(limit)
    reader.longest = 2 * limit
    assert reader.feed(frame_all(bodies, limit)) == bodies


def test_pieces_are_not_kept_without_bound() -> None:
    reader = FrameReader(1000)
    reader.longest = 2000
    with pytest.raises(WireError, match="in pieces; at most 2000"):
        reader.feed(frame(b"x" * 2001, 1000))
    reader = FrameReader(1000)
    with pytest.raises(WireError, match="in pieces"):  # greetings have none
        reader.feed(frame(b"x" * 1001, 1000))
    with pytest.raises(WireError, match="no empty"):
        FrameReader(1000).feed((1 << 31).to_bytes(4))
