"""The journal: an append-only file of durable entries, synced in groups by a thread of its own.

    file   = magic, frame, frame, …
    frame  = length (4), CRC-32 (4), sequence of its first entry (8), entries
    entry  = length (4), bytes

A frame is what one sync made durable: all entries that waited when the sync began. The next frame
is written only after that, so a crash can tear the last frame and no other. A torn last frame is
cut off when the journal is opened: nobody was told that it is durable. A damaged frame with an
intact one behind it can only be a damaged disk, and is an error.
"""

import asyncio
import collections
import contextlib
import fcntl
import os
import queue
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from causalcast.errors import JournalError, NodeError

MAGIC: Final = b"CCJRNL1\n"
COMPACTED: Final = b"CCJRNL1c"  # the first frame of this file is a snapshot
_FRAME: Final = struct.Struct(">IIQ")
_ENTRY: Final = struct.Struct(">I")
_LIMIT: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where the bytes of one entry stand in the file."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was found when the journal was opened."""

    sequence: int
    place: Place
    data: bytes


class JournalFile:
    """The file itself: opened and mended, appended to, replaced. Blocks; knows no thread."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal at `path` and cut a torn tail off; see `found`."""
        self.path = path
        self.next_sequence = 1
        self.cut_bytes = 0  # how much of a torn tail was cut off
        self._fd = self._open()
        self._read_fd = os.dup(self._fd)
        self.found: list[StoredEntry] = []  # what was durable; let go of it once it is read
        try:
            content = _read_all(self._fd)
            if len(content) < len(MAGIC) and MAGIC.startswith(content):
                self._create()
            else:
                self._mend(content)
        except JournalError:
            self.close()
            raise
        self.size = os.fstat(self._fd).st_size

    def append(self, entries: Sequence[bytes]) -> list[Place]:
        """Write the entries as one frame and sync it; they are durable on return."""
        data, places = _frame(self.next_sequence, entries, self.size)
        try:
            _write_all(self._fd, data, self.size)
            os.fdatasync(self._fd)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be written ({error})") from error
        self.next_sequence += len(entries)
        self.size += len(data)
        return places

    def read(self, place: Place) -> bytes:
        """The bytes of one entry."""
        data = os.pread(self._read_fd, place.length, place.offset)
        if len(data) != place.length:
            raise JournalError(f"{self.path}: ends before byte {place.offset + place.length}")
        return data

    def replace(self, entries: Sequence[bytes]) -> list[Place]:
        """Let `entries` stand for everything so far: compaction.

        The new file is written beside the old one, synced and renamed, so there is a whole journal
        at any moment. Sequences go on, so that whoever counted them is not misled.
        """
        beside = self.path.with_name(self.path.name + ".new")
        try:
            fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            _lock(fd, self.path)
            data, places = _frame(self.next_sequence, entries, len(MAGIC))
            _write_all(fd, COMPACTED + data, 0)
            os.fsync(fd)
            os.rename(beside, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be compacted ({error})") from error
        os.close(self._fd)
        self._fd = fd
        self.next_sequence += len(entries)
        self.size = len(MAGIC) + len(data)
        return places

    def read_replaced(self) -> None:
        """Let `read` look into the file that `replace` made; before, it still sees the old one."""
        os.close(self._read_fd)
        self._read_fd = os.dup(self._fd)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._read_fd)
        os.close(self._fd)

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be opened ({error})") from error
        _lock(fd, self.path)
        return fd

    def _create(self) -> None:
        _write_all(self._fd, MAGIC, 0)
        os.fsync(self._fd)
        _sync_folder(self.path.parent)

    def _mend(self, content: bytes) -> None:
        """Read every whole frame; cut off what is torn behind the last."""
        if content[: len(MAGIC)] not in (MAGIC, COMPACTED):
            raise JournalError(f"{self.path}: damaged at byte 0: this is no journal")
        at = len(MAGIC)
        expected = 0  # the first frame may start anywhere: compaction goes on counting
        while at < len(content):
            entries = _parse(content, at, expected)
            if entries is None:
                self._cut(content, at, expected)
                break
            self.found.extend(entries)
            expected = entries[-1].sequence + 1
            at = entries[-1].place.offset + entries[-1].place.length
        if self.found:
            self.next_sequence = self.found[-1].sequence + 1

    def _cut(self, content: bytes, at: int, expected: int) -> None:
        if at == len(MAGIC) and content.startswith(COMPACTED):
            # It was synced before the file got its name, so no crash has torn it.
            raise JournalError(f"{self.path}: damaged at byte {at}, in the snapshot")
        for later in range(at + 1, len(content) - _FRAME.size + 1):
            if _parse(content, later, 0, least=expected) is not None:
                raise JournalError(
                    f"{self.path}: damaged at byte {at}, and intact again at byte {later}; "
                    "restore the file or start this node under a new id with new storage"
                )
        self.cut_bytes = len(content) - at
        os.ftruncate(self._fd, at)
        os.fsync(self._fd)


