"""A simulated disk: what is written is in the cache until it is synced, and a power cut shows it.

Files are bytes in memory. A kill leaves everything that was written; a power cut leaves what was
synced, and of the rest of each file any prefix. A new or changed name is on the disk when its
folder was synced. A disk can be full, read-only or broken for a while, its syncs take time, a
process can die at any call to it, and an old copy can take its place. Traces survive power cuts:
they are what the run is judged by.
"""

import asyncio
import errno
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from causalcast.disk import Disk, File, Worker

LONGEST_SYNC: Final = 5.0  # times what one takes as a rule


class Died(BaseException):
    """The process died in the middle of a call to its disk: nothing of it happens any more."""


class _Lock:
    """Somebody's hold on a file; it ends when the last of its open files is closed."""

    def __init__(self) -> None:
        self.open_files = 1


class _Content:
    """The bytes of one file: as programs see them, and as they are on the disk."""

    def __init__(self, content: bytes = b"") -> None:
        self.cached = bytearray(content)
        self.durable = bytearray(content)
        self.changed_from = len(content)  # up to there both are the same
        self.lock: _Lock | None = None

    def cut(self, size: int) -> None:
        """What is behind is no longer in the cache."""
        del self.cached[size:]
        self.changed_from = min(self.changed_from, size)

    def sync(self) -> None:
        """What is in the cache is on the disk."""
        self.durable[self.changed_from :] = self.cached[self.changed_from :]
        self.changed_from = len(self.cached)

    def lose(self, chance: random.Random) -> None:
        """The cache is gone. Of what was added to the file a part may have been written."""
        if self.changed_from == len(self.durable):
            self.durable += self.cached[self.changed_from :][: chance.randint(0, self.unsynced())]
        self.cached = bytearray(self.durable)
        self.changed_from = len(self.durable)

    def unsynced(self) -> int:
        """How many bytes were added and are not on the disk."""
        return max(0, len(self.cached) - self.changed_from)


