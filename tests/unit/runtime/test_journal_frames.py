"""What a crash can tear is cut off; what was durable and is damaged is named, to the very bit."""

import itertools
import random

import pytest

from causalcast.runtime.storage.journal_frames import (
    COMPACTED_BEFORE,
    MAGIC,
    SECTOR,
    SNAPSHOT_START,
    Damage,
    compacted_head,
    frame,
    read_frames,
)

# Groups of entries, each synced by itself. Zeros are what an empty sector has too, so the last
# frame of the second journal has a sector of nothing else, and the last of the third ends with one.
SMALL = [[b"first", b""], [b"third entry"], [b"\x00" * 9, b"last"]]
ZEROS = [[b"first"], [b"x", b"\x00" * (2 * SECTOR + 40), b"end"]]
ZERO_TAIL = [[b"first"], [b"x" * 450, b"\x00" * 30]]


def journal(groups: list[list[bytes]], magic: bytes = MAGIC) -> tuple[bytes, list[int]]:
    """The bytes, and where each frame ends."""
    content, ends, sequence = magic, [], 1
    for group in groups:
        content += frame(sequence, group, len(content))[0]
        sequence += len(group)
        ends.append(len(content))
    return content, ends


def found(content: bytes) -> list[bytes]:
    return [entry.data for entry in read_frames(content).entries]


def flat(groups: list[list[bytes]]) -> list[bytes]:
    return [entry for group in groups for entry in group]


def entry_with_byte(groups: list[list[bytes]], at: int) -> str:
    """How an error names what stands at a byte of `journal(groups)`."""
    place, sequence = len(MAGIC), 1
    for group in groups:
        place += 16
        if at < place:
            first = "the first entry" if sequence == 1 else f"entry {sequence}"
            return f"in the head in front of {first}"
        for entry in group:
            place += 8 + len(entry)
            if at < place:
                return f"in entry {sequence}"
            sequence += 1
    raise AssertionError(at)


@pytest.mark.parametrize("magic", [MAGIC, COMPACTED_BEFORE], ids=["journal", "compacted"])
@pytest.mark.parametrize("groups", [SMALL, ZEROS, ZERO_TAIL], ids=["small", "zeros", "zero tail"])
def test_every_flipped_bit_is_an_error_that_names_it(
    groups: list[list[bytes]], magic: bytes
) -> None:
    """All of them were durable, the last as well: none is taken for torn, wherever the bit is."""
    content, ends = journal(groups, magic)
    assert found(content) == flat(groups)
    for bit in range(8 * len(content)):
        at = bit // 8
        damaged = bytearray(content)
        damaged[at] ^= 1 << bit % 8
        with pytest.raises(Damage) as caught:
            read_frames(bytes(damaged))
        told = str(caught.value)
        if at < len(MAGIC):
            assert f"damaged at byte {at}" in told
        elif magic == COMPACTED_BEFORE and at < ends[0]:
            assert told == f"damaged at byte {len(MAGIC)}, in the snapshot"
        else:
            which = entry_with_byte(groups, at)
            assert told.startswith(f"damaged at byte {at} (bit {bit % 8} flipped), {which}"), told


def compacted(groups: list[list[bytes]], frames: int) -> tuple[bytes, list[int]]:
    """A file whose first `frames` are a snapshot, and where each frame ends."""
    _, ends = journal(groups, bytes(SNAPSHOT_START))
    return journal(groups, compacted_head(ends[frames - 1]))


@pytest.mark.parametrize("groups", [SMALL, ZEROS, ZERO_TAIL], ids=["small", "zeros", "zero tail"])
def test_a_snapshot_of_several_frames_is_never_torn(groups: list[list[bytes]]) -> None:
    """It was synced before the file got its name: whatever is wrong with it is damage, whether a
    bit flipped or its end is missing."""
    content, ends = compacted(groups, 2)
    assert found(content) == flat(groups)
    for bit in range(8 * ends[1]):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damage):
            read_frames(bytes(damaged))
    for length in range(len(MAGIC), ends[1]):
        with pytest.raises(Damage):
            read_frames(content[:length])
    for length in range(ends[1], len(content)):
        assert found(content[:length]) == flat(groups[:2])


@pytest.mark.parametrize("groups", [SMALL, ZEROS, ZERO_TAIL], ids=["small", "zeros", "zero tail"])
def test_a_journal_cut_at_any_byte_keeps_every_whole_frame(groups: list[list[bytes]]) -> None:
    content, ends = journal(groups)
    for length in range(len(MAGIC), len(content) + 1):
        whole = sum(end <= length for end in ends)
        reading = read_frames(content[:length])
        assert [entry.data for entry in reading.entries] == flat(groups[:whole]), length
        assert reading.end == ([len(MAGIC), *ends])[whole]


def test_sectors_of_the_last_frame_that_were_never_written_are_a_torn_tail() -> None:
    """A power cut may leave any of them empty, the one with the frame's head as well."""
    dice = random.Random(7)
    groups = [[b"first", b"second"], [dice.randbytes(700), dice.randbytes(1500)]]
    content, ends = journal(groups)
    borders = [ends[0], *range(SECTOR, len(content), SECTOR), len(content)]
    sectors = list(itertools.pairwise(borders))
    for pattern in range(1, 1 << len(sectors)):
        torn = bytearray(content)
        for number, (start, stop) in enumerate(sectors):
            if pattern >> number & 1:
                torn[start:stop] = bytes(stop - start)
        reading = read_frames(bytes(torn))
        assert [entry.data for entry in reading.entries] == groups[0], pattern
        assert reading.end == ends[0]


def test_an_empty_sector_before_an_intact_frame_is_damage() -> None:
    """Frames are synced one after the other: something behind it says that it had been whole."""
    content, ends = journal([[b"first"], [b"x" * 2000], [b"last"]])
    for start in range(SECTOR, ends[1] - SECTOR, SECTOR):
        damaged = content[:start] + bytes(SECTOR) + content[start + SECTOR :]
        with pytest.raises(Damage, match=f"damaged at byte {ends[0]}, in entry 2"):
            read_frames(damaged)
    head = content[: ends[0]] + bytes(SECTOR) + content[ends[0] + SECTOR :]
    with pytest.raises(Damage, match=f"in entry 2 or its head, and intact at byte {ends[1]}"):
        read_frames(head)


def test_a_last_frame_with_wrong_bytes_and_no_empty_sector_is_damage() -> None:
    """No crash writes other bytes than ours: two bits, or many, that changed are a bad disk."""
    content, ends = journal([[b"first"], [b"the last one"]])
    for first in range(8 * ends[0], 8 * len(content), 7):
        for second in range(first + 1, 8 * len(content), 11):
            damaged = bytearray(content)
            for bit in (first, second):
                damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damage, match="damaged"):
                read_frames(bytes(damaged))


def test_a_frame_out_of_turn_is_damage() -> None:
    """An intact frame with another number than the next can only be left from somewhere else."""
    content, _ = journal([[b"one"], [b"two"]])
    stray, _ = frame(9, [b"stray"], len(content))
    with pytest.raises(Damage, match="entry 3 is expected there, and 9 stands there"):
        read_frames(content + stray)
    with pytest.raises(Damage, match="entry 3 is expected there, and 9 stands there"):
        read_frames(content + stray[:-1])
