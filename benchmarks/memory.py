"""Peak memory and CPU time of this process, Spark's JVM and its Python workers, from /proc."""

import os
import threading
from pathlib import Path
from types import TracebackType

PERIOD_SECONDS = 0.2


class PeakMemory:
    """While it is open, remembers the highest resident memory of each kind of process, in MB."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            for name, megabytes in _family().items():
                self.peaks[name] = max(self.peaks.get(name, 0), megabytes)


def cpu_seconds() -> float:
    """What this process and all that it started have used so far: neighbours do not count."""
    return sum(_used(process) for process in _descendants()) / os.sysconf("SC_CLK_TCK")


def _used(process: int) -> int:
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has just ended; its parent knows
    return sum(int(ticks) for ticks in told[11:15])  # its own, and of children that ended


def _descendants() -> list[int]:
    """This process and its descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has just ended
            children.setdefault(parent, []).append(int(folder.name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found


def _family() -> dict[str, int]:
    """Resident memory of this process and its descendants; of workers, the largest."""
    found: dict[str, int] = {"driver": _resident(os.getpid())}
    for process in _descendants()[1:]:
        try:
            is_java = "java" in Path(f"/proc/{process}/comm").read_text()
        except OSError:
            continue
        name = "JVM" if is_java else "worker"
        found[name] = max(found.get(name, 0), _resident(process))
    return found


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
