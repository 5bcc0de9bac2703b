"""Large clocks are packed, others are not, and bytes that are no clock are refused."""

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import NodeId, Publication, message_id
from causalcast.core.ids import NODE_LIMIT
from causalcast.errors import WireError
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.protocols.vector_clock_broadcast import SPEC
from causalcast.wire.codec import Codec
from causalcast.wire.packed_clock import packed_clock, unpacked_clock

CODEC = Codec([[], [], SPEC.messages])


def clock_of(ids: list[int], count: int = 1) -> dict[NodeId, int]:
    return {NodeId(i): count for i in ids}


@given(
    st.integers(0, NODE_LIMIT - 300),
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), min_size=1, max_size=60),
    st.sets(st.integers(1, 59), max_size=8),
)
def test_a_clock_comes_back_as_it_was(lowest: int, counts: list[int], left_out: set[int]) -> None:
    clock = {NodeId(lowest + i): n for i, n in enumerate(counts) if i not in left_out}
    sent = CODEC.encode(Stamped(Publication(message_id(NodeId(0), 1), 0, b"x"), clock))
    _, message = CODEC.decode(sent)
    assert isinstance(message, Stamped)
    assert list(message.needs.items()) == list(clock.items())


@pytest.mark.parametrize(
    ("largest", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4), (1 << 32, 8)]
)
def test_a_slot_is_as_wide_as_the_largest_count_needs(largest: int, width: int) -> None:
    clock = clock_of([i for i in range(200) if i != 7], largest)
    packed = packed_clock(clock)
    assert isinstance(packed, bytes)
    assert len(packed) == 199 * width + 13
    assert unpacked_clock(packed) == clock


@pytest.mark.parametrize(
    "clock",
    [
        clock_of(list(range(15))),
        clock_of(list(range(20, 0, -1))),
        clock_of(list(range(0, 60, 3))),
        {**clock_of(list(range(100))), NodeId(50): 1 << 33},
        {**clock_of(list(range(20))), NodeId(3): -1},
    ],
    ids=["small", "not in order", "full of gaps", "one large count", "negative"],
)
def test_other_clocks_stay_maps(clock: dict[NodeId, int]) -> None:
    assert packed_clock(clock) is clock


def packed(width: int, lowest: int, missing: list[int], slots: bytes) -> bytes:
    return struct.pack(f"<BII{len(missing)}I", width, lowest, len(missing), *missing) + slots


@pytest.mark.parametrize(
    "data",
    [
        b"",
        packed(1, 0, [], bytes(15)),
        packed(0, 0, [], bytes(16)),
        packed(3, 0, [], bytes(48)),
        packed(2, 0, [], bytes(33)),
        packed(1, NODE_LIMIT - 15, [], bytes(16)),
        packed(1, 0, [0], bytes(16)),
        packed(1, 0, [16], bytes(16)),
        packed(1, 0, [7, 7], bytes(16)),
        packed(1, 0, [7, 6], bytes(16)),
        packed(1, 0, [3, 4, 5], bytes(16)),
        struct.pack("<BII", 1, 0, 0xFFFFFFFF) + bytes(16),
    ],
)
def test_what_is_no_clock_is_refused(data: bytes) -> None:
    frame = msgspec.msgpack.encode((0, 0, 1, 0, b"", data))
    with pytest.raises(WireError):
        CODEC.decode(frame)


def test_the_frame_of_those_refusals_is_right_but_for_the_clock() -> None:
    """Else they would all be refused for another reason."""
    data = packed(1, 5, [7, 9], bytes(range(16)))
    _, message = CODEC.decode(msgspec.msgpack.encode((0, 0, 1, 0, b"", data)))
    assert isinstance(message, Stamped)
    ids = [5, 6, 8, *range(10, 23)]
    assert message.needs == dict(zip(ids, range(16), strict=True))