class SimDisk(Disk):
    """The disk of one machine, over all lives of the node on it."""

    def __init__(self, chance: random.Random, sync_seconds: float) -> None:
        self.sync_seconds = sync_seconds
        self.is_full = False
        self.is_read_only = False
        self.fails_to_sync = False
        self.capacity = 0  # bytes beside those of traces; 0: as many as come
        self.trace_is_full = False
        self.failed_syncs = 0
        self.calls = 0
        self.die_in = 0  # calls; 0: not at all
        self.on_death: Callable[[], None] = lambda: None
        self.age = 0  # how many processes have used it and are gone
        self._chance = chance
        self._names: dict[Path, _Content] = {}
        self._durable_names: dict[Path, _Content] = {}

    # What happens to it

    def process_ended(self) -> None:
        """The process is gone, what it had locked with it, and its open files lead nowhere."""
        self.age += 1
        self.die_in = 0
        # A name that was replaced comes back if the power fails before that is durable.
        for content in (*self._names.values(), *self._durable_names.values()):
            content.lock = None

    def copy(self) -> dict[Path, bytes]:
        """A backup of everything, taken between two calls."""
        return self.files()

    def put_back(self, copy: Mapping[Path, bytes]) -> None:
        """An old copy takes the place of everything there is."""
        self._names = {path: _Content(content) for path, content in copy.items()}
        self._durable_names = dict(self._names)

    def cut_power(self) -> None:
        """What was not synced is lost, or torn; names go back to those that are durable."""
        traces = {path: content for path, content in self._names.items() if is_trace(path)}
        self._names = {**self._durable_names, **traces}
        for path, content in self._names.items():
            if not is_trace(path):
                content.lose(self._chance)

    def damage_traces(self) -> None:
        """A power cut left something in the files of the trace that nobody wrote."""
        for path, content in self._names.items():
            if is_trace(path) and content.cached:
                at = self._chance.randrange(len(content.cached))
                kind = self._chance.choice(("cut", "zeros", "flip", "flip"))
                if kind == "flip":
                    content.cached[at] ^= 1 << self._chance.randrange(8)
                else:
                    zeros = 0 if kind == "cut" else len(content.cached) - at
                    content.cached[at:] = bytes(zeros)
                content.changed_from = min(content.changed_from, at)

    def leave_room_for(self, size: int) -> None:
        """So many more bytes can be written; what is removed makes room again."""
        self.capacity = self._used() + size

    def _used(self) -> int:
        contents = {id(one): one for path, one in self._names.items() if not is_trace(path)}
        return sum(len(content.cached) for content in contents.values())

    def files(self) -> dict[Path, bytes]:
        """Everything there is, for the judges."""
        return {path: bytes(content.cached) for path, content in self._names.items()}

    # What a node asks for

    def open(self, path: Path, new: bool = False, mode: int = 0o600) -> File:
        self.begin_call(self.age)
        content = self._names.get(path)
        if content is None:
            self.check_room()
            content = self._names[path] = _Content()
        self.check_writable()
        if new:
            content.cut(0)
        return SimFile(self, content, is_trace(path))

    def exists(self, path: Path) -> bool:
        return path in self._names or any(path in name.parents for name in self._names)

    def names_in(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._names if path.parent == folder)

    def size_of(self, path: Path) -> int:
        return len(self._found(path).cached)

    def read(self, path: Path) -> bytes:
        return bytes(self._found(path).cached)

    def rename(self, path: Path, to: Path) -> None:
        self.begin_call(self.age)
        self.check_writable()
        self._names[to] = self._found(path)
        del self._names[path]

    def remove(self, path: Path) -> None:
        self.begin_call(self.age)
        self.check_writable()
        self._names.pop(path, None)

    def make_folder(self, folder: Path) -> None:
        """Folders are there as soon as a file is in them."""

    def sync_folder(self, folder: Path) -> None:
        self.begin_call(self.age)
        self.check_sync()
        for path in [path for path in self._durable_names if path.parent == folder]:
            if path not in self._names:
                del self._durable_names[path]
        for path, content in self._names.items():
            if path.parent == folder:
                self._durable_names[path] = content

    def worker(self, loop: asyncio.AbstractEventLoop, name: str) -> Worker:
        return SimWorker(self, loop)

    def begin_call(self, age: int) -> None:
        """A process that opened its files at this age does something; it may die of it."""
        if age != self.age:
            raise Died
        self.calls += 1
        if self.die_in:
            self.die_in -= 1
            if not self.die_in:
                self.on_death()
                raise Died

    def check_room(self, size: int = 0, of_trace: bool = False) -> None:
        """Raise if nothing more can be written, or not so much."""
        self.check_writable()
        if of_trace and self.trace_is_full:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        is_full = self.is_full
        if self.capacity and not of_trace and self._used() + size > self.capacity:
            is_full = True
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def check_writable(self) -> None:
        """Raise if nothing can be changed."""
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def check_sync(self) -> None:
        """Raise if what is in the cache cannot be written."""
        if self.fails_to_sync:
            self.failed_syncs += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def some_of(self, data: bytes) -> bytes:
        """What of a write is there when its process dies of it."""
        return data[: self._chance.randint(0, len(data))]

    def next_sync(self) -> float:
        """Seconds that the next sync takes."""
        return self.sync_seconds * self._chance.choice((0.1, 0.5, 1.0, 1.0, LONGEST_SYNC))

    def longest_sync(self) -> float:
        """Seconds that none takes longer than."""
        return self.sync_seconds * LONGEST_SYNC

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

    def __init__(self, disk: SimDisk, content: _Content, of_trace: bool) -> None:
        super().__init__(-1)
        self._of_trace = of_trace
        self._disk = disk
        self._content = content
        self._age = disk.age
        self._lock = _Lock()
        self._is_open = True

    def size(self) -> int:
        return len(self._content.cached)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content.cached[offset : offset + length])

    def write(self, offset: int, data: bytes) -> None:
        if self._disk.die_in == 1 and not self._disk.is_full and not self._disk.is_read_only:
            self._put(offset, self._disk.some_of(data))
        self._disk.begin_call(self._age)
        grows = max(0, offset + len(data) - len(self._content.cached))
        self._disk.check_room(grows, self._of_trace)
        self._put(offset, data)

    def _put(self, offset: int, data: bytes) -> None:
        content, cached = self._content, self._content.cached
        content.changed_from = min(content.changed_from, offset, len(cached))
        if len(cached) < offset:
            cached.extend(bytes(offset - len(cached)))
        cached[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        self._disk.begin_call(self._age)
        self._disk.check_writable()
        self._content.cut(size)

    def sync(self) -> None:
        self._disk.begin_call(self._age)
        self._disk.check_sync()
        self._content.sync()

    def sync_content(self) -> None:
        self.sync()

    def lock(self) -> bool:
        if self._content.lock not in (None, self._lock):
            return False
        self._content.lock = self._lock
        return True

    def again(self) -> File:
        other = SimFile(self._disk, self._content, self._of_trace)
        other._age = self._age
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
