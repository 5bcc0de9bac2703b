"""A large vector clock as bytes: the range of its nodes once, then one slot of fixed width each.

As a map an entry costs an id and a count, up to six bytes where counts take two. Nodes of one
system mostly have ids without large gaps, so a range and the few ids that are missing in it say the
same. A clock that is small, not in the order of ids, or full of gaps stays a map.

    width of a slot (1 byte) | lowest id (4) | how many ids are missing (4) | those (4 each) | slots
"""

import struct
import sys
from array import array
from typing import Final, cast

from causalcast.core.ids import NODE_LIMIT, NodeId

PACKED_FROM: Final = 16  # entries; below a map is as short, and written faster
MISSING_AT_MOST: Final = 8  # a missing id costs as much as several slots: one per so many entries
_HEAD: Final = struct.Struct("<BII")
_SLOT: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


def packed_clock(clock: dict[NodeId, int]) -> dict[NodeId, int] | bytes:
    """The form in which a clock goes on the wire."""
    size = len(clock)
    if size < PACKED_FROM:
        return clock
    ids = list(clock)
    lowest, span = ids[0], ids[-1] - ids[0] + 1
    gaps = span - size
    if gaps < 0 or gaps * MISSING_AT_MOST > size or ids != sorted(ids):
        return clock
    width, slots = _slots(clock)
    missing = [i for i in range(lowest, lowest + span) if i not in clock] if gaps else []
    data = _HEAD.pack(width, lowest, gaps) + struct.pack(f"<{gaps}I", *missing) + slots
    if width == 0 or (width > 2 and len(data) > _bytes_as_a_map(clock)):
        return clock  # a negative count, or few large ones among small ones
    return data


def _bytes_as_a_map(clock: dict[NodeId, int]) -> int:
    """How long a clock with so many entries, none of them negative, is in msgpack."""
    numbers = [*clock, *clock.values()]
    beyond = sum(
        (n >= 1 << 7) + (n >= 1 << 8) + 2 * (n >= 1 << 16) + 4 * (n >= 1 << 32) for n in numbers
    )
    return (3 if len(clock) < 1 << 16 else 5) + len(numbers) + beyond


def _slots(clock: dict[NodeId, int]) -> tuple[int, bytes]:
    """The least width that holds all counts, 0 if none does, and the slots."""
    for width, code in _SLOT.items():
        try:
            slots = array(code, clock.values())
        except OverflowError:  # tried, not searched for: that takes half the time
            continue
        if sys.byteorder == "big":
            slots.byteswap()
        return width, slots.tobytes()
    return 0, b""


def unpacked_clock(data: dict[NodeId, int] | bytes) -> dict[NodeId, int]:
    """The clock; raises ValueError for bytes that are none."""
    if isinstance(data, dict):
        return data
    if len(data) < _HEAD.size:
        raise ValueError("a packed clock is too short")
    width, lowest, gaps = _HEAD.unpack_from(data)
    size, rest = divmod(len(data) - _HEAD.size - 4 * gaps, max(width, 1))
    if width not in _SLOT or size < PACKED_FROM or rest or gaps * MISSING_AT_MOST > size:
        raise ValueError("a packed clock has a wrong length")
    numbers = struct.unpack_from(f"<{gaps}I{size}{_SLOT[width]}", data, _HEAD.size)
    ids: list[int] = []
    last = lowest + size + gaps - 1
    missing = lowest
    for following in numbers[:gaps]:
        if not missing < following < last:
            raise ValueError("a packed clock misses an id outside its range")
        ids.extend(range(missing + 1 if ids else lowest, following))
        missing = following
    ids.extend(range(missing + 1 if ids else lowest, last + 1))
    if last >= NODE_LIMIT:
        raise ValueError("a packed clock names a node beyond the limit")
    return dict(zip(cast(list[NodeId], ids), numbers[gaps:], strict=True))
