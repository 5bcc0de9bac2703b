"""The bytes of a journal: how they are written, and what is made of them when they are read.

    file   = magic, frame, frame, …, or after a compaction
             magic, where the snapshot ends (8), CRC-32 of that (4), frame, frame, …
    frame  = head, entry, entry, …
    head   = length of the entries (4), sequence of the first (8), CRC-32 of both (4)
    entry  = length (4), CRC-32 of length and bytes (4), bytes

A frame is what one sync made durable, and the next is written only after that. So a crash can tear
the last frame and no other, and a torn frame may be cut off: nobody was told that it is durable.
Damage looks different, and is never cut off. What a crash can leave of a frame:

- less of it than its head says, or less than a head: the file is too short;
- all of its length, but sectors of it were never written: they are zeros.

Everything else is damage: frames behind it that are intact, a checksum that is wrong although no
sector is empty, and whatever one flipped bit explains, empty sectors or not. A checksum of 32 bits
tells which bit it was.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from causalcast.errors import JournalError
from causalcast.limits import Limit

MAGIC: Final = b"CCJRNL4\n"
COMPACTED_BEFORE: Final = b"CCJRNL2c"  # the first frame of this file is a snapshot
COMPACTED: Final = b"CCJRNL4c"  # the first frames of this file are a snapshot
_SNAPSHOT_END: Final = struct.Struct(">QI")
SNAPSHOT_START: Final = len(COMPACTED) + _SNAPSHOT_END.size
FRAME_BYTES: Final = Limit(
    "runtime.storage.journal_frames.frame_bytes",
    64 << 20,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="a snapshot in one frame of the journal, unless an entry is larger",
)
SECTOR: Final = 512  # the least that a disk writes as a whole
ENTRY_HEAD: Final = 8
_HEAD: Final = struct.Struct(">IQI")
_ENTRY: Final = struct.Struct(">II")
_LIMIT: Final = (1 << 32) - 1


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where the bytes of one entry stand in the file."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was found when the journal was opened."""

    sequence: int
    place: Place
    data: bytes


class Damage(Exception):
    """What was durable is no longer what it was; the text says where and which entry."""


class OtherFormat(Damage):
    """A journal that another version of causalcast wrote; or one byte of its head is damaged."""


def frame(sequence: int, entries: Sequence[bytes], offset: int) -> tuple[bytes, list[Place]]:
    """The bytes of a frame that will stand at `offset`, and where its entries will stand."""
    parts: list[bytes] = [b""]
    places = []
    at = offset + _HEAD.size
    for entry in entries:
        parts += (_entry_head(entry), entry)
        places.append(Place(at + ENTRY_HEAD, len(entry)))
        at += ENTRY_HEAD + len(entry)
    length = at - offset - _HEAD.size
    if length > _LIMIT:
        raise JournalError(f"{length} bytes are too much for one frame of the journal")
    parts[0] = _head(length, sequence)
    return b"".join(parts), places


def entry_at(data: bytes, place: Place) -> bytes:
    """The bytes of the entry at `place`, from `data` that begins with its head."""
    entry = data[ENTRY_HEAD:]
    if len(entry) != place.length:
        raise Damage(f"it ends before byte {place.offset + place.length}")
    if _entry_head(entry) != data[:ENTRY_HEAD]:
        raise Damage(f"damaged in the entry at bytes {place.offset} to {place.offset + len(entry)}")
    return entry


@dataclass
class Reading:
    """What a journal holds: its entries, and where what is whole ends."""

    entries: list[StoredEntry]
    end: int


def read_frames(content: bytes) -> Reading:
    """Everything that is durable in a journal; what is behind `end` is torn. Raises Damage."""
    magic = content[: len(MAGIC)]
    if magic not in (MAGIC, COMPACTED, COMPACTED_BEFORE):
        if magic[:6] == MAGIC[:6] and magic[6:7].isdigit() and magic[7:] in (b"\n", b"c"):
            raise OtherFormat(
                f"a journal of format {magic[6:7].decode()}, and this version of causalcast reads "
                f"format {MAGIC[6:7].decode()} (or it is damaged at byte 6)"
            )
        nearest = max((MAGIC, COMPACTED, COMPACTED_BEFORE), key=lambda one: _alike(one, magic))
        pairs = zip(magic, nearest, strict=False)
        wrong = next((at for at, (is_, was) in enumerate(pairs) if is_ != was), len(magic))
        raise Damage(f"damaged at byte {wrong}: this is no journal")
    reading = Reading([], len(MAGIC))
    snapshot_end = reading.end + 1 if magic == COMPACTED_BEFORE else 0
    if magic == COMPACTED:
        reading.end = SNAPSHOT_START
        snapshot_end = _end_of_snapshot(content)
    expected = 0  # the first frame may start anywhere: compaction goes on counting
    while reading.end < len(content):
        found = _Frame(content, reading.end, expected)
        if not found.is_whole():
            found.must_be_torn(reading.end < snapshot_end)
            break
        reading.entries += found.entries
        expected = found.sequence + len(found.entries)
        reading.end = found.end
    if reading.end < snapshot_end:
        raise Damage(f"it ends at byte {len(content)}, in the snapshot")
    return reading


