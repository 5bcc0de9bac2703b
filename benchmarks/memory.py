"""Peak memory of this process, of Spark's JVM and of its Python workers, read from /proc."""

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


def _family() -> dict[str, int]:
    """Resident memory of this process and its descendants; of workers, the largest."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has just ended
            children.setdefault(parent, []).append(int(folder.name))
    found: dict[str, int] = {"driver": _resident(os.getpid())}
    waiting = list(children.get(os.getpid(), []))
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
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
