"""The journal beside SQLite (and LMDB, where it is installed): speed, and what a flipped bit does.

Each store makes groups of 128-byte records durable, one sync per group, and then has bits of its
files flipped, one at a time; a reader that finds wrong or missing records without an error was
deceived. Stores take turns, five rounds, medians.

    python benchmarks/stores.py
"""

import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from causalcast.errors import CausalcastError
from causalcast.runtime.storage.journal import JournalFile

RECORD = 128
ROUNDS = 5
SECONDS = 0.4  # per store, size of group and round
GROUPS = (1, 16, 256)
FLIPS = 2000
RECORDS_TO_DAMAGE = 64


def records(count: int, start: int = 0) -> list[bytes]:
    return [random.Random(start + n).randbytes(RECORD) for n in range(count)]


class Journal:
    """Ours: append, fdatasync."""

    def __init__(self, folder: Path) -> None:
        self.file = JournalFile(folder / "journal")

    def commit(self, group: list[bytes]) -> None:
        self.file.append(group)

    def close(self) -> None:
        self.file.close()

    @staticmethod
    def read(folder: Path) -> list[bytes]:
        file = JournalFile(folder / "journal")
        file.close()
        return [entry.data for entry in file.found]


class Sqlite:
    """A table with a row per record; WAL, synchronous=FULL: durable when COMMIT returns."""

    def __init__(self, folder: Path) -> None:
        self.base = sqlite3.connect(folder / "base", isolation_level=None)
        self.base.execute("PRAGMA journal_mode=WAL")
        self.base.execute("PRAGMA synchronous=FULL")
        self.base.execute("CREATE TABLE log (n INTEGER PRIMARY KEY, data BLOB)")

    def commit(self, group: list[bytes]) -> None:
        self.base.execute("BEGIN")
        self.base.executemany("INSERT INTO log (data) VALUES (?)", [(one,) for one in group])
        self.base.execute("COMMIT")

    def close(self) -> None:
        self.base.close()

    @staticmethod
    def read(folder: Path) -> list[bytes]:
        base = sqlite3.connect(folder / "base")
        try:
            return [row[0] for row in base.execute("SELECT data FROM log ORDER BY n")]
        finally:
            base.close()


class CheckpointedSqlite(Sqlite):
    """The same when everything has moved from its log to its table."""

    def commit(self, group: list[bytes]) -> None:
        super().commit(group)
        self.base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Lmdb:
    """A key per record, synced at every commit."""

    def __init__(self, folder: Path) -> None:
        import lmdb

        self.base = lmdb.open(str(folder / "base"), map_size=1 << 30)
        self.count = 0

    def commit(self, group: list[bytes]) -> None:
        with self.base.begin(write=True) as transaction:
            for one in group:
                self.count += 1
                transaction.put(self.count.to_bytes(8, "big"), one)

    def close(self) -> None:
        self.base.close()

    @staticmethod
    def read(folder: Path) -> list[bytes]:
        import lmdb

        base = lmdb.open(str(folder / "base"), map_size=1 << 30)
        try:
            with base.begin() as transaction:
                return [bytes(value) for _, value in transaction.cursor()]
        finally:
            base.close()


def stores() -> dict[str, Callable[[Path], "Journal | Sqlite | Lmdb"]]:
    found: dict[str, Callable[[Path], Journal | Sqlite | Lmdb]] = {
        "journal": Journal,
        "SQLite WAL": Sqlite,
    }
    try:
        import lmdb  # noqa: F401
    except ImportError:
        print("LMDB is not installed, and left out (pip install lmdb)")
    else:
        found["LMDB"] = Lmdb
    return found


def speed(make: Callable[[Path], "Journal | Sqlite | Lmdb"], size: int) -> tuple[float, float]:
    """Records per second, and microseconds of CPU per record."""
    folder = Path(tempfile.mkdtemp())
    store = make(folder)
    group = records(size)
    began, cpu = time.monotonic(), time.process_time()
    count = 0
    while time.monotonic() < began + SECONDS:
        store.commit(group)
        count += size
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    store.close()
    shutil.rmtree(folder)
    return count / seconds, 1e6 * cpu / count


def flips(make: Callable[[Path], "Journal | Sqlite | Lmdb"]) -> Counter[str]:
    """What a reader is told after one bit of what was durable has flipped."""
    folder = Path(tempfile.mkdtemp())
    store = make(folder)
    wanted = records(RECORDS_TO_DAMAGE)
    for start in range(0, len(wanted), 4):
        store.commit(wanted[start : start + 4])
    copy = Path(tempfile.mkdtemp()) / "copy"
    shutil.copytree(folder, copy)  # as a crash leaves it: nothing is tidied up by closing
    store.close()
    files = [file for file in sorted(copy.rglob("*")) if file.is_file() and "shm" not in file.name]
    sizes = [len(file.read_bytes().rstrip(b"\0")) for file in files]
    dice = random.Random(1)
    told: Counter[str] = Counter()
    for _ in range(FLIPS):
        (file,) = dice.choices(files, sizes)
        at = dice.randrange(8 * sizes[files.index(file)])
        damaged = Path(tempfile.mkdtemp()) / "damaged"
        shutil.copytree(copy, damaged)
        content = bytearray(file.read_bytes())
        content[at // 8] ^= 1 << at % 8
        (damaged / file.relative_to(copy)).write_bytes(content)
        told[_told(type(store).read, damaged, wanted)] += 1
        shutil.rmtree(damaged.parent)
    shutil.rmtree(folder)
    shutil.rmtree(copy.parent)
    return told


def _told(read: Callable[[Path], list[bytes]], folder: Path, wanted: list[bytes]) -> str:
    try:
        found = read(folder)
    except CausalcastError:
        return "an error"
    except Exception:  # each store has its own
        return "an error"
    if found == wanted:
        return "nothing, and all is right"
    if found == wanted[: len(found)]:
        return "nothing, and the last are missing"
    return "nothing, and something is wrong"


def main() -> None:
    found = stores()
    rates: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for size in GROUPS:
            for name, make in found.items():
                rates.setdefault((name, size), []).append(speed(make, size))
    print(f"records of {RECORD} bytes per second, and CPU per record; medians of {ROUNDS}")
    for name in found:
        cells = []
        for size in GROUPS:
            rate = statistics.median(rate for rate, _ in rates[name, size])
            cpu = statistics.median(cpu for _, cpu in rates[name, size])
            cells.append(f"groups of {size}: {rate:,.0f}/s {cpu:.1f} µs")
        print(f"  {name:<12} " + "   ".join(cells))
    print(f"one flipped bit in {RECORDS_TO_DAMAGE} durable records, {FLIPS} times; told:")
    for name, make in {**found, "SQLite table": CheckpointedSqlite}.items():
        told = flips(make)
        parts = [f"{text}: {100 * n / FLIPS:.1f} %" for text, n in told.most_common()]
        print(f"  {name:<12} " + "   ".join(parts))


if __name__ == "__main__":
    main()
