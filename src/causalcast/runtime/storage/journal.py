"""The journal: an append-only file of durable entries, synced in groups by a thread of its own.

`journal_frames` has its bytes, and what counts as torn and what as damaged.
"""

import asyncio
import collections
import contextlib
import fcntl
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from causalcast.errors import JournalError, NodeError
from causalcast.runtime.storage.journal_frames import (
    ENTRY_HEAD,
    FRAME_BYTES,
    MAGIC,
    SNAPSHOT_START,
    Damage,
    Place,
    StoredEntry,
    compacted_head,
    entry_at,
    frame,
    read_frames,
)

log = logging.getLogger(__name__)

# An entry that says nothing: it has the number of one that a compaction could not write.
NOTHING: Final = b""


class NotCompacted(Exception):
    """There was no room for a new file; the old one is as it was."""


class JournalFile:
    """The file itself: opened and mended, appended to, replaced. Blocks; knows no thread."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal at `path` and cut a torn tail off; see `found`."""
        self.path = path
        self.next_sequence = 1
        self.syncs = 0  # of this life
        self.sync_seconds = 0.0
        self.cut_bytes = 0  # how much of a torn tail was cut off
        self._beside = path.with_name(path.name + ".new")
        self._fd = self._open()
        self._read_fd = os.dup(self._fd)
        self.found: list[StoredEntry] = []  # what was durable; let go of it once it is read
        try:
            content = _read_all(self._fd)
            if len(content) < len(MAGIC) and MAGIC.startswith(content):
                self._create()
            else:
                self._mend(content)
        except OSError as error:
            self.close()
            raise JournalError(f"{path}: cannot be opened ({error.strerror})") from None
        except JournalError:
            self.close()
            raise
        self.size = os.fstat(self._fd).st_size

    def append(self, entries: Sequence[bytes]) -> list[Place]:
        """Write the entries as one frame and sync it; they are durable on return."""
        data, places = frame(self.next_sequence, entries, self.size)
        try:
            began = time.monotonic()
            _write_all(self._fd, data, self.size)
            os.fdatasync(self._fd)
            self.syncs += 1
            self.sync_seconds += time.monotonic() - began
        except OSError as error:
            # A sync that failed may not be tried again: the kernel has forgotten what it could
            # not write. What is there of the frame is torn, and cut off at the next start.
            raise JournalError(
                f"{self.path}: cannot be written ({error.strerror}); everything acknowledged is "
                "safe: make the disk writable or free some space, and start the node again"
            ) from None
        self.next_sequence += len(entries)
        self.size += len(data)
        return places

    def read(self, place: Place) -> bytes:
        """The bytes of one entry."""
        head = place.offset - ENTRY_HEAD
        try:
            return entry_at(os.pread(self._read_fd, place.length + ENTRY_HEAD, head), place)
        except Damage as damage:
            raise self._damaged(damage) from None

    def replace(self, entries: Iterable[bytes]) -> list[Place]:
        """Let `entries` stand for everything so far: compaction.

        They are asked for one after the other and written in frames, so that neither memory nor
        the length of a frame bounds what there may be of them.

        The new file is written beside the old one, synced and renamed, so there is a whole journal
        at any moment. Sequences go on, so that whoever counted them is not misled. Raises
        NotCompacted where there is no room for two; the old one goes on then.
        """
        fd, places, end = self._write_beside(entries)
        try:
            os.rename(self._beside, self.path)
            _sync_folder(self.path.parent)  # else a power cut may bring the old file back
        except OSError as error:
            os.close(fd)
            raise JournalError(f"{self.path}: cannot be compacted ({error.strerror})") from error
        os.close(self._fd)
        self._fd = fd
        self.next_sequence += len(places)
        self.size = end
        return places

    def read_replaced(self) -> None:
        """Let `read` look into the file that `replace` made; before, it still sees the old one."""
        os.close(self._read_fd)
        self._read_fd = os.dup(self._fd)

    def close(self) -> None:
        """Let go of the file."""
        for fd in (self._read_fd, self._fd):
            if fd >= 0:  # a number that was closed may belong to somebody else by now
                os.close(fd)
        self._read_fd = self._fd = -1

    def _open(self) -> int:
        try:
            _make_folder(self.path.parent)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be opened ({error.strerror})") from error
        _lock(fd, self.path)
        self._beside.unlink(missing_ok=True)  # left by a crash in the middle of a compaction
        return fd

    def _create(self) -> None:
        _write_all(self._fd, MAGIC, 0)
        os.fsync(self._fd)
        _sync_folder(self.path.parent)

    def _write_beside(self, entries: Iterable[bytes]) -> tuple[int, list[Place], int]:
        """A new file, durable under its own name: its descriptor, where entries are, its end."""
        fd = -1
        places: list[Place] = []
        at = SNAPSHOT_START
        try:
            fd = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            _lock(fd, self.path)
            for some in _in_frames(entries):
                data, placed = frame(self.next_sequence + len(places), some, at)
                _write_all(fd, data, at)
                places += placed
                at += len(data)
            _write_all(fd, compacted_head(at), 0)
            os.fsync(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
                self._beside.unlink()
            raise NotCompacted(str(error.strerror)) from None
        return fd, places, at

    def _mend(self, content: bytes) -> None:
        """Read every whole frame; cut off what is torn behind the last."""
        try:
            reading = read_frames(content)
        except Damage as damage:
            raise self._damaged(damage) from None
        self.found = reading.entries
        if self.found:
            self.next_sequence = self.found[-1].sequence + 1
        self.cut_bytes = len(content) - reading.end
        if self.cut_bytes:
            os.ftruncate(self._fd, reading.end)
            os.fsync(self._fd)

    def _damaged(self, damage: Damage) -> JournalError:
        return JournalError(
            f"{self.path}: {damage}; start this node under a new id with new storage (an older "
            "copy of the file is no way back: the others know more than it does)"
        )


class _Job:
    """What one turn of the journal's thread does: a frame to append, or a file to replace."""

    def __init__(self, on_replaced: Callable[[list[Place] | None], None] | None) -> None:
        self.entries: list[Callable[[], bytes] | bytes] = []
        self.on_replaced = on_replaced  # None: the entries are appended
        self.places: list[Place] | None = None  # None: they could not be written

    def run(self, file: JournalFile) -> None:
        data = (entry if isinstance(entry, bytes) else entry() for entry in self.entries)
        if self.on_replaced is None:
            self.places = file.append(list(data))
            return
        try:
            self.places = file.replace(data)
        except NotCompacted as error:
            log.warning("the journal is not compacted: %s; it goes on growing", error)
            file.append([NOTHING] * len(self.entries))  # others have the numbers behind these


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
        self._drains: list[tuple[int, asyncio.Future[None]]] = []  # who waits for which entry
        self._handed_over: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="journal", daemon=True)
        self._worker.start()

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
        self, entries: list[Callable[[], bytes]], on_replaced: Callable[[list[Place] | None], None]
    ) -> None:
        """Let `entries` replace everything appended so far, once that is durable.

        They are made on the journal's thread, so reading what is long on disk stops nobody; then
        `on_replaced` learns their places. Until it is called, `read` knows the old places. It is
        called with None where there was no room for them: then everything is as it was.
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
            self._handed_over.put(self._running)

    def read(self, place: Place) -> bytes:
        """The bytes of a durable entry."""
        return self._file.read(place)

    async def drain(self) -> None:
        """Wait until everything appended so far is durable, and has happened; others may go on
        appending."""
        self.commit()
        if self._durable < self._sequence:
            drained: asyncio.Future[None] = self._loop.create_future()
            self._drains.append((self._sequence, drained))
            await drained

    def close(self) -> None:
        """Stop the thread, after what it is doing, and let go of the file."""
        self._handed_over.put(None)
        self._worker.join()
        self._file.close()

    def _work(self) -> None:
        """The thread: one job after the other, until it is told to stop or the disk fails."""
        while (job := self._handed_over.get()) is not None:
            try:
                job.run(self._file)
            except JournalError as error:
                self._tell(self._on_failure, error)
                return
            self._tell(self._finish, job)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _finish(self, job: _Job) -> None:
        self._running = None
        self.commit()  # the disk works on while we act on what is durable
        durable = self._durable + len(job.entries)
        if job.on_replaced is None:
            assert job.places is not None
            self._on_durable(durable, job.places)
        else:
            if job.places is not None:
                self._file.read_replaced()
            job.on_replaced(job.places)
        self._durable = durable
        waiting, self._drains = self._drains, []
        for sequence, drained in waiting:
            if sequence > durable:
                self._drains.append((sequence, drained))
            elif not drained.done():
                drained.set_result(None)


def _in_frames(entries: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Entries in order, so many together as a frame may have."""
    some: list[bytes] = []
    size = 0
    for entry in entries:
        if some and size + len(entry) > FRAME_BYTES:
            yield some
            some, size = [], 0
        some.append(entry)
        size += len(entry)
    if some:
        yield some


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


def _make_folder(folder: Path) -> None:
    """Make `folder` and those above it; each new name is durable on return."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
