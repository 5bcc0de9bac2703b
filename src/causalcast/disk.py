"""The disk: files, folders, and a thread for what may take long.

Whatever a node keeps goes through a `Disk` that it is given. This one is the machine's; another one
can be slow, full or broken on purpose, and be cut off at any call.
"""

import asyncio
import contextlib
import fcntl
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from causalcast.forks import close_in_child

OWNER_ALONE = 0o600  # what a node keeps is nobody else's business
WHOM_THE_UMASK_LETS = 0o666


class File:
    """An open file, read and written at any place. Its methods raise OSError."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_locked = False

    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from there on; fewer at the end of the file."""
        return os.pread(self._fd, length, offset)

    def read_all(self) -> bytes:
        """Everything."""
        size = self.size()
        pieces: list[bytes] = []
        at = 0
        while at < size and (piece := self.read(at, size - at)):
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)

    def write(self, offset: int, data: bytes) -> None:
        """Put all of `data` there; in the kernel on return, and on the disk after a sync."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view = view[written:]
            offset += written

    def truncate(self, size: int) -> None:
        """Cut off what is behind."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Everything written is on the disk on return."""
        os.fsync(self._fd)

    def sync_content(self) -> None:
        """The same for the bytes of a file that has its name already."""
        os.fdatasync(self._fd)

    def lock(self) -> bool:
        """Let nobody else lock it while it is open; False if somebody has."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_locked = True
        close_in_child(self)
        return True

    def again(self) -> "File":
        """The same file, to be closed by itself."""
        copy = File(os.dup(self._fd))
        if self._is_locked:  # the lock is that of both
            close_in_child(copy)
        return copy

    def close(self) -> None:
        """Let go of it; once is enough."""
        if self._fd >= 0:  # a number that was closed may belong to somebody else by now
            os.close(self._fd)
        self._fd = -1


class Worker:
    """Does one thing after the other beside the event loop, which then hears that it is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Callable[[], None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        """Call `job`, which raises nothing, in the thread and then `then` in the loop."""
        self._jobs.put((job, then))

    def close(self) -> None:
        """Stop, after what it is doing."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None:
            job, then = work
            job()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(then)


class Disk:
    """The file system of this machine. Its methods raise OSError."""

    def open(self, path: Path, new: bool = False, mode: int = OWNER_ALONE) -> File:
        """Open a file to read and write it; it is made if there is none, or emptied if `new`."""
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if new else 0)
        return File(os.open(path, flags, mode))

    def exists(self, path: Path) -> bool:
        """Whether there is something of this name."""
        return path.exists()

    def names_in(self, folder: Path) -> list[str]:
        """The names of everything in `folder`, in order."""
        return sorted(os.listdir(folder))

    def size_of(self, path: Path) -> int:
        """How many bytes a file has."""
        return path.stat().st_size

    def read(self, path: Path) -> bytes:
        """All bytes of a file."""
        return path.read_bytes()

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name, taking the place of what has it."""
        os.rename(path, to)

    def remove(self, path: Path) -> None:
        """Let a file go, if it is there."""
        path.unlink(missing_ok=True)

    def make_folder(self, folder: Path) -> None:
        """Make `folder` and those above it; each new name is durable on return."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in reversed(missing):
            self.sync_folder(path.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make new names in `folder` durable."""
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def worker(self, loop: asyncio.AbstractEventLoop, name: str) -> Worker:
        """Something that waits for the disk, so that the loop need not."""
        return Worker(loop, name)