def compacted_head(end: int) -> bytes:
    """How a file begins whose snapshot ends at byte `end`."""
    data = end.to_bytes(8, "big")
    return COMPACTED + _SNAPSHOT_END.pack(end, zlib.crc32(data))


def _end_of_snapshot(content: bytes) -> int:
    if len(content) < SNAPSHOT_START:
        raise Damage("it ends in its head")
    end, _ = _SNAPSHOT_END.unpack_from(content, len(COMPACTED))
    if content[:SNAPSHOT_START] != compacted_head(end):
        raise Damage(f"damaged at byte {len(COMPACTED)}, in the head of the snapshot")
    return int(end)


def _alike(one: bytes, other: bytes) -> int:
    return sum(a == b for a, b in zip(one, other, strict=False))


class _Frame:
    """The frame that should stand at a place of the file, and what is wrong with it."""

    def __init__(self, content: bytes, at: int, expected: int) -> None:
        self.content = content
        self.at = at
        self.expected = expected  # the sequence of its first entry; 0 if any will do
        self.entries: list[StoredEntry] = []
        self.start = at + _HEAD.size
        self.length = self.sequence = 0
        if self.start <= len(content):
            self.length, self.sequence, _ = _HEAD.unpack_from(content, at)
        self.end = self.start + self.length

    def is_whole(self, least: int = 0) -> bool:
        """Whether it is there and intact, and its sequence the expected one, or not below."""
        if not self.has_head() or self.end > len(self.content):
            return False
        if self.sequence < least or (self.expected and self.sequence != self.expected):
            return False
        self.entries = list(_entries(self.content, self.start, self.end, self.sequence))
        last = self.entries[-1].place if self.entries else None
        return last is not None and last.offset + last.length == self.end

    def has_head(self) -> bool:
        """Whether its head is there and intact."""
        head = self.content[self.at : self.start]
        return self.length > 0 and head == _head(self.length, self.sequence)

    def must_be_torn(self, is_snapshot: bool) -> None:
        """Raise Damage unless a crash can have left it like this; it is not whole."""
        if is_snapshot:
            # It was synced before the file got its name, so no crash has torn it.
            raise Damage(f"damaged at byte {self.at}, in the snapshot")
        if self.start > len(self.content) or (self.has_head() and self.end > len(self.content)):
            if self.start <= len(self.content) and self.expected not in (0, self.sequence):
                raise self._wrong_sequence()
            return
        self._say_if_a_bit_flipped()
        later = self._intact_behind()
        if later:
            raise Damage(f"damaged at byte {self.at}, {self._which()}, and intact at byte {later}")
        if not self._has_empty_sector():
            raise Damage(f"damaged behind byte {self.at}, {self._which()}")

    def _which(self) -> str:
        if len(self.entries) > 0:
            return f"in entry {self.entries[-1].sequence + 1}"
        if self.expected or self.has_head():
            return f"in entry {self.expected or self.sequence} or its head"
        return "in the first entry or its head"

    def _wrong_sequence(self) -> Damage:
        return Damage(
            f"damaged at byte {self.at}: entry {self.expected} is expected there, and "
            f"{self.sequence} stands there"
        )

    def _say_if_a_bit_flipped(self) -> None:
        """Raise Damage that names the bit, if one flipped bit explains what is wrong."""
        if not self.has_head():
            bit = _flipped_in_head(self.content[self.at : self.start])
            if bit is not None:
                which = f"entry {self.expected}" if self.expected else "the first entry"
                raise Damage(_at_bit(8 * self.at + bit) + f", in the head in front of {which}")
            return
        if self.expected not in (0, self.sequence):
            raise self._wrong_sequence()
        at, sequence = self.start, self.sequence
        if self.entries:
            last = self.entries[-1].place
            at, sequence = last.offset + last.length, self.entries[-1].sequence + 1
        found = _flipped_in_entry(self.content, at, self.end)
        if found is not None:
            bit, behind = found
            rest = list(_entries(self.content, behind, self.end, sequence + 1))
            if not rest or rest[-1].place.offset + rest[-1].place.length == self.end:
                raise Damage(_at_bit(8 * at + bit) + f", in entry {sequence}")

    def _intact_behind(self) -> int:
        """Where an intact frame begins behind this one, 0 if none does."""
        content, least = self.content, self.expected or 1
        for later in range(self.at + 1, len(content) - _HEAD.size + 1):
            # There may be millions of bytes: look closely only at what can be a head at all.
            length, sequence, _ = _HEAD.unpack_from(content, later)
            if not length or not least <= sequence < least + _LIMIT:
                continue
            if later + length < len(content) and _Frame(content, later, 0).is_whole(least):
                return later
        return 0

    def _has_empty_sector(self) -> bool:
        end = len(self.content)
        if self.has_head():
            if self.end < end:
                return False  # something was written behind it, so it had been durable
            end = self.end
        at = self.at
        while at < end:
            stop = min(end, (at // SECTOR + 1) * SECTOR)
            if self.content.count(0, at, stop) == stop - at:
                return True
            at = stop
        return False


def _entries(content: bytes, start: int, end: int, sequence: int) -> Iterator[StoredEntry]:
    """The entries from `start` on, up to the first that is not intact."""
    while start + ENTRY_HEAD <= end:
        length, _ = _ENTRY.unpack_from(content, start)
        place = Place(start + ENTRY_HEAD, length)
        stop = place.offset + length
        if stop > end:
            return
        data = content[place.offset : stop]
        if _entry_head(data) != content[start : place.offset]:
            return
        yield StoredEntry(sequence, place, data)
        start = stop
        sequence += 1


def _head(length: int, sequence: int) -> bytes:
    return _HEAD.pack(length, sequence, zlib.crc32(struct.pack(">IQ", length, sequence)))


def _entry_head(data: bytes | memoryview) -> bytes:
    """Length and checksum; the checksum is over both length and bytes."""
    length = len(data)
    return _ENTRY.pack(length, zlib.crc32(data, zlib.crc32(length.to_bytes(4, "big"))))


# Which bit flipped. A CRC is linear: flipping one bit changes it by a value that depends only on
# how far from the end the bit is, and no two bits have the same one.


def _at_bit(bit: int) -> str:
    return f"damaged at byte {bit // 8} (bit {bit % 8} flipped)"


def _flipped_in_head(head: bytes) -> int | None:
    """Which bit of a frame's head flipped (of byte n the bits 8n to 8n+7), if just one did."""
    return _flipped(head[:-4], int.from_bytes(head[-4:]))


def _flipped_in_entry(content: bytes, at: int, end: int) -> tuple[int, int] | None:
    """Which bit of the entry at `at` flipped, and where the entry ends, if just one bit did."""
    if at + ENTRY_HEAD > end:
        return None
    length, checksum = _ENTRY.unpack_from(content, at)
    start = at + ENTRY_HEAD
    for bit in range(32):
        was = length ^ (1 << bit)
        stop = start + was
        if stop <= end and _entry_head(content[start:stop])[4:] == content[at + 4 : start]:
            return 8 * (3 - bit // 8) + bit % 8, stop
    if start + length > end:
        return None
    found = _flipped(content[at : at + 4] + content[start : start + length], checksum)
    if found is None or found < 32:
        return None
    # The checksum stands between the length and the bytes it is over, not behind them.
    in_checksum = found >= 32 + 8 * length
    place = found - 8 * length if in_checksum else found + 32
    return place, start + length


def _flipped(data: bytes, checksum: int) -> int | None:
    """Which bit of `data`, followed by its checksum, flipped; None if one bit does not explain."""
    left = zlib.crc32(data) ^ checksum
    if left.bit_count() == 1:
        bit = left.bit_length() - 1
        return 8 * (len(data) + 3 - bit // 8) + bit % 8
    for at in range(len(data) - 1, -1, -1):
        bit = _BIT_OF.get(left, -1)
        if bit >= 0:
            return 8 * at + bit
        # What it would have been one byte earlier: the step of a CRC over a zero byte, backwards.
        index = _INDEX_OF_TOP[left >> 24]
        left = ((left ^ _TABLE[index]) << 8 | index) & _LIMIT
    return None


def _byte_steps() -> list[int]:
    """What a byte adds to a CRC-32 that is zero."""
    steps = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        steps.append(value)
    return steps


_TABLE: Final = _byte_steps()
_INDEX_OF_TOP: Final = {step >> 24: index for index, step in enumerate(_TABLE)}
_BIT_OF: Final = {_TABLE[1 << bit]: bit for bit in range(8)}  # of the last byte, by its effect
