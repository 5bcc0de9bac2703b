"""A simulated disk: what is written is in the cache until it is synced, and a power cut shows it.

Files are bytes in memory. A kill leaves everything that was written; a power cut leaves what was
synced, and of the rest of each file any prefix. A new or changed name is on the disk when its
folder was synced. A disk can be full for a while, and its syncs take time. Traces survive whatever
happens: they are what the run is judged by.
"""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

from causalcast.disk import Disk, File, Worker


class _Lock:
    """Somebody's hold on a file; it ends when the last of its open files is closed."""

    def __init__(self) -> None:
        self.open_files = 1


class _Content:
    """The bytes of one file: as programs see them, and as they are on the disk."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = b""
        self.lock: _Lock | None = None


class SimDisk(Disk):
    """The disk of one machine, over all lives of the node on it."""

    def __init__(self, chance: random.Random, sync_seconds: float) -> None:
        self.sync_seconds = sync_seconds
        self.is_full = False
        self.calls = 0
        self._chance = chance
        self._names: dict[Path, _Content] = {}
        self._durable_names: dict[Path, _Content] = {}

    # What happens to it

    def forget_locks(self) -> None:
        """The process is gone, and what it had locked with it."""
        for content in self._names.values():
            content.lock = None

    def cut_power(self) -> None:
        """What was not synced is lost, or torn; names go back to those that are durable."""
        traces = {path: content for path, content in self._names.items() if is_trace(path)}
        self._names = {**self._durable_names, **traces}
        for path, content in self._names.items():
            if is_trace(path):
                continue
            kept = len(content.durable)
            if content.cached.startswith(content.durable):
                kept += self._chance.randint(0, len(content.cached) - kept)
                content.durable = bytes(content.cached[:kept])
            content.cached = bytearray(content.durable)

    def files(self) -> dict[Path, bytes]:
        """Everything there is, for the judges."""
        return {path: bytes(content.cached) for path, content in self._names.items()}

    # What a node asks for

    def open(self, path: Path, new: bool = False, mode: int = 0o600) -> File:
        self.calls += 1
        content = self._names.get(path)
        if content is None:
            self.check_room()
            content = self._names[path] = _Content()
        if new:
            content.cached = bytearray()
        return SimFile(self, content)

    def exists(self, path: Path) -> bool:
        return path in self._names or any(path in name.parents for name in self._names)

    def names_in(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._names if path.parent == folder)

    def size_of(self, path: Path) -> int:
        return len(self._found(path).cached)

    def read(self, path: Path) -> bytes:
        return bytes(self._found(path).cached)

    def rename(self, path: Path, to: Path) -> None:
        self.calls += 1
        self._names[to] = self._found(path)
        del self._names[path]

    def remove(self, path: Path) -> None:
        self._names.pop(path, None)

    def make_folder(self, folder: Path) -> None:
        """Folders are there as soon as a file is in them."""

    def sync_folder(self, folder: Path) -> None:
        self.calls += 1
        for path in [path for path in self._durable_names if path.parent == folder]:
            if path not in self._names:
                del self._durable_names[path]
        for path, content in self._names.items():
            if path.parent == folder:
                self._durable_names[path] = content

    def worker(self, loop: asyncio.AbstractEventLoop, name: str) -> Worker:
        return SimWorker(self, loop)

    def check_room(self) -> None:
        """Raise if nothing more can be written."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def next_sync(self) -> float:
        """Seconds that the next sync takes."""
        return self.sync_seconds * self._chance.choice((0.1, 0.5, 1.0, 1.0, 5.0))

    def _found(self, path: Path) -> _Content:
        content = self._names.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return content


def is_trace(path: Path) -> bool:
    """Whether judges will read this file."""
    return ".nodelog" in path.name


class SimFile(File):
    """An open file on it."""

    def __init__(self, disk: SimDisk, content: _Content) -> None:
        super().__init__(-1)
        self._disk = disk
        self._content = content
        self._lock = _Lock()
        self._is_open = True

    def size(self) -> int:
        return len(self._content.cached)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content.cached[offset : offset + length])

    def write(self, offset: int, data: bytes) -> None:
        self._disk.calls += 1
        self._disk.check_room()
        cached = self._content.cached
        if len(cached) < offset:
            cached.extend(bytes(offset - len(cached)))
        cached[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        self._disk.calls += 1
        del self._content.cached[size:]

    def sync(self) -> None:
        self._disk.calls += 1
        self._content.durable = bytes(self._content.cached)

    def sync_content(self) -> None:
        self.sync()

    def lock(self) -> bool:
        if self._content.lock not in (None, self._lock):
            return False
        self._content.lock = self._lock
        return True

    def again(self) -> File:
        other = SimFile(self._disk, self._content)
        other._lock = self._lock
        self._lock.open_files += 1
        return other

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._lock.open_files -= 1
            if self._lock.open_files == 0 and self._content.lock is self._lock:
                self._content.lock = None


class SimWorker(Worker):
    """Does what the thread of a real disk does, in virtual time and one thing after the other."""

    def __init__(self, disk: SimDisk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._free_at = 0.0
        self._is_closed = False

    def do(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        self._free_at = max(self._free_at, self._loop.time()) + self._disk.next_sync()
        self._loop.call_at(self._free_at, self._run, job, then)

    def _run(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        if not self._is_closed:
            job()
            self._loop.call_soon(then)

    def close(self) -> None:
        self._is_closed = True