class _Job:
    """What one turn of the journal's thread does: a frame to append, or a file to replace."""

    def __init__(self, on_replaced: Callable[[list[Place]], None] | None) -> None:
        self.entries: list[Callable[[], bytes] | bytes] = []
        self.on_replaced = on_replaced  # None: the entries are appended

    def run(self, file: JournalFile) -> list[Place]:
        data = [entry if isinstance(entry, bytes) else entry() for entry in self.entries]
        return file.append(data) if self.on_replaced is None else file.replace(data)


class Journal:
    """Group commit: entries gather while a sync runs, and the next sync takes them all.

    Everything here is called by the event loop; one thread writes and syncs. `on_durable` is
    called by the loop with the sequence of the last durable entry and the places of those that
    became durable; `on_failure` if the disk failed, and nothing is written after that.
    """

    def __init__(
        self,
        file: JournalFile,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[int, list[Place]], None],
        on_failure: Callable[[JournalError], None],
    ) -> None:
        self._file = file
        self._loop = loop
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._sequence = file.next_sequence - 1  # of the last entry that was appended
        self._durable = self._sequence  # of the last entry that is durable
        self._jobs: collections.deque[_Job] = collections.deque()
        self._running: _Job | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._handed_over: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def append(self, entry: bytes) -> int:
        """Let an entry wait for the next `commit`; its sequence."""
        jobs = self._jobs
        if not jobs or jobs[-1].on_replaced is not None:
            jobs.append(_Job(None))
        jobs[-1].entries.append(entry)
        self._sequence += 1
        return self._sequence

    def compact(
        self, entries: list[Callable[[], bytes]], on_replaced: Callable[[list[Place]], None]
    ) -> None:
        """Let `entries` replace everything appended so far, once that is durable.

        They are made on the journal's thread, so reading what is long on disk stops nobody; then
        `on_replaced` learns their places. Until it is called, `read` knows the old places.
        """
        job = _Job(on_replaced)
        job.entries.extend(entries)
        self._jobs.append(job)
        self._sequence += len(entries)
        self.commit()

    def commit(self) -> None:
        """Start a sync with all that waits, unless one is running: then it goes with the next."""
        if self._running is None and self._jobs:
            self._running = self._jobs.popleft()
            self._idle.clear()
            self._handed_over.put(self._running)

    def read(self, place: Place) -> bytes:
        """The bytes of a durable entry."""
        return self._file.read(place)

    async def drain(self) -> None:
        """Wait until everything appended so far is durable."""
        self.commit()
        await self._idle.wait()

    def close(self) -> None:
        """Stop the thread, after what it is doing, and let go of the file."""
        self._handed_over.put(None)
        self._thread.join()
        self._file.close()

    def _work(self) -> None:
        """The thread: one job after the other, until it is told to stop or the disk fails."""
        while (job := self._handed_over.get()) is not None:
            try:
                places = job.run(self._file)
            except JournalError as error:
                self._tell(self._on_failure, error)
                return
            self._tell(self._finish, job, places)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _finish(self, job: _Job, places: list[Place]) -> None:
        self._running = None
        self.commit()  # the disk works on while we act on what is durable
        self._durable += len(places)
        if job.on_replaced is not None:
            self._file.read_replaced()
            job.on_replaced(places)
        else:
            self._on_durable(self._durable, places)
        if self._running is None:
            self._idle.set()


def _frame(sequence: int, entries: Sequence[bytes], offset: int) -> tuple[bytes, list[Place]]:
    """The bytes of a frame that will stand at `offset`, and where its entries will stand."""
    parts: list[bytes] = []
    places = []
    at = offset + _FRAME.size
    for entry in entries:
        parts += (_ENTRY.pack(len(entry)), entry)
        places.append(Place(at + _ENTRY.size, len(entry)))
        at += _ENTRY.size + len(entry)
    body = b"".join(parts)
    if len(body) > _LIMIT:
        raise JournalError(f"{len(body)} bytes are too much for one frame of the journal")
    return _head(sequence, body) + body, places


def _head(sequence: int, body: bytes | memoryview) -> bytes:
    """Length, checksum and sequence; the checksum is over all of it but itself."""
    checksum = zlib.crc32(body, zlib.crc32(struct.pack(">IQ", len(body), sequence)))
    return _FRAME.pack(len(body), checksum, sequence)


def _parse(content: bytes, at: int, expected: int, least: int = 0) -> list[StoredEntry] | None:
    """The entries of the frame at `at`, None if there is no whole and intact one.

    `expected` is the sequence it must have (0: any from `least` on).
    """
    if at + _FRAME.size > len(content):
        return None
    length, _, sequence = _FRAME.unpack_from(content, at)
    start = at + _FRAME.size
    if length == 0 or start + length > len(content):
        return None
    if sequence < least or (expected and sequence != expected):
        return None
    if _head(sequence, memoryview(content)[start : start + length]) != content[at:start]:
        return None
    entries: list[StoredEntry] = []
    end = start + length
    while start < end:
        (size,) = _ENTRY.unpack_from(content, start)
        place = Place(start + _ENTRY.size, size)
        start = place.offset + size
        data = content[place.offset : start]
        entries.append(StoredEntry(sequence + len(entries), place, data))
    return entries


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise NodeError(f"{path.parent}: in use by another running node") from None


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    pieces = []
    at = 0
    while at < size and (piece := os.pread(fd, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def _sync_folder(folder: Path) -> None:
    """Make a new name in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
