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
    assert all(body[0] == MANY and len(body) <= MOST_TOGETHER for body in frames)
    assert b"".join(body[5:] for body in frames) == b"".join(bodies)
    assert sum(int.from_bytes(body[1:5], "big") for body in frames) == len(bodies)


def test_a_large_message_travels_alone_between_others() -> None:
    large = b"\x91" * (MOST_TOGETHER + 1)
    small = b"\x91\x01"
    frames = FrameReader(limit=1 << 20).feed(frame_all([small, large, small, small]))
    assert frames == [small, large, bytes([MANY, 0, 0, 0, 2]) + 2 * small]
