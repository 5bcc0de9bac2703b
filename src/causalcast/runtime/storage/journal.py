"""The journal: an append-only file of durable entries, synced in groups by a thread of its own.

`journal_frames` has its bytes, and what counts as torn and what as damaged.
"""

import asyncio
import collections
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from causalcast.disk import Disk, File
from causalcast.errors import JournalError, NodeError
from causalcast.runtime.storage.journal_frames import (
    ENTRY_HEAD,
    FRAME_BYTES,
    MAGIC,
    SNAPSHOT_START,
    Damage,
    OtherFormat,
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

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Open or create the journal at `path` and cut a torn tail off; see `found`."""
        self.path = path
        self.disk = disk or Disk()
        self.next_sequence = 1
        self.syncs = 0  # of this life
        self.sync_seconds = 0.0
        self.cut_bytes = 0  # how much of a torn tail was cut off
        self._beside = path.with_name(path.name + ".new")
        self._file = self._open()
        self._to_read = self._file.again()
        self.found: list[StoredEntry] = []  # what was durable; let go of it once it is read
        try:
            content = self._file.read_all()
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
        self.size = self._file.size()

    def append(self, entries: Sequence[bytes]) -> list[Place]:
        """Write the entries as one frame and sync it; they are durable on return."""
        data, places = frame(self.next_sequence, entries, self.size)
        try:
            began = time.monotonic()
            self._file.write(self.size, data)
            self._file.sync_content()
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
            return entry_at(self._to_read.read(head, place.length + ENTRY_HEAD), place)
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
        file, places, end = self._write_beside(entries)
        try:
            self.disk.rename(self._beside, self.path)
            self.disk.sync_folder(self.path.parent)  # else a power cut may bring the old file back
        except OSError as error:
            file.close()
            raise JournalError(f"{self.path}: cannot be compacted ({error.strerror})") from error
        self._file.close()
        self._file = file
        self.next_sequence += len(places)
        self.size = end
        return places

    def read_replaced(self) -> None:
        """Let `read` look into the file that `replace` made; before, it still sees the old one."""
        self._to_read.close()
        self._to_read = self._file.again()

    def close(self) -> None:
        """Let go of the file."""
        self._to_read.close()
        self._file.close()

    def _open(self) -> File:
        try:
            self.disk.make_folder(self.path.parent)
            file = self.disk.open(self.path)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be opened ({error.strerror})") from error
        _lock(file, self.path)
        self.disk.remove(self._beside)  # left by a crash in the middle of a compaction
        return file

    def _create(self) -> None:
        self._file.write(0, MAGIC)
        self._file.sync()
        self.disk.sync_folder(self.path.parent)

    def _write_beside(self, entries: Iterable[bytes]) -> tuple[File, list[Place], int]:
        """A new file, durable under its own name: where entries are in it, and its end."""
        file: File | None = None
        places: list[Place] = []
        at = SNAPSHOT_START
        try:
            file = self.disk.open(self._beside, new=True)
            _lock(file, self.path)
            for some in _in_frames(entries):
                data, placed = frame(self.next_sequence + len(places), some, at)
                file.write(at, data)
                places += placed
                at += len(data)
            file.write(0, compacted_head(at))
            file.sync()
        except OSError as error:
            if file is not None:
                file.close()
                self.disk.remove(self._beside)
            raise NotCompacted(str(error.strerror)) from None
        return file, places, at

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
            self._file.truncate(reading.end)
            self._file.sync()

    def of_another_version(self, how: str) -> JournalError:
        """What to say of a journal that is not damaged, and cannot be read here."""
        return JournalError(
            f"{self.path}: {how}; run the version that wrote it, or let all nodes begin "
            "with another [storage] path"
        )

    def _damaged(self, damage: Damage) -> JournalError:
        if isinstance(damage, OtherFormat):
            return self.of_another_version(str(damage))
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
        self.error: JournalError | None = None  # the disk failed

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
        self._has_failed = False
        self._worker = file.disk.worker(loop, "journal")

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
        if self._running is None and self._jobs and not self._has_failed:
            job = self._running = self._jobs.popleft()
            self._worker.do(lambda: self._write(job), lambda: self._finish(job))

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
        self._worker.close()
        self._file.close()

    def _write(self, job: _Job) -> None:
        """In the journal's thread."""
        try:
            job.run(self._file)
        except JournalError as error:
            job.error = error
        except Exception as error:  # whatever it is, nothing is durable
            job.error = JournalError(f"{self._file.path}: cannot be written: {error!r}")

    def _finish(self, job: _Job) -> None:
        if job.error is not None:
            self._has_failed = True
            self._on_failure(job.error)
            return
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
        if some and size + len(entry) > FRAME_BYTES.value:
            yield some
            some, size = [], 0
        some.append(entry)
        size += len(entry)
    if some:
        yield some


def _lock(file: File, path: Path) -> None:
    if not file.lock():
        file.close()
        raise NodeError(
            f"{path.parent}: in use by another running node; is it this one? Stop it first "
            "(causalcast leave), or choose another [storage] path"
        )
